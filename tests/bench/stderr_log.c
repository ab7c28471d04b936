/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "bench/output/stderr_log.h"

static int fds[2], before;

static void begin(void)
{
	before = dup(STDERR_FILENO);
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(dup2(fds[1], STDERR_FILENO), STDERR_FILENO);
	close(fds[1]);
	stderr_log_open();
}

/* What was said since begin(). */
static const char *end(void)
{
	static char text[8192];
	ssize_t n;

	dup2(before, STDERR_FILENO);
	close(before);
	n = read(fds[0], text, sizeof(text) - 1);
	close(fds[0]);
	text[n > 0 ? n : 0] = '\0';
	return text;
}

static void line__that_was_said_is_not_said_again(void **state)
{
	(void)state;
	begin();
	for (int i = 0; i < 3; i++)
		sl_warn("tcp", "refused");
	assert_string_equal(end(), "warn tcp: refused\n");
}

static void line__that_differs_is_said(void **state)
{
	(void)state;
	begin();
	sl_warn("tcp", "no peer");
	sl_warn("shm", "no peer");
	sl_warn("tcp", "no peers");
	sl_error("tcp", "no peer");
	assert_string_equal(end(), "warn tcp: no peer\nwarn shm: no peer\n"
				   "warn tcp: no peers\nerror tcp: no peer\n");
}

static void line__of_long_ago_is_said_again(void **state)
{
	const char *text;

	(void)state;
	begin();
	sl_warn("rdma", "down");
	for (int i = 0; i < 100; i++)
		sl_warn("rdma", "%d", i);
	sl_warn("rdma", "down");
	text = strstr(end(), "warn rdma: down\n");
	assert_non_null(text);
	assert_non_null(strstr(text + 1, "warn rdma: down\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(line__that_was_said_is_not_said_again),
		cmocka_unit_test(line__that_differs_is_said),
		cmocka_unit_test(line__of_long_ago_is_said_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
