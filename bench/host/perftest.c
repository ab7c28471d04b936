/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/host/perftest.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "bench/process/child.h"

#define PROGRAM	  "ib_read_bw"
#define LISTEN_MS 15000 /* until its server listens */
#define GRACE_MS  30000 /* beyond its duration */
#define END_MS	  5000
#define SAID_MAX  16384
#define WORD_MAX  24
#define LISTENING 0x0a /* a state in /proc/net/tcp */

/* A server and a client of one device. */
struct pair {
	unsigned port;
	struct child server, client;
	bool serves, runs;
	int said; /* what the client prints */
};

int perftest_parse(const char *text, uint64_t size, double *gb_s)
{
	int ret = -EPROTO;

	for (const char *at = text; at; at = strchr(at, '\n'), at += at ? 1 : 0) {
		uint64_t bytes;
		double gbits;

		/* bytes, iterations, peak, average */
		if (sscanf(at, "%" SCNu64 " %*u %*f %lf", &bytes, &gbits) == 2 && bytes == size &&
		    gbits > 0) {
			*gb_s = gbits / 8;
			ret = 0;
		}
	}
	return ret;
}

/* A port that was free a moment ago. */
static int free_port(unsigned *out)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), ret = 0;

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&at, len) || getsockname(fd, (struct sockaddr *)&at, &len))
		ret = -errno;
	*out = ntohs(at.sin_port);
	close(fd);
	return ret;
}

static bool listens_in(const char *path, unsigned port)
{
	FILE *in = fopen(path, "re");
	char line[512];
	bool found = false;

	while (in && !found && fgets(line, sizeof(line), in)) {
		unsigned at, state;

		found = sscanf(line, " %*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x", &at, &state) ==
				2 &&
			at == port && state == LISTENING;
	}
	if (in)
		fclose(in);
	return found;
}

