/* SPDX-License-Identifier: Apache-2.0 */
/* Many messages out and back over one socket. What is there goes in one system call. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/reference/reference.h"
#include "bench/reference/stream.h"
#include "bench/rounds/memory.h"
#include "bench/load/stamp.h"
#include "bench/rounds/ticks.h"

#define STOP UINT64_MAX /* the number of a round's last message */

/* Each process has its own copy of the bytes. */
struct rate {
	int server_fd, client_fd;
	uint64_t size; /* of a message, which begins with its number */
	uint64_t room; /* of all that are on the way */
	uint8_t *bytes;
	uint64_t have; /* bytes that came and are not handled */
	uint64_t sent, back;
	const struct pair *pair;
};

static int send_some(struct rate *r, int fd, uint64_t n)
{
	struct iovec iov = { r->bytes, n * r->size };

	return stream_send(fd, &iov, 1);
}

/* How many whole messages are there, one at least. */
static int recv_some(struct rate *r, int fd, uint64_t *n)
{
	do {
		ssize_t got = recv(fd, r->bytes + r->have, r->room - r->have, MSG_DONTWAIT);

		if (got == 0)
			return -ECONNRESET;
		if (got > 0)
			r->have += (uint64_t)got;
		else if (errno != EAGAIN && errno != EINTR)
			return -errno;
		*n = r->have / r->size;
	} while (!*n);
	return 0;
}

/* The first n messages are handled. */
static void leave_rest(struct rate *r, uint64_t n)
{
	r->have -= n * r->size;
	memmove(r->bytes, r->bytes + n * r->size, r->have);
}

/* ---- the server ---- */

static int answer_until_stop(void *arg)
{
	struct rate *r = arg;
	bool stop = false;
	uint64_t n;
	int ret = 0;

	while (!ret && !stop) {
		ret = recv_some(r, r->server_fd, &n);
		if (ret)
			break;
		stop = stamped(r->bytes + (n - 1) * r->size, r->size, STOP);
		ret = send_some(r, r->server_fd, n);
		leave_rest(r, n);
	}
	return ret;
}

static int serve(void *arg, int channel)
{
	struct rate *r = arg;

	close(r->client_fd);
	return stream_serve(channel, answer_until_stop, r);
}

/* ---- the client ---- */

static int send_new(struct rate *r, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		stamp(r->bytes + i * r->size, r->size, ++r->sent);
	return send_some(r, r->client_fd, n);
}

/* Those that came back are counted, and as many leave. */
static int take(struct rate *r, uint64_t n, struct rounds *rounds)
{
	int ret = 0;

	for (uint64_t i = 0; i < n; i++) {
		if (!stamped(r->bytes + i * r->size, r->size, ++r->back))
			return -EILSEQ;
		rounds_count(rounds, 2 * r->size);
	}
	if (!rounds_over(rounds, ticks_ns()))
		ret = send_new(r, n);
	leave_rest(r, n);
	return ret;
}

static int rate_round(void *arg, struct rounds *rounds)
{
	struct rate *r = arg;
	uint64_t n;
	int ret = pair_tell(r->pair->channel, "", 1);

	if (!ret)
		ret = send_new(r, r->room / r->size);
	while (!ret && r->back < r->sent) {
		ret = recv_some(r, r->client_fd, &n);
		if (!ret)
			ret = take(r, n, rounds);
	}
	stamp(r->bytes, r->size, STOP);
	if (!ret)
		ret = send_some(r, r->client_fd, 1);
	if (!ret)
		ret = recv_some(r, r->client_fd, &n);
	r->have = 0;
	return ret;
}

int reference_tcp_rate(const struct options *o, const struct rounds_attr *attr)
{
	struct rate r = { .size = o->rounds.size, .room = o->rounds.size * (uint64_t)o->inflight };
	struct pair pair;
	struct rounds_side side = { .round = rate_round, .arg = &r, .pair = &pair };
	int ret, end;

	if (r.size < sizeof(r.sent))
		return -EINVAL;
	r.bytes = memory_map(-1, r.room);
	if (!r.bytes)
		return -ENOMEM;
	memset(r.bytes, 1, r.room);
	ret = stream_pair(&r.server_fd, &r.client_fd);
	if (!ret)
		ret = pair_start(&pair, serve, &r);
	if (ret)
		return ret;
	close(r.server_fd);
	r.pair = &pair;
	ret = rounds_run(attr, &side);
	close(r.client_fd);
	end = pair_end(&pair);
	memory_unmap(r.bytes, r.room);
	return ret ? ret : end;
}
