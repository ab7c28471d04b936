/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "cli/process/process.h"

static pid_t child;

/* A child that waits to be killed. */
static pid_t start_child(void)
{
	pid_t parent = getpid();

	child = fork();
	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (getppid() == parent)
		pause();
	_exit(0);
}

static int teardown(void **state)
{
	(void)state;
	if (child > 0) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	child = 0;
	return 0;
}

static void of__the_own_pid_is_alive(void **state)
{
	struct cli_process p;

	(void)state;
	assert_int_equal(cli_process_of(getpid(), &p), 0);
	assert_int_equal(p.pid, getpid());
	assert_int_equal(strlen(p.boot_id), CLI_BOOT_ID_LEN);
	assert_true(cli_process_alive(&p));
	assert_int_equal(cli_process_wait(&p, 0), -ETIMEDOUT);
}

static void of__no_process_is_esrch(void **state)
{
	struct cli_process p;

	(void)state;
	assert_int_equal(cli_process_of(0, &p), -ESRCH);
	assert_int_equal(cli_process_of(-1, &p), -ESRCH);
	assert_int_equal(cli_process_of(0x7fffffff, &p), -ESRCH);
}

static void of__a_name_with_brackets_finds_the_start(void **state)
{
	struct cli_process plain, odd;

	(void)state;
	assert_int_equal(cli_process_of(getpid(), &plain), 0);
	prctl(PR_SET_NAME, ") R 1 2 (x");
	assert_int_equal(cli_process_of(getpid(), &odd), 0);
	prctl(PR_SET_NAME, "test");
	assert_true(plain.start == odd.start);
}

static void open__of_a_reused_pid_is_esrch(void **state)
{
	struct cli_process p;

	(void)state;
	assert_int_equal(cli_process_of(getpid(), &p), 0);
	p.start++;
	assert_int_equal(cli_process_open(&p), -ESRCH);
	assert_int_equal(cli_process_signal(&p, SIGKILL), -ESRCH);
	assert_false(cli_process_alive(&p));
	p.start--;
	p.boot_id[0] ^= 1;
	assert_int_equal(cli_process_open(&p), -ESRCH);
}

static void signal__ends_exactly_that_process(void **state)
{
	struct cli_process p;

	(void)state;
	assert_int_equal(cli_process_of(start_child(), &p), 0);
	assert_true(cli_process_alive(&p));
	assert_int_equal(cli_process_signal(&p, SIGKILL), 0);
	assert_int_equal(cli_process_wait(&p, 60000), 0);
	/* Nobody waited for it yet, and it counts as ended. */
	assert_false(cli_process_alive(&p));
	assert_int_equal(waitpid(child, NULL, 0), child);
	child = 0;
	assert_int_equal(cli_process_signal(&p, SIGKILL), -ESRCH);
	assert_int_equal(cli_process_wait(&p, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of__the_own_pid_is_alive),
		cmocka_unit_test(of__no_process_is_esrch),
		cmocka_unit_test(of__a_name_with_brackets_finds_the_start),
		cmocka_unit_test(open__of_a_reused_pid_is_esrch),
		cmocka_unit_test_teardown(signal__ends_exactly_that_process, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
