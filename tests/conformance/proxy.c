/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fixture.h"

#define PAIRS_MAX 32
#define CHUNK	  (64 * KiB)
#define SMALL_BUF 8192
#define SEGMENT	  1400 /* as on a wire; those of the loopback fill a small buffer at once */

/* One way of a connection: what was read and not written yet. */
struct way {
	int from, to;
	size_t at, len;
	bool ended; /* from has said its last */
	uint8_t bytes[CHUNK];
};

struct proxy_pair {
	struct way there, back;
};

struct proxy {
	pthread_t thread;
	bool running;
	int listener;
	int wake;
	struct sockaddr_in target;
	uint64_t seed;
	_Atomic bool stop, reset;
	_Atomic uint64_t stalled_until_ms;
	struct proxy_pair *pairs[PAIRS_MAX];
	size_t n;
};

static int stream_socket(int flags)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0), segment = SEGMENT;

	assert_true(fd >= 0);
	assert_ok(setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof(segment)));
	return fd;
}

static struct sockaddr_in address(const char *host, uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };

	assert_int_equal(inet_pton(AF_INET, host, &a.sin_addr), 1);
	return a;
}

struct proxy *proxy_create(uint64_t seed, uint16_t *port)
{
	struct sockaddr_in at = address(PROXY_ADDRESS, 0);
	struct proxy *p = calloc(1, sizeof(*p));
	socklen_t len = sizeof(at);

	assert_non_null(p);
	p->seed = seed;
	p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	p->listener = stream_socket(SOCK_NONBLOCK);
	assert_true(p->wake >= 0);
	assert_ok(bind(p->listener, (struct sockaddr *)&at, sizeof(at)));
	assert_ok(listen(p->listener, PAIRS_MAX));
	assert_ok(getsockname(p->listener, (struct sockaddr *)&at, &len));
	*port = ntohs(at.sin_port);
	p->target = address("127.0.0.1", *port);
	return p;
}

/* ---- connections ---- */

static void narrow(int fd)
{
	int size = SMALL_BUF;

	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
}

static void take_one(struct proxy *p)
{
	int in = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct proxy_pair *pair;
	int out;

	if (in < 0)
		return;
	out = stream_socket(0);
	if (next_random(&p->seed) % 2) {
		narrow(in);
		narrow(out);
	}
	/* Within the host this does not wait for whom it connects to. */
	if (p->n == PAIRS_MAX || connect(out, (struct sockaddr *)&p->target, sizeof(p->target))) {
		close(in);
		close(out);
		return;
	}
	pair = calloc(1, sizeof(*pair));
	assert_non_null(pair);
	pair->there.from = pair->back.to = in;
	pair->there.to = pair->back.from = out;
	p->pairs[p->n++] = pair;
}

static void end_pair(struct proxy *p, size_t i, bool reset)
{
	struct linger at_once = { .l_onoff = 1 };
	struct proxy_pair *pair = p->pairs[i];
	int fds[2] = { pair->there.from, pair->there.to };

	for (int k = 0; k < 2; k++) {
		if (reset)
			(void)setsockopt(fds[k], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
		close(fds[k]);
	}
	free(pair);
	p->pairs[i] = p->pairs[--p->n];
}

/* Few bytes now and then, else many. */
static size_t some(uint64_t *seed)
{
	switch (next_random(seed) % 16) {
	case 0:
		return 1 + next_random(seed) % 40;
	case 1:
	case 2:
		return 1 + next_random(seed) % 4096;
	default:
		return CHUNK;
	}
}

/* False when the connection is broken. */
static bool move(struct proxy *p, struct way *w)
{
	ssize_t n;

	if (!w->len && !w->ended) {
		n = recv(w->from, w->bytes, some(&p->seed), MSG_DONTWAIT);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		w->at = 0;
		w->len = (size_t)n;
		w->ended = n == 0;
		if (w->ended)
			shutdown(w->to, SHUT_WR);
	}
	while (w->len) {
		size_t most = some(&p->seed);

		n = send(w->to, w->bytes + w->at, w->len < most ? w->len : most,
			 MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		w->at += (size_t)n;
		w->len -= (size_t)n;
	}
	return true;
}

static void serve_pairs(struct proxy *p)
{
	for (size_t i = p->n; i-- > 0;) {
		struct proxy_pair *pair = p->pairs[i];

		if (!move(p, &pair->there) || !move(p, &pair->back))
			end_pair(p, i, true);
		else if (pair->there.ended && pair->back.ended)
			end_pair(p, i, false);
	}
}

/* ---- the thread ---- */

static short wants(const struct way *reads, const struct way *writes)
{
	return (short)((reads->len || reads->ended ? 0 : POLLIN) | (writes->len ? POLLOUT : 0));
}

/* Sleeps until something can be moved, or is told; a stall ends by time. */
static void wait_for_work(struct proxy *p, bool stalled)
{
	struct pollfd fds[2 + 2 * PAIRS_MAX] = { { .fd = p->wake, .events = POLLIN },
						 { .fd = p->listener, .events = POLLIN } };
	nfds_t n = 2;
	uint64_t told;

	for (size_t i = 0; i < p->n && !stalled; i++) {
		struct proxy_pair *pair = p->pairs[i];

		fds[n++] = (struct pollfd){ .fd = pair->there.from,
					    .events = wants(&pair->there, &pair->back) };
		fds[n++] = (struct pollfd){ .fd = pair->there.to,
					    .events = wants(&pair->back, &pair->there) };
	}
	poll(fds, n, stalled ? 5 : -1);
	(void)!read(p->wake, &told, sizeof(told));
}

static void *run(void *arg)
{
	struct proxy *p = arg;

	while (!p->stop) {
		bool stalled = now_ms() < p->stalled_until_ms;

		wait_for_work(p, stalled);
		take_one(p);
		if (p->n && atomic_exchange(&p->reset, false))
			end_pair(p, next_random(&p->seed) % p->n, true);
		if (!stalled)
			serve_pairs(p);
	}
	while (p->n)
		end_pair(p, 0, true);
	return NULL;
}

static void tell(struct proxy *p)
{
	uint64_t one = 1;

	(void)!write(p->wake, &one, sizeof(one));
}

void proxy_start(struct proxy *p)
{
	assert_ok(pthread_create(&p->thread, NULL, run, p));
	p->running = true;
}

void proxy_reset_one(struct proxy *p)
{
	p->reset = true;
	tell(p);
}

void proxy_stall(struct proxy *p, unsigned ms)
{
	p->stalled_until_ms = now_ms() + ms;
	tell(p);
}

void proxy_destroy(struct proxy *p)
{
	if (!p)
		return;
	p->stop = true;
	tell(p);
	if (p->running)
		pthread_join(p->thread, NULL);
	close(p->listener);
	close(p->wake);
	free(p);
}
