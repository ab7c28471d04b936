/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/process/child.h"
#include "cli/process/signals.h"

/* How long a program has to end after SIGTERM. */
#define GRACE_MS 5000

/* Between fork and exec, from here on. */

static bool put(int fd, int as)
{
	return fd == as ? fcntl(fd, F_SETFD, 0) == 0 : dup2(fd, as) == as;
}

static int become(const struct child_attr *attr, pid_t parent)
{
	cli_signals_reset_in_child();
	setpgid(0, 0);
	if (prctl(PR_SET_PDEATHSIG, attr->death_signal ? attr->death_signal : SIGKILL) ||
	    getppid() != parent)
		return ESRCH;
	if (!put(attr->in, 0) || !put(attr->out, 1) || !put(attr->err, 2))
		return errno;
	if (attr->dir && chdir(attr->dir))
		return errno;
	if (attr->locale && setenv("LC_ALL", attr->locale, 1))
		return errno;
	execvp(attr->argv[0], attr->argv);
	return errno;
}

/* ---- the parent ---- */

/* What become() came to, through a pipe that exec closes. 0 when the program runs. */
static int hear_of_exec(int fd)
{
	int failed = 0;
	ssize_t n;

	do
		n = read(fd, &failed, sizeof(failed));
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(failed) ? -failed : 0;
}

/* Until it is reaped its pid, and so its group, is nobody else's. */
static int reap(struct child *c)
{
	siginfo_t info;
	int status;

	while (waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
		;
	kill(-c->pid, SIGKILL);
	while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (c->pidfd >= 0)
		close(c->pidfd);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int child_start(struct child *c, const struct child_attr *attr)
{
	pid_t parent = getpid();
	int report[2];
	int ret;

	if (pipe2(report, O_CLOEXEC))
		return -errno;
	c->pidfd = -1;
	c->pid = fork();
	if (!c->pid) {
		int failed = become(attr, parent);

		(void)!write(report[1], &failed, sizeof(failed));
		_exit(127);
	}
	ret = c->pid < 0 ? -errno : 0;
	close(report[1]);
	if (!ret)
		ret = hear_of_exec(report[0]);
	close(report[0]);
	if (!ret) {
		c->pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
		ret = c->pidfd < 0 ? -errno : 0;
		if (ret)
			kill(-c->pid, SIGKILL);
	}
	if (ret && c->pid > 0)
		reap(c);
	return ret;
}

/* Until it ends; which is also when its pidfd is readable. */
static int wait_for(struct child *c, int64_t timeout_ms, int signals, int *caught)
{
	struct pollfd fds[] = { { .fd = c->pidfd, .events = POLLIN },
				{ .fd = signals, .events = POLLIN } };
	uint64_t end = sl_clock_ns() + (uint64_t)timeout_ms * SL_NS_PER_MS;

	for (;;) {
		uint64_t now = sl_clock_ns();

		if (now >= end)
			return -ETIMEDOUT;
		if (poll(fds, 2, (int)((end - now) / SL_NS_PER_MS) + 1) <= 0)
			continue;
		if (fds[0].revents)
			return 0;
		*caught = cli_signals_read(signals);
		if (*caught > 0)
			return -EINTR;
	}
}

int child_wait(struct child *c, int64_t timeout_ms, int signals, int *caught)
{
	int ret = wait_for(c, timeout_ms, signals, caught);
	int again = 0;
	int status;

	if (ret) {
		kill(-c->pid, SIGTERM);
		if (wait_for(c, GRACE_MS, -1, &again))
			kill(-c->pid, SIGKILL);
	}
	status = reap(c);
	return ret ? ret : status;
}
