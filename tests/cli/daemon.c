/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "cli/process/daemon.h"

static char dir[] = "/tmp/slime-daemon-XXXXXX";
static char log_file[64];

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(log_file, sizeof(log_file), "%s/log", dir);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(log_file);
	return rmdir(dir);
}

static void read_log(char *out, size_t len)
{
	FILE *f = fopen(log_file, "r");

	assert_non_null(f);
	out[fread(out, 1, len - 1, f)] = '\0';
	fclose(f);
}

/* In the child: what it does; it never comes back. */
typedef void child_fn(struct cli_daemon *d);

static int start(struct cli_daemon *d, int timeout_ms, child_fn *fn)
{
	struct cli_daemon_attr attr = { .log_file = log_file, .timeout_ms = timeout_ms };
	int ret = cli_daemon_start(d, &attr);

	if (ret)
		return ret;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fn(d);
	_exit(9);
}

static void be_ready(struct cli_daemon *d)
{
	dprintf(STDOUT_FILENO, "session %d, input %d\n", getsid(0) == getpid(),
		(int)read(STDIN_FILENO, &(char){ 0 }, 1));
	if (cli_daemon_ready(d, "http://127.0.0.1:3000"))
		_exit(8);
	pause();
}

static void start__returns_with_the_message_of_a_ready_child(void **state)
{
	struct cli_daemon d;
	char text[256];

	(void)state;
	assert_int_equal(start(&d, 60000, be_ready), CLI_DAEMON_PARENT);
	assert_string_equal(d.message, "http://127.0.0.1:3000");
	assert_int_equal(kill(d.pid, SIGKILL), 0);
	assert_int_equal(waitpid(d.pid, NULL, 0), d.pid);
	read_log(text, sizeof(text));
	assert_string_equal(text, "session 1, input 0\n");
}

static void start__leaves_what_the_caller_has_open_to_the_caller(void **state)
{
	struct pollfd end = { .events = POLLIN };
	struct cli_daemon d;
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(start(&d, 60000, be_ready), CLI_DAEMON_PARENT);
	close(fds[1]);
	end.fd = fds[0];
	poll(&end, 1, 0);
	kill(d.pid, SIGKILL);
	waitpid(d.pid, NULL, 0);
	close(fds[0]);
	assert_int_equal(end.revents, POLLHUP);
}

static void give_up(struct cli_daemon *d)
{
	cli_daemon_failed(d, "cannot listen on port %d", 80);
	_exit(1);
}

static void start__tells_why_the_child_failed(void **state)
{
	struct cli_daemon d;

	(void)state;
	assert_int_equal(start(&d, 60000, give_up), -ECHILD);
	assert_string_equal(d.message, "cannot listen on port 80");
	assert_int_equal(waitpid(d.pid, NULL, 0), -1);
}

static void just_end(struct cli_daemon *d)
{
	(void)d;
	_exit(3);
}

static void crash(struct cli_daemon *d)
{
	(void)d;
	signal(SIGTERM, SIG_DFL);
	kill(getpid(), SIGTERM);
	pause();
}

static void start__tells_how_a_child_without_a_report_ended(void **state)
{
	struct cli_daemon d;

	(void)state;
	assert_int_equal(start(&d, 60000, just_end), -ECHILD);
	assert_non_null(strstr(d.message, "ended with status 3 before it was ready, see /tmp/"));
	assert_int_equal(start(&d, 60000, crash), -ECHILD);
	assert_non_null(strstr(d.message, "ended by signal 15 before it was ready, see /tmp/"));
}

static void hang(struct cli_daemon *d)
{
	(void)d;
	for (;;)
		pause();
}

static void start__ends_a_child_that_is_late(void **state)
{
	struct cli_daemon d;

	(void)state;
	assert_int_equal(start(&d, 100, hang), -ETIMEDOUT);
	assert_non_null(strstr(d.message, "not ready after 100 ms, see /tmp/"));
	assert_int_equal(kill(d.pid, 0), -1);
}

static void start__without_a_log_file_says_why(void **state)
{
	struct cli_daemon_attr attr = { .log_file = "/nonexistent/log", .timeout_ms = 1000 };
	struct cli_daemon d;

	(void)state;
	assert_int_equal(cli_daemon_start(&d, &attr), -ENOENT);
	assert_string_equal(d.message, "/nonexistent/log: No such file or directory");
}

static void start__with_a_log_that_nobody_reads_says_so(void **state)
{
	char place[] = "/tmp/slime-fifo-XXXXXX", fifo[64];
	struct cli_daemon_attr attr = { .log_file = fifo, .timeout_ms = 1000 };
	struct cli_daemon d;

	(void)state;
	assert_non_null(mkdtemp(place));
	snprintf(fifo, sizeof(fifo), "%s/fifo", place);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(cli_daemon_start(&d, &attr), -ENXIO);
	unlink(fifo);
	rmdir(place);
	assert_non_null(strstr(d.message, "a FIFO without a reader"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(start__returns_with_the_message_of_a_ready_child),
		cmocka_unit_test(start__leaves_what_the_caller_has_open_to_the_caller),
		cmocka_unit_test(start__tells_why_the_child_failed),
		cmocka_unit_test(start__tells_how_a_child_without_a_report_ended),
		cmocka_unit_test(start__ends_a_child_that_is_late),
		cmocka_unit_test(start__without_a_log_file_says_why),
		cmocka_unit_test(start__with_a_log_that_nobody_reads_says_so),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
