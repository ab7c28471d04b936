/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/process/daemon.h"
#include "cli/process/logsink.h"

/* A report is one byte, ready or not, and the message. */
#define READY  '+'
#define FAILED '-'

#define END_WAIT_MS 2000

static int fail(struct cli_daemon *d, int ret, const char *what)
{
	snprintf(d->message, sizeof(d->message), "%s: %s", what, strerror(-ret));
	return ret;
}

/* --- the child --- */

static int redirect(int log_fd)
{
	int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int ret = 0;

	if (null_fd < 0)
		return -errno;
	if (dup2(null_fd, STDIN_FILENO) < 0 || dup2(log_fd, STDOUT_FILENO) < 0 ||
	    dup2(log_fd, STDERR_FILENO) < 0)
		ret = -errno;
	if (null_fd > STDERR_FILENO)
		close(null_fd);
	return ret;
}

/* A process that waits for the end of a pipe, or for a lock, that the caller had open waits for the
 * caller. A kernel that cannot close them leaves them open. */
static void close_inherited(int report_fd)
{
	const int first = STDERR_FILENO + 1;

	if (report_fd > first)
		close_range((unsigned)first, (unsigned)report_fd - 1, 0);
	close_range((unsigned)report_fd + 1, ~0U, 0);
}

static int become_child(struct cli_daemon *d, int report_fd, int log_fd)
{
	int ret;

	d->report_fd = report_fd;
	d->pid = getpid();
	d->message[0] = '\0';
	if (setsid() < 0)
		ret = -errno;
	else
		ret = redirect(log_fd);
	if (log_fd > STDERR_FILENO)
		close(log_fd);
	close_inherited(report_fd);
	if (ret) {
		cli_daemon_failed(d, "cannot leave the terminal: %s", strerror(-ret));
		_exit(1);
	}
	return 0;
}

/* The parent reads until the end, so a message may come in parts. */
static int report(struct cli_daemon *d, char kind, const char *message)
{
	char text[CLI_DAEMON_MESSAGE_MAX + 1];
	size_t len = (size_t)snprintf(text, sizeof(text), "%c%s", kind, message);
	size_t done = 0;
	int ret = 0;

	if (d->report_fd < 0)
		return 0;
	if (len >= sizeof(text))
		len = sizeof(text) - 1;
	while (done < len && !ret) {
		ssize_t n = write(d->report_fd, text + done, len - done);

		if (n >= 0)
			done += (size_t)n;
		else if (errno != EINTR)
			ret = -errno;
	}
	close(d->report_fd);
	d->report_fd = -1;
	return ret;
}

int cli_daemon_ready(struct cli_daemon *d, const char *message)
{
	return report(d, READY, message);
}

void cli_daemon_failed(struct cli_daemon *d, const char *fmt, ...)
{
	char message[CLI_DAEMON_MESSAGE_MAX];
	va_list args;

	va_start(args, fmt);
	vsnprintf(message, sizeof(message), fmt, args);
	va_end(args);
	report(d, FAILED, message);
}

/* --- the parent --- */

/* Reads to the end of the report; -ETIMEDOUT when it does not come. */
static int read_report(int fd, char *text, size_t room, uint64_t deadline)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t len = 0;

	for (;;) {
		uint64_t now = sl_clock_ns();
		ssize_t n;

		if (now >= deadline)
			return -ETIMEDOUT;
		if (poll(&p, 1, (int)((deadline - now) / SL_NS_PER_MS) + 1) <= 0)
			continue;
		n = read(fd, text + len, room - 1 - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0 || len + (size_t)n == room - 1) {
			text[len + (size_t)n] = '\0';
			return 0;
		}
		len += (size_t)n;
	}
}

/* Reaps the child, which has so long to end by itself, then is killed. */
static int reap(pid_t pid, int grace_ms)
{
	uint64_t deadline = sl_deadline_ns(grace_ms);
	int status;
	pid_t ret;

	while ((ret = waitpid(pid, &status, WNOHANG)) == 0 && sl_clock_ns() < deadline)
		poll(NULL, 0, 10);
	if (ret == 0) {
		kill(pid, SIGKILL);
		ret = waitpid(pid, &status, 0);
	}
	return ret == pid ? status : 0;
}

static int without_report(struct cli_daemon *d, const char *log_file)
{
	int status = reap(d->pid, END_WAIT_MS);

	if (WIFSIGNALED(status))
		snprintf(d->message, sizeof(d->message),
			 "ended by signal %d before it was ready, see %s", WTERMSIG(status),
			 log_file);
	else
		snprintf(d->message, sizeof(d->message),
			 "ended with status %d before it was ready, see %s", WEXITSTATUS(status),
			 log_file);
	return -ECHILD;
}

static int await_report(struct cli_daemon *d, const struct cli_daemon_attr *attr, int fd)
{
	char text[CLI_DAEMON_MESSAGE_MAX + 1];
	int ret = read_report(fd, text, sizeof(text), sl_deadline_ns(attr->timeout_ms));

	if (ret == -ETIMEDOUT) {
		kill(d->pid, SIGTERM);
		reap(d->pid, END_WAIT_MS);
		snprintf(d->message, sizeof(d->message), "not ready after %d ms, see %s",
			 attr->timeout_ms, attr->log_file);
		return ret;
	}
	if (ret || !text[0])
		return without_report(d, attr->log_file);
	memcpy(d->message, text + 1, strlen(text));
	if (text[0] == READY)
		return CLI_DAEMON_PARENT;
	reap(d->pid, END_WAIT_MS);
	return -ECHILD;
}

int cli_daemon_start(struct cli_daemon *d, const struct cli_daemon_attr *attr)
{
	int fds[2], log_fd, ret = 0;

	*d = (struct cli_daemon){ .report_fd = -1 };
	log_fd = cli_log_open_file(attr->log_file);
	if (log_fd < 0) {
		snprintf(d->message, sizeof(d->message), "%s: %s", attr->log_file,
			 cli_log_error(log_fd));
		return log_fd;
	}
	if (pipe2(fds, O_CLOEXEC)) {
		ret = fail(d, -errno, "pipe");
		goto close_log;
	}
	fflush(NULL);
	d->pid = fork();
	if (d->pid == 0) {
		close(fds[0]);
		return become_child(d, fds[1], log_fd);
	}
	ret = d->pid < 0 ? fail(d, -errno, "fork") : 0;
	close(fds[1]);
	if (!ret)
		ret = await_report(d, attr, fds[0]);
	close(fds[0]);
close_log:
	close(log_fd);
	return ret;
}
