/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that run for slime-bench: their end, and that of what they started. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "bench/process/child.h"

#define LONG_MS 60000

/* How often a group was signalled when its leader's pid was anybody's. */
static int n_late;

int __real_kill(pid_t pid, int sig);
int __wrap_kill(pid_t pid, int sig);

int __wrap_kill(pid_t pid, int sig)
{
	siginfo_t info;

	if (pid < 0 && waitid(P_PID, (id_t)-pid, &info, WEXITED | WNOHANG | WNOWAIT))
		n_late++;
	return __real_kill(pid, sig);
}

struct run {
	struct child child;
	int out; /* what it holds open until the last of its group is dead */
};

static void run_script(struct run *r, char *script)
{
	char *argv[] = { "sh", "-c", script, NULL };
	struct child_attr attr = { .argv = argv };
	int fds[2];

	n_late = 0;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	attr.in = open("/dev/null", O_RDWR | O_CLOEXEC);
	attr.out = fds[1];
	attr.err = attr.in;
	assert_int_equal(child_start(&r->child, &attr), 0);
	close(attr.in);
	close(fds[1]);
	r->out = fds[0];
}

static void assert_nobody_is_left(struct run *r)
{
	struct pollfd end = { .fd = r->out, .events = POLLIN };
	char c;

	assert_int_equal(poll(&end, 1, LONG_MS), 1);
	assert_int_equal(read(r->out, &c, 1), 0);
	close(r->out);
}

static void wait__for_its_end_gives_the_status_and_ends_its_group(void **state)
{
	struct run r;
	int caught = 0;

	(void)state;
	run_script(&r, "sleep 600 & exit 3");

	assert_int_equal(child_wait(&r.child, LONG_MS, -1, &caught), 3);

	assert_nobody_is_left(&r);
	assert_int_equal(n_late, 0);
}

static void wait__beyond_its_time_ends_it(void **state)
{
	struct run r;
	int caught = 0;

	(void)state;
	run_script(&r, "sleep 600 & wait");

	assert_int_equal(child_wait(&r.child, 1, -1, &caught), -ETIMEDOUT);

	assert_nobody_is_left(&r);
	assert_int_equal(n_late, 0);
}

static void start__of_what_is_not_there_is_enoent(void **state)
{
	char *argv[] = { "/nowhere/program", NULL };
	struct child_attr attr = { .argv = argv, .in = 0, .out = 1, .err = 2 };
	struct child child;

	(void)state;
	n_late = 0;

	assert_int_equal(child_start(&child, &attr), -ENOENT);

	assert_int_equal(n_late, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wait__for_its_end_gives_the_status_and_ends_its_group),
		cmocka_unit_test(wait__beyond_its_time_ends_it),
		cmocka_unit_test(start__of_what_is_not_there_is_enoent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
