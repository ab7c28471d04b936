/* SPDX-License-Identifier: Apache-2.0 */
#define _XOPEN_SOURCE 700
#include "bench/agents/discovery.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#define STOP_MS	    15000
#define ADDRESS_MAX 64

/* HOST:PORT, or [HOST]:PORT, in its parts. */
static int split(const char *addr, char host[ADDRESS_MAX], unsigned *port)
{
	unsigned char bytes[16];
	char end;

	if (sscanf(addr, "[%63[0-9a-fA-F:.]]:%5u%c", host, port, &end) == 2)
		return inet_pton(AF_INET6, host, bytes) == 1 && *port <= 65535 ? 0 : -EINVAL;
	if (sscanf(addr, "%63[0-9.]:%5u%c", host, port, &end) != 2)
		return -EINVAL;
	return inet_pton(AF_INET, host, bytes) == 1 && *port && *port <= 65535 ? 0 : -EINVAL;
}

const char *discovery_check(const char *addr)
{
	char host[ADDRESS_MAX];
	unsigned port;

	return split(addr, host, &port) ? "ADDRESS:PORT, as 127.0.0.1:31998" : NULL;
}

void discovery_url(const char *addr, char out[DISCOVERY_URL_MAX])
{
	char host[ADDRESS_MAX];
	unsigned port;

	if (split(addr, host, &port))
		*out = '\0';
	else if (!strcmp(host, "0.0.0.0"))
		snprintf(out, DISCOVERY_URL_MAX, "http://127.0.0.1:%u", port);
	else if (!strcmp(host, "::"))
		snprintf(out, DISCOVERY_URL_MAX, "http://[::1]:%u", port);
	else
		snprintf(out, DISCOVERY_URL_MAX, "http://%s", addr);
}

/* The nanoctrl beside this program, else the one that PATH has. */
static void find_program(char out[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - sizeof("/nanoctrl"));
	char *slash;

	out[n > 0 ? n : 0] = '\0';
	slash = strrchr(out, '/');
	if (slash)
		strcpy(slash, "/nanoctrl");
	if (!slash || access(out, X_OK))
		strcpy(out, "nanoctrl");
}

static int run(struct discovery *d, char *host, unsigned port)
{
	char program[PATH_MAX], port_text[8], log[PATH_MAX + 8], data[PATH_MAX + 8];
	char *argv[] = { program,
			 "server",
			 "--host",
			 host,
			 "--port",
			 port_text,
			 "--runtime-dir",
			 d->dir,
			 "--data-dir",
			 data,
			 "--insecure",
			 "--set",
			 "server.drain_accept=0",
			 NULL };
	/* SIGTERM: after a SIGKILL its private Redis would be left */
	struct child_attr attr = { .argv = argv, .death_signal = SIGTERM };
	int ret;

	find_program(program);
	snprintf(port_text, sizeof(port_text), "%u", port);
	snprintf(log, sizeof(log), "%s/log", d->dir);
	snprintf(data, sizeof(data), "%s/redis", d->dir);
	attr.in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	attr.out = attr.err = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	ret = attr.in < 0 || attr.out < 0 ? -errno : child_start(&d->nanoctrl, &attr);
	if (attr.in >= 0)
		close(attr.in);
	if (attr.out >= 0)
		close(attr.out);
	return ret;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st;
	(void)kind;
	(void)ftw;
	return remove(path);
}

static void remove_files(struct discovery *d)
{
	nftw(d->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	d->dir[0] = '\0';
}

int discovery_start(struct discovery *d, const char *addr)
{
	const char *tmp = getenv("TMPDIR");
	char host[ADDRESS_MAX];
	unsigned port;
	int ret = split(addr, host, &port);

	d->dir[0] = '\0';
	if (ret)
		return ret;
	snprintf(d->dir, sizeof(d->dir), "%s/slime-discovery-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(d->dir)) {
		d->dir[0] = '\0';
		return -errno;
	}
	ret = run(d, host, port);
	if (ret)
		remove_files(d);
	return ret;
}

void discovery_stop(struct discovery *d)
{
	if (!d->dir[0])
		return;
	kill(d->nanoctrl.pid, SIGTERM);
	(void)child_wait(&d->nanoctrl, STOP_MS, -1, NULL);
	remove_files(d);
}