/* A connection would be taken for its client. */
static int wait_listening(unsigned port)
{
	uint64_t until = sl_clock_ns() + LISTEN_MS * SL_NS_PER_MS;
	const struct timespec pause = { .tv_nsec = 10000000 };

	while (!listens_in("/proc/net/tcp", port) && !listens_in("/proc/net/tcp6", port)) {
		if (sl_clock_ns() > until)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
	return 0;
}

/* ---- its processes ---- */

/* With the CPUs of the group, which a child has from us. */
static int start_on(const struct nic_group *g, const struct child_attr *attr, struct child *out)
{
	cpu_set_t ours;
	int ret;

	if (sched_getaffinity(0, sizeof(ours), &ours))
		return -errno;
	if (g->has_cpus && sched_setaffinity(0, sizeof(g->cpus), &g->cpus))
		return -errno;
	ret = child_start(out, attr);
	if (g->has_cpus && sched_setaffinity(0, sizeof(ours), &ours) && !ret)
		ret = -errno;
	return ret;
}

static int start(const struct perftest *p, const struct nic_group *g, unsigned port, bool client,
		 int out, struct child *child)
{
	char size[WORD_MAX], depth[WORD_MAX], qps[WORD_MAX], seconds[WORD_MAX], at[WORD_MAX],
		gid[WORD_MAX], device_port[WORD_MAX];
	const char *argv[24] = { PROGRAM,     "-F",	 "--report_gbits",
				 "-d",	      g->device, "-i",
				 device_port, "-s",	 size,
				 "-t",	      depth,	 "-q",
				 qps,	      "-D",	 seconds,
				 "-p",	      at };
	struct child_attr attr = { .argv = (char *const *)(uintptr_t)argv, .out = out, .err = out };
	int n = 17, ret;

	snprintf(device_port, WORD_MAX, "%u", g->port);
	snprintf(size, WORD_MAX, "%" PRIu64, p->size);
	snprintf(depth, WORD_MAX, "%u", p->depth);
	snprintf(qps, WORD_MAX, "%u", p->qps);
	snprintf(seconds, WORD_MAX, "%u", p->duration_s);
	snprintf(at, WORD_MAX, "%u", port);
	snprintf(gid, WORD_MAX, "%d", g->gid_index);
	if (g->gid_index >= 0) {
		argv[n++] = "-x";
		argv[n++] = gid;
	}
	if (client)
		argv[n++] = "127.0.0.1";
	attr.in = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (attr.in < 0)
		return -errno;
	if (!client)
		attr.out = attr.err = attr.in;
	ret = start_on(g, &attr, child);
	close(attr.in);
	return ret;
}

static int start_server(const struct perftest *p, const struct nic_group *g, struct pair *pair)
{
	int ret = free_port(&pair->port);

	if (!ret)
		ret = start(p, g, pair->port, false, -1, &pair->server);
	pair->serves = !ret;
	return ret ? ret : wait_listening(pair->port);
}

static int start_client(const struct perftest *p, const struct nic_group *g, struct pair *pair)
{
	int ret;

	pair->said = memfd_create(PROGRAM, MFD_CLOEXEC);
	if (pair->said < 0)
		return -errno;
	ret = start(p, g, pair->port, true, pair->said, &pair->client);
	pair->runs = !ret;
	return ret;
}

/* What the client printed. */
static void read_said(const struct pair *pair, char out[SAID_MAX])
{
	ssize_t n = pread(pair->said, out, SAID_MAX - 1, 0);

	out[n > 0 ? n : 0] = '\0';
}

static const char *last_line(char *text)
{
	char *end = text + strlen(text);

	while (end > text && end[-1] == '\n')
		*--end = '\0';
	while (end > text && end[-1] != '\n')
		end--;
	return end;
}

static int take_result(const struct perftest *p, const struct nic_group *g, struct pair *pair,
		       double *gb_s, char *why, size_t room)
{
	char text[SAID_MAX];
	int caught, ret;

	ret = child_wait(&pair->client, p->duration_s * 1000 + GRACE_MS, -1, &caught);
	pair->runs = false;
	read_said(pair, text);
	if (!ret)
		ret = perftest_parse(text, p->size, gb_s);
	if (ret)
		snprintf(why, room, PROGRAM " of %s: %s", g->device,
			 *text	   ? last_line(text)
			 : ret < 0 ? strerror(-ret)
				   : "it failed");
	return ret > 0 ? -EIO : ret;
}

/* A process that is left ends by its signal. */
static void end(struct child *child, bool there, int sig)
{
	int caught;

	if (!there)
		return;
	if (sig)
		kill(-child->pid, sig);
	(void)child_wait(child, END_MS, -1, &caught);
}

static int measure(const struct perftest *p, const struct nic_group *groups, size_t n,
		   struct pair *pairs, double *gb_s, char *why, size_t room)
{
	int ret = 0;
	size_t i;

	for (i = 0; i < n && !ret; i++)
		ret = start_server(p, &groups[i], &pairs[i]);
	for (size_t k = 0; k < n && !ret; k++)
		ret = start_client(p, &groups[k], &pairs[k]);
	if (ret && ret != -ENOENT)
		snprintf(why, room, PROGRAM " of %s: %s", groups[i ? i - 1 : 0].device,
			 ret == -ETIMEDOUT ? "its server does not listen" : strerror(-ret));
	for (size_t k = 0; k < n && !ret; k++)
		ret = take_result(p, &groups[k], &pairs[k], &gb_s[k], why, room);
	return ret;
}

int perftest_read(const struct perftest *p, const struct nic_group *groups, size_t n, double *gb_s,
		  char *why, size_t room)
{
	struct pair *pairs = calloc(n, sizeof(*pairs));
	int ret;

	if (!pairs)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		pairs[i].said = -1;
	ret = measure(p, groups, n, pairs, gb_s, why, room);
	for (size_t i = 0; i < n; i++) {
		end(&pairs[i].client, pairs[i].runs, SIGTERM);
		end(&pairs[i].server, pairs[i].serves, ret ? SIGTERM : 0);
		if (pairs[i].said >= 0)
			close(pairs[i].said);
	}
	free(pairs);
	return ret;
}
