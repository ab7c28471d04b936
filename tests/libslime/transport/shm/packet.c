/* SPDX-License-Identifier: Apache-2.0 */
/* What a hostile process may say over the unix socket of a shm connection. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/transport/shm/channel.h"
#include "support/send_fds.h"

#define PACKET_LEN 48

/* sock[0] is ours, sock[1] the peer's. */
static int sock[2];

static int open_pair(void **state)
{
	(void)state;
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock);
}

static int close_pair(void **state)
{
	(void)state;
	close(sock[0]);
	close(sock[1]);
	return 0;
}

/* n copies of one descriptor go along. */
static void say(const void *bytes, size_t len, int fd, size_t n)
{
	int fds[SEND_FDS_MAX];

	assert_true(n <= SEND_FDS_MAX);
	for (size_t i = 0; i < n; i++)
		fds[i] = fd;
	assert_int_equal(send_fds(sock[1], bytes, len, fds, n), len);
}

/* The lowest free number: it rises when a descriptor is left open. */
static int lowest_free(void)
{
	int fd = eventfd(0, EFD_CLOEXEC);

	assert_true(fd >= 0);
	close(fd);
	return fd;
}

/* The answer to a packet that comes with n descriptors, of which none may stay. */
static int answer_to(const void *bytes, size_t len, size_t n)
{
	int before = lowest_free();
	struct shm_packet p;
	int fd = eventfd(0, EFD_CLOEXEC);
	int ret;

	assert_true(fd >= 0);
	say(bytes, len, fd, n);
	close(fd);
	ret = shm_channel_recv(sock[0], &p);
	assert_int_equal(lowest_free(), before);
	return ret;
}

static void recv__an_empty_packet_leaves_no_descriptor(void **state)
{
	(void)state;
	assert_int_equal(answer_to("", 0, 2), -ECONNRESET);
}

static void recv__descriptors_nobody_expects_are_closed(void **state)
{
	const uint8_t bye[PACKET_LEN] = { SHM_PACKET_VERSION, SHM_BYE, 0, 1 };

	(void)state;
	assert_int_equal(answer_to(bye, sizeof(bye), 1), -EPROTO);
}

static void recv__a_bell_with_a_descriptor_leaves_none(void **state)
{
	const uint8_t bell = SHM_PACKET_VERSION;

	(void)state;
	assert_int_equal(answer_to(&bell, 1, 0), 0);
	assert_int_equal(answer_to(&bell, 1, 1), -EPROTO);
	assert_int_equal(answer_to(&bell, 1, 8), -EPROTO);
}

static void recv__more_descriptors_than_fit_are_closed(void **state)
{
	const uint8_t segment[PACKET_LEN] = { SHM_PACKET_VERSION, SHM_SEGMENT, 0, 3 };

	(void)state;
	assert_int_equal(answer_to(segment, sizeof(segment), 8), -EPROTO);
}

static void recv__a_packet_too_long_leaves_no_descriptor(void **state)
{
	const uint8_t segment[PACKET_LEN + 8] = { SHM_PACKET_VERSION, SHM_SEGMENT, 0, 3 };

	(void)state;
	assert_int_equal(answer_to(segment, sizeof(segment), 3), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(recv__an_empty_packet_leaves_no_descriptor,
						open_pair, close_pair),
		cmocka_unit_test_setup_teardown(recv__descriptors_nobody_expects_are_closed,
						open_pair, close_pair),
		cmocka_unit_test_setup_teardown(recv__a_bell_with_a_descriptor_leaves_none,
						open_pair, close_pair),
		cmocka_unit_test_setup_teardown(recv__more_descriptors_than_fit_are_closed,
						open_pair, close_pair),
		cmocka_unit_test_setup_teardown(recv__a_packet_too_long_leaves_no_descriptor,
						open_pair, close_pair),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
