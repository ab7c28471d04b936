/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/process/process.h"

/* The start time is the 22nd field of /proc/PID/stat; 20 come after the name. */
#define FIELDS_AFTER_NAME 20

static int read_small(const char *path, char *buf, size_t len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;
	int ret = 0;

	if (fd < 0)
		return -errno;
	n = read(fd, buf, len - 1);
	if (n < 0)
		ret = -errno;
	else
		buf[n] = '\0';
	close(fd);
	return ret;
}

/* The name may hold anything, brackets too, so the fields are counted from its last one. */
static int parse_start(const char *stat, uint64_t *start)
{
	const char *at = strrchr(stat, ')');

	for (int i = 0; i < FIELDS_AFTER_NAME && at; i++)
		at = strchr(at + 1, ' ');
	if (!at)
		return -EPROTO;
	*start = strtoull(at + 1, NULL, 10);
	return *start ? 0 : -EPROTO;
}

static int read_start(pid_t pid, uint64_t *start)
{
	char path[64], stat[1024];
	int ret;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	ret = read_small(path, stat, sizeof(stat));
	if (ret)
		return ret == -ENOENT ? -ESRCH : ret;
	return parse_start(stat, start);
}

static int read_boot_id(char out[CLI_BOOT_ID_LEN + 1])
{
	char text[64];
	int ret = read_small("/proc/sys/kernel/random/boot_id", text, sizeof(text));

	if (ret)
		return ret;
	if (strlen(text) < CLI_BOOT_ID_LEN)
		return -EPROTO;
	memcpy(out, text, CLI_BOOT_ID_LEN);
	out[CLI_BOOT_ID_LEN] = '\0';
	return 0;
}

int cli_process_of(pid_t pid, struct cli_process *out)
{
	struct cli_process p = { .pid = pid };
	int ret = pid > 0 ? read_start(pid, &p.start) : -ESRCH;

	if (!ret)
		ret = read_boot_id(p.boot_id);
	if (!ret)
		*out = p;
	return ret;
}

static bool same(const struct cli_process *a, const struct cli_process *b)
{
	return a->pid == b->pid && a->start == b->start && !strcmp(a->boot_id, b->boot_id);
}

int cli_process_open(const struct cli_process *p)
{
	struct cli_process now;
	int fd, ret;

	if (p->pid <= 0)
		return -ESRCH;
	fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	if (fd < 0)
		return errno == EINVAL ? -ESRCH : -errno;
	/* The descriptor belongs to the process that has the pid now; this tells whether it is the
	 * one meant. */
	ret = cli_process_of(p->pid, &now);
	if (!ret && !same(p, &now))
		ret = -ESRCH;
	if (ret) {
		close(fd);
		return ret;
	}
	return fd;
}

static int wait_fd(int fd, int timeout_ms)
{
	uint64_t deadline = sl_deadline_ns(timeout_ms);
	struct pollfd p = { .fd = fd, .events = POLLIN };

	for (;;) {
		uint64_t now = sl_clock_ns();
		int left = -1;
		int n;

		if (deadline != SL_NEVER)
			left = now < deadline ? (int)((deadline - now) / SL_NS_PER_MS) + 1 : 0;
		n = poll(&p, 1, left);
		if (n > 0)
			return 0;
		if (n == 0)
			return -ETIMEDOUT;
		if (errno != EINTR)
			return -errno;
	}
}

bool cli_process_alive(const struct cli_process *p)
{
	return cli_process_wait(p, 0) != 0;
}

int cli_process_signal(const struct cli_process *p, int sig)
{
	int fd = cli_process_open(p);
	int ret = 0;

	if (fd < 0)
		return fd;
	if (syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0) < 0)
		ret = -errno;
	close(fd);
	return ret;
}

int cli_process_wait(const struct cli_process *p, int timeout_ms)
{
	int fd = cli_process_open(p);
	int ret;

	if (fd == -ESRCH)
		return 0;
	if (fd < 0)
		return fd;
	ret = wait_fd(fd, timeout_ms);
	close(fd);
	return ret;
}
