/* SPDX-License-Identifier: Apache-2.0 */
#include "nanoctrl/net/send.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <sys/socket.h>

static void send__of_one_piece_and_of_several_leaves_at_once(void **state)
{
	static const char *const pieces[] = { "one", "two", "three" };
	struct event_base *base = event_base_new();
	struct bufferevent *bev;
	int ends[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
	bev = bufferevent_socket_new(base, ends[0], BEV_OPT_CLOSE_ON_FREE);
	assert_non_null(bev);
	send_begin(bev);
	for (size_t n = 1; n <= 3; n++) {
		char got[32];
		size_t len = 0;

		for (size_t i = 0; i < n; i++) {
			evbuffer_add_reference(bufferevent_get_output(bev), pieces[i],
					       strlen(pieces[i]), NULL, NULL);
			len += strlen(pieces[i]);
		}
		assert_true(send_now(bev));
		assert_int_equal(read(ends[1], got, sizeof(got)), len);
		assert_memory_equal(got, "onetwothree", len);
	}
	bufferevent_free(bev);
	event_base_free(base);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(send__of_one_piece_and_of_several_leaves_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
