/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes out and back over many sockets in turn, one at a time. Both ends ask epoll_wait() for what
 * came, without sleeping. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench/reference/reference.h"
#include "bench/reference/stream.h"
#include "bench/rounds/memory.h"
#include "bench/rounds/ticks.h"

#define EVENTS_MAX 64

struct links {
	uint64_t size;
	uint64_t n;
	uint64_t at; /* the client's next */
	int *server_fds, *client_fds;
	int epoll; /* of this process */
	uint8_t *bytes;
	const struct pair *pair;
};

static int watch(struct links *l, const int *fds)
{
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (l->epoll < 0)
		return -errno;
	for (uint64_t i = 0; i < l->n; i++) {
		struct epoll_event e = { .events = EPOLLIN, .data.fd = fds[i] };

		if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, fds[i], &e))
			return -errno;
	}
	return 0;
}

/* Sockets that have something. */
static int await(const struct links *l, struct epoll_event *events, int max)
{
	int n;

	do
		n = epoll_wait(l->epoll, events, max, 0);
	while (n == 0 || (n < 0 && errno == EINTR));
	return n < 0 ? -errno : n;
}

static int send_all(const struct links *l, int fd)
{
	struct iovec iov = { l->bytes, l->size };

	return stream_send(fd, &iov, 1);
}

static int recv_all(const struct links *l, int fd)
{
	struct iovec iov = { l->bytes, l->size };

	return stream_recv(fd, &iov, 1, WAIT_SPIN);
}

/* ---- the server ---- */

static int answer(const struct links *l, int fd)
{
	int ret = recv_all(l, fd);

	return ret ? ret : send_all(l, fd);
}

/* Until a message that begins with a zero ends the round. */
static int answer_until_stop(void *arg)
{
	const struct links *l = arg;
	struct epoll_event events[EVENTS_MAX];
	int ret;

	do {
		ret = await(l, events, EVENTS_MAX);
		for (int i = 0, n = ret; i < n && ret >= 0; i++)
			ret = answer(l, events[i].data.fd);
	} while (ret >= 0 && l->bytes[0]);
	return ret < 0 ? ret : 0;
}

static int serve(void *arg, int channel)
{
	struct links *l = arg;
	int ret;

	for (uint64_t i = 0; i < l->n; i++)
		close(l->client_fds[i]);
	ret = watch(l, l->server_fds);
	return ret ? ret : stream_serve(channel, answer_until_stop, l);
}

/* ---- the client ---- */

static int trip(struct links *l)
{
	int fd = l->client_fds[l->at];
	struct epoll_event event;
	int ret = send_all(l, fd);

	l->at = l->at + 1 < l->n ? l->at + 1 : 0;
	if (ret)
		return ret;
	ret = await(l, &event, 1);
	return ret < 0 ? ret : recv_all(l, event.data.fd);
}

static int round_of_trips(void *arg, struct rounds *r)
{
	struct links *l = arg;
	uint64_t begin = ticks_ns(), end;
	int ret = pair_tell(l->pair->channel, "", 1);

	l->bytes[0] = 1;
	do {
		if (!ret)
			ret = trip(l);
		end = ticks_ns();
		rounds_add(r, end - begin, 2 * l->size);
		begin = end;
	} while (!ret && !rounds_over(r, end));
	l->bytes[0] = 0;
	return ret ? ret : trip(l);
}

static int connect_all(struct links *l, uint64_t n)
{
	int ret = 0;

	l->server_fds = calloc(n, sizeof(int));
	l->client_fds = calloc(n, sizeof(int));
	if (!l->server_fds || !l->client_fds)
		return -ENOMEM;
	while (!ret && l->n < n) {
		ret = stream_pair(&l->server_fds[l->n], &l->client_fds[l->n]);
		l->n += !ret;
	}
	return ret;
}

static void close_all(const int *fds, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		close(fds[i]);
}

static int measure(struct links *l, const struct rounds_attr *attr)
{
	struct rounds_side side = { .round = round_of_trips, .arg = l };
	struct pair pair;
	int ret = pair_start(&pair, serve, l), end;

	close_all(l->server_fds, l->n);
	if (ret)
		return ret;
	l->pair = side.pair = &pair;
	ret = watch(l, l->client_fds);
	if (!ret)
		ret = rounds_run(attr, &side);
	close_all(l->client_fds, l->n);
	end = pair_end(&pair);
	return ret ? ret : end;
}

/* Two sockets a link, in one process until the other is there. */
static void allow_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

int reference_tcp_links(const struct options *o, const struct rounds_attr *attr)
{
	struct links l = { .size = o->rounds.size };
	int ret;

	if (!l.size)
		return -EINVAL;
	allow_descriptors();
	l.bytes = memory_map(-1, l.size);
	if (!l.bytes)
		return -ENOMEM;
	ret = connect_all(&l, (uint64_t)o->links);
	if (!ret)
		ret = measure(&l, attr);
	free(l.server_fds);
	free(l.client_fds);
	memory_unmap(l.bytes, l.size);
	return ret;
}
