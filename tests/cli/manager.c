/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "cli/process/manager.h"

/* A socket as a service manager has one, at an abstract name that the kernel chose. */
struct manager {
	int fd;
	char name[64]; /* as in NOTIFY_SOCKET */
};

static int setup(void **state)
{
	static struct manager m;
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(address);

	m.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_true(m.fd >= 0);
	assert_int_equal(bind(m.fd, (struct sockaddr *)&address, sizeof(sa_family_t)), 0);
	assert_int_equal(getsockname(m.fd, (struct sockaddr *)&address, &len), 0);
	snprintf(m.name, sizeof(m.name), "@%.*s",
		 (int)(len - offsetof(struct sockaddr_un, sun_path) - 1), address.sun_path + 1);
	setenv("NOTIFY_SOCKET", m.name, 1);
	*state = &m;
	return 0;
}

static int teardown(void **state)
{
	struct manager *m = *state;

	close(m->fd);
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
	return 0;
}

static const char *heard(struct manager *m)
{
	static char text[CLI_MANAGER_STATE_MAX];
	ssize_t n = recv(m->fd, text, sizeof(text) - 1, 0);

	text[n < 0 ? 0 : n] = '\0';
	return text;
}

static void tell__reaches_an_abstract_socket(void **state)
{
	assert_int_equal(cli_manager_tell("READY=1"), 0);
	assert_string_equal(heard(*state), "READY=1");
}

static void tell__reaches_a_socket_in_the_file_system(void **state)
{
	struct manager m = { .fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char dir[] = "/tmp/slime-manager-XXXXXX";

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", dir);
	assert_int_equal(bind(m.fd, (struct sockaddr *)&address, sizeof(address)), 0);
	setenv("NOTIFY_SOCKET", address.sun_path, 1);
	assert_int_equal(cli_manager_tell("STOPPING=1"), 0);
	assert_string_equal(heard(&m), "STOPPING=1");
	unlink(address.sun_path);
	rmdir(dir);
	close(m.fd);
}

static void tell__without_a_manager_does_nothing(void **state)
{
	(void)state;
	unsetenv("NOTIFY_SOCKET");
	assert_int_equal(cli_manager_tell("READY=1"), 0);
	setenv("NOTIFY_SOCKET", "", 1);
	assert_int_equal(cli_manager_tell("READY=1"), 0);
}

static void tell__to_what_is_no_socket_is_an_error(void **state)
{
	char name[300];

	(void)state;
	setenv("NOTIFY_SOCKET", "relative/path", 1);
	assert_int_equal(cli_manager_tell("READY=1"), -EINVAL);
	setenv("NOTIFY_SOCKET", "@", 1);
	assert_int_equal(cli_manager_tell("READY=1"), -EINVAL);
	setenv("NOTIFY_SOCKET", "/nonexistent/socket", 1);
	assert_int_equal(cli_manager_tell("READY=1"), -ENOENT);
	memset(name, 'x', sizeof(name) - 1);
	name[0] = '/';
	name[sizeof(name) - 1] = '\0';
	setenv("NOTIFY_SOCKET", name, 1);
	assert_int_equal(cli_manager_tell("READY=1"), -EINVAL);
}

static void tell__to_a_manager_that_does_not_read_never_blocks(void **state)
{
	int ret = 0;

	(void)state;
	for (int i = 0; i < 100000 && !ret; i++)
		ret = cli_manager_tell("WATCHDOG=1");
	assert_int_equal(ret, -EAGAIN);
}

static void tell_reloading__carries_the_time(void **state)
{
	unsigned long long us = 0;

	assert_int_equal(cli_manager_tell_reloading(), 0);
	assert_int_equal(sscanf(heard(*state), "RELOADING=1\nMONOTONIC_USEC=%llu", &us), 1);
	assert_true(us > 0);
}

static void watchdog_ms__is_half_of_what_the_manager_waits(void **state)
{
	char pid[16];

	(void)state;
	assert_int_equal(cli_manager_watchdog_ms(), 0);
	setenv("WATCHDOG_USEC", "20000000", 1);
	assert_int_equal(cli_manager_watchdog_ms(), 10000);
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	setenv("WATCHDOG_PID", pid, 1);
	assert_int_equal(cli_manager_watchdog_ms(), 10000);
	setenv("WATCHDOG_USEC", "100", 1);
	assert_int_equal(cli_manager_watchdog_ms(), 1);
}

static void watchdog_ms__meant_for_another_process_or_malformed_is_none(void **state)
{
	static const char *const malformed[] = { "", "0", "-5", "5s", "99999999999999999999999" };

	(void)state;
	for (size_t i = 0; i < sizeof(malformed) / sizeof(*malformed); i++) {
		setenv("WATCHDOG_USEC", malformed[i], 1);
		assert_int_equal(cli_manager_watchdog_ms(), 0);
	}
	setenv("WATCHDOG_USEC", "20000000", 1);
	setenv("WATCHDOG_PID", "1", 1);
	assert_int_equal(cli_manager_watchdog_ms(), 0);
}

static void directory__is_the_first_of_the_list(void **state)
{
	char out[64], small[8];

	(void)state;
	setenv("STATE_DIRECTORY", "/var/lib/one:/var/lib/two", 1);
	assert_int_equal(cli_manager_directory("STATE_DIRECTORY", out, sizeof(out)), 0);
	assert_string_equal(out, "/var/lib/one");
	assert_int_equal(cli_manager_directory("STATE_DIRECTORY", small, sizeof(small)),
			 -ENAMETOOLONG);
	setenv("STATE_DIRECTORY", "relative", 1);
	assert_int_equal(cli_manager_directory("STATE_DIRECTORY", out, sizeof(out)), -ENOENT);
	unsetenv("STATE_DIRECTORY");
	assert_int_equal(cli_manager_directory("STATE_DIRECTORY", out, sizeof(out)), -ENOENT);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(tell__reaches_an_abstract_socket),
		TEST(tell__reaches_a_socket_in_the_file_system),
		TEST(tell__without_a_manager_does_nothing),
		TEST(tell__to_what_is_no_socket_is_an_error),
		TEST(tell__to_a_manager_that_does_not_read_never_blocks),
		TEST(tell_reloading__carries_the_time),
		TEST(watchdog_ms__is_half_of_what_the_manager_waits),
		TEST(watchdog_ms__meant_for_another_process_or_malformed_is_none),
		TEST(directory__is_the_first_of_the_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
