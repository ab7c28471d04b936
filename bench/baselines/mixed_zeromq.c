/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ZeroMQ over tcp: an echo on one pair of sockets, one call in flight, and blocks that are asked
 * for on another. Each socket has a thread of its own at either end. The server sends the blocks
 * from where they lie, and the client leaves them where ZeroMQ received them.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/clock.h"
#include "bench/baselines/mixed.h"
#include "bench/baselines/peer.h"

#define ADDRESS_MAX 64

enum { CALLS, BULK, SOCKETS };

struct mixed {
	uint64_t size;
	uint8_t *bytes; /* of a call */
	void *ctx;
	void *sockets[SOCKETS];
	uint8_t *block; /* of the server: MIXED_BLOCK bytes */
	/* The client's reader works while a round lasts. */
	_Atomic bool over;
	uint64_t n_blocks;
	int failed;
};

static int negative_errno(void)
{
	return errno ? -errno : -EIO;
}

/* Stopped and continued between rounds, a call may be interrupted. */
static int receive(void *socket, zmq_msg_t *msg)
{
	int n;

	zmq_msg_init(msg);
	do {
		n = zmq_msg_recv(msg, socket, 0);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? negative_errno() : n;
}

/* ---- the server ---- */

static void keep(void *data, void *hint)
{
	(void)data;
	(void)hint;
}

/* An empty request is the end. */
static void *serve_blocks(void *arg)
{
	struct mixed *m = arg;
	zmq_msg_t msg;

	while (receive(m->sockets[BULK], &msg) > 0) {
		zmq_msg_close(&msg);
		zmq_msg_init_data(&msg, m->block, MIXED_BLOCK, keep, NULL);
		if (zmq_msg_send(&msg, m->sockets[BULK], 0) < 0)
			break;
	}
	return NULL;
}

static void serve_calls(struct mixed *m)
{
	zmq_msg_t msg;

	while (receive(m->sockets[CALLS], &msg) > 0 &&
	       zmq_msg_send(&msg, m->sockets[CALLS], 0) >= 0)
		;
}

static int bind_both(struct mixed *m, int channel)
{
	static const int types[SOCKETS] = { ZMQ_REP, ZMQ_PAIR };
	char addresses[SOCKETS][ADDRESS_MAX];
	size_t len = ADDRESS_MAX;

	for (int i = 0; i < SOCKETS; i++, len = ADDRESS_MAX) {
		m->sockets[i] = zmq_socket(m->ctx, types[i]);
		if (!m->sockets[i] || zmq_bind(m->sockets[i], "tcp://127.0.0.1:*") ||
		    zmq_getsockopt(m->sockets[i], ZMQ_LAST_ENDPOINT, addresses[i], &len))
			return negative_errno();
	}
	return pair_tell(channel, addresses, sizeof(addresses));
}

static void close_both(struct mixed *m)
{
	for (int i = 0; i < SOCKETS; i++)
		zmq_close(m->sockets[i]);
	zmq_ctx_term(m->ctx);
}

static int serve(void *arg, int channel)
{
	struct mixed *m = arg;
	pthread_t thread;
	int ret;

	m->ctx = zmq_ctx_new();
	m->block = malloc(MIXED_BLOCK);
	if (!m->ctx || !m->block)
		return -ENOMEM;
	memset(m->block, 'b', MIXED_BLOCK);
	ret = bind_both(m, channel);
	if (!ret)
		ret = -pthread_create(&thread, NULL, serve_blocks, m);
	if (!ret) {
		serve_calls(m);
		pthread_join(thread, NULL);
	}
	close_both(m);
	free(m->block);
	return ret;
}

/* ---- the client ---- */

static int take_block(struct mixed *m)
{
	zmq_msg_t msg;
	int n = receive(m->sockets[BULK], &msg);

	zmq_msg_close(&msg);
	return n < 0 ? n : n == (int)MIXED_BLOCK ? 0 : -EILSEQ;
}

static int ask(struct mixed *m)
{
	return zmq_send(m->sockets[BULK], "b", 1, 0) < 0 ? negative_errno() : 0;
}

static void *read_blocks(void *arg)
{
	struct mixed *m = arg;
	unsigned pending = 0;
	int ret = 0;

	for (; pending < MIXED_INFLIGHT && !ret; pending++)
		ret = ask(m);
	while (pending && !ret) {
		ret = take_block(m);
		m->n_blocks++;
		if (atomic_load(&m->over))
			pending--;
		else if (!ret)
			ret = ask(m);
	}
	m->failed = ret;
	return NULL;
}

static int call_until_over(struct mixed *m, struct rounds *r)
{
	uint64_t begin = sl_clock_ns(), now;

	do {
		if (zmq_send(m->sockets[CALLS], m->bytes, m->size, 0) < 0 ||
		    zmq_recv(m->sockets[CALLS], m->bytes, m->size, 0) != (int)m->size)
			return negative_errno();
		now = sl_clock_ns();
		rounds_add(r, now - begin, 0);
		begin = now;
	} while (!rounds_over(r, now));
	return 0;
}

static int mixed_round(void *arg, struct rounds *r)
{
	struct mixed *m = arg;
	pthread_t thread;
	int ret;

	atomic_store(&m->over, false);
	m->n_blocks = 0;
	ret = -pthread_create(&thread, NULL, read_blocks, m);
	if (ret)
		return ret;
	ret = call_until_over(m, r);
	atomic_store(&m->over, true);
	pthread_join(thread, NULL);
	r->bytes = m->n_blocks * MIXED_BLOCK;
	return ret ? ret : m->failed;
}

static int connect_both(struct mixed *m, int channel)
{
	static const int types[SOCKETS] = { ZMQ_REQ, ZMQ_PAIR };
	char addresses[SOCKETS][ADDRESS_MAX];
	int ret = pair_hear(channel, addresses, sizeof(addresses));

	for (int i = 0; i < SOCKETS && !ret; i++) {
		m->sockets[i] = zmq_socket(m->ctx, types[i]);
		if (!m->sockets[i] || zmq_connect(m->sockets[i], addresses[i]))
			ret = negative_errno();
	}
	return ret;
}

static int measure(struct mixed *m, const struct rounds_attr *attr, struct pair *pair)
{
	struct rounds_side side = { .round = mixed_round, .arg = m, .pair = pair };
	int ret;

	m->ctx = zmq_ctx_new();
	ret = m->ctx ? connect_both(m, pair->channel) : -ENOMEM;
	if (ret)
		return ret;
	ret = rounds_run(attr, &side);
	for (int i = 0; i < SOCKETS; i++)
		zmq_send(m->sockets[i], "", 0, 0);
	close_both(m);
	return ret;
}

static int run(const struct peer_options *o)
{
	struct mixed m = { .size = o->size };
	struct pair pair;
	int ret, end;

	m.bytes = calloc(1, m.size);
	if (!m.bytes)
		return -ENOMEM;
	ret = pair_start(&pair, serve, &m);
	if (!ret) {
		ret = measure(&m, &o->rounds, &pair);
		end = pair_end(&pair);
		ret = ret ? ret : end;
	}
	free(m.bytes);
	return ret;
}

int main(int argc, char **argv)
{
	int major, minor, patch;
	char version[128];

	zmq_version(&major, &minor, &patch);
	snprintf(version, sizeof(version),
		 "zeromq    %d.%d.%d, calls over tcp beside blocks on another socket", major, minor,
		 patch);
	return peer_main("baseline-zeromq-mixed", version, run, argc, argv);
}
