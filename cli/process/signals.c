/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli/process/signals.h"

/* The signals that cli_signals_open() blocked, to be undone; signals are the process's, so there is
 * one. */
static sigset_t blocked;

static int handle_ignored(void (*how)(int))
{
	if (signal(SIGPIPE, how) == SIG_ERR || signal(SIGXFSZ, how) == SIG_ERR)
		return -errno;
	return 0;
}

int cli_signals_open(const int *signals, size_t n)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	for (size_t i = 0; i < n; i++)
		if (sigaddset(&set, signals[i]))
			return -errno;
	fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (sigprocmask(SIG_BLOCK, &set, NULL) || handle_ignored(SIG_IGN)) {
		int ret = -errno;

		close(fd);
		return ret;
	}
	blocked = set;
	return fd;
}

int cli_signals_read(int fd)
{
	struct signalfd_siginfo info;
	ssize_t n;

	do
		n = read(fd, &info, sizeof(info));
	while (n < 0 && errno == EINTR);
	if (n == (ssize_t)sizeof(info))
		return (int)info.ssi_signo;
	return n < 0 && errno == EAGAIN ? 0 : -EIO;
}

void cli_signals_let_kill(void)
{
	pthread_sigmask(SIG_UNBLOCK, &blocked, NULL);
}

void cli_signals_close(int fd)
{
	close(fd);
	sigprocmask(SIG_UNBLOCK, &blocked, NULL);
	handle_ignored(SIG_DFL);
}

void cli_signals_end(int fd)
{
	close(fd);
}

void cli_signals_reset_in_child(void)
{
	sigset_t none;

	handle_ignored(SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}
