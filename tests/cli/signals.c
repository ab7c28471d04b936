/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "cli/process/signals.h"

static const int wanted[] = { SIGTERM, SIGHUP };

static void read__gives_each_signal_once(void **state)
{
	int fd = cli_signals_open(wanted, 2), first, second;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(cli_signals_read(fd), 0);
	kill(getpid(), SIGTERM);
	kill(getpid(), SIGHUP);
	first = cli_signals_read(fd);
	second = cli_signals_read(fd);
	assert_int_equal(first + second, SIGTERM + SIGHUP);
	assert_int_equal(cli_signals_read(fd), 0);
	cli_signals_close(fd);
}

static void open__makes_a_closed_pipe_an_error(void **state)
{
	int fd = cli_signals_open(wanted, 2), fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	close(fds[0]);
	assert_int_equal(write(fds[1], "x", 1), -1);
	assert_int_equal(errno, EPIPE);
	close(fds[1]);
	cli_signals_close(fd);
}

static void open__makes_a_file_beyond_the_limit_an_error(void **state)
{
	int fd = cli_signals_open(wanted, 2), file = memfd_create("test", MFD_CLOEXEC);
	struct rlimit had, small;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &had), 0);
	small = (struct rlimit){ .rlim_cur = 4096, .rlim_max = had.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(ftruncate(file, 8192), -1);
	assert_int_equal(errno, EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &had), 0);
	close(file);
	cli_signals_close(fd);
}

static void reset__lets_a_child_be_ended(void **state)
{
	int fd = cli_signals_open(wanted, 2), status;
	pid_t child = fork();

	(void)state;
	if (child == 0) {
		cli_signals_reset_in_child();
		kill(getpid(), SIGTERM);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGTERM);
	cli_signals_close(fd);
}

static void end__leaves_the_process_alone(void **state)
{
	pid_t child = fork();
	int status;

	(void)state;
	if (child == 0) {
		int fd = cli_signals_open(wanted, 2);

		kill(getpid(), SIGHUP);
		cli_signals_end(fd);
		kill(getpid(), SIGTERM);
		_exit(7);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read__gives_each_signal_once),
		cmocka_unit_test(open__makes_a_closed_pipe_an_error),
		cmocka_unit_test(open__makes_a_file_beyond_the_limit_an_error),
		cmocka_unit_test(reset__lets_a_child_be_ended),
		cmocka_unit_test(end__leaves_the_process_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
