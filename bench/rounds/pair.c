/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/rounds/pair.h"

/* The n-th of the CPUs in set; the last one when there are fewer. */
static int nth_cpu(const cpu_set_t *set, int n)
{
	int found = -1;

	for (int cpu = 0; cpu < CPU_SETSIZE && n >= 0; cpu++) {
		if (CPU_ISSET(cpu, set)) {
			found = cpu;
			n--;
		}
	}
	return found;
}

static int pin(const cpu_set_t *allowed, int n)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(nth_cpu(allowed, n), &one);
	return sched_setaffinity(0, sizeof(one), &one) ? -errno : 0;
}

static _Noreturn void run_server(const cpu_set_t *allowed, pair_serve_fn *serve, void *arg,
				 int channel)
{
	int ret;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ret = pin(allowed, 0);
	if (!ret)
		ret = serve(arg, channel);
	if (ret)
		fprintf(stderr, "server: %s\n", strerror(-ret));
	exit(ret ? EXIT_FAILURE : EXIT_SUCCESS);
}

int pair_start(struct pair *p, pair_serve_fn *serve, void *arg)
{
	cpu_set_t allowed;
	int ends[2];

	if (sched_getaffinity(0, sizeof(allowed), &allowed) ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -errno;
	fflush(NULL);
	p->server = fork();
	if (p->server == 0) {
		close(ends[0]);
		run_server(&allowed, serve, arg, ends[1]);
	}
	p->channel = ends[0];
	close(ends[1]);
	if (p->server < 0) {
		close(ends[0]);
		return -EAGAIN;
	}
	return pin(&allowed, 1);
}

int pair_end(struct pair *p)
{
	int status;

	close(p->channel);
	while (waitpid(p->server, &status, 0) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return status ? -EIO : 0;
}

static uint64_t clock_of(clockid_t clock)
{
	struct timespec ts;

	if (clock_gettime(clock, &ts))
		return 0;
	return (uint64_t)ts.tv_sec * SL_NS_PER_S + (uint64_t)ts.tv_nsec;
}

uint64_t pair_cpu_ns(const struct pair *p)
{
	clockid_t server;

	if (clock_getcpuclockid(p->server, &server))
		return 0;
	return clock_of(CLOCK_PROCESS_CPUTIME_ID) + clock_of(server);
}

int pair_tell(int channel, const void *bytes, size_t len)
{
	ssize_t n = send(channel, bytes, len, MSG_NOSIGNAL);

	return n == (ssize_t)len ? 0 : -ECONNRESET;
}

ssize_t pair_hear_some(int channel, void *bytes, size_t cap)
{
	ssize_t n;

	do
		n = recv(channel, bytes, cap, MSG_TRUNC);
	while (n < 0 && errno == EINTR);
	if (n > (ssize_t)cap)
		return -EMSGSIZE;
	return n < 0 && errno != ECONNRESET ? -errno : n < 0 ? 0 : n;
}

int pair_hear(int channel, void *bytes, size_t len)
{
	ssize_t n = pair_hear_some(channel, bytes, len);

	if (n < 0)
		return (int)n;
	return n == 0 ? -ECONNRESET : n == (ssize_t)len ? 0 : -EMSGSIZE;
}
