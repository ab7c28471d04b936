/* SPDX-License-Identifier: Apache-2.0 */
/* ZeroMQ: an echo between two processes over its ipc transport, REQ to REP. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "base/clock.h"
#include "bench/baselines/peer.h"

struct echo {
	uint64_t size;
	char address[64];
	void *socket;
	uint8_t *bytes;
};

static int negative_errno(void)
{
	return errno ? -errno : -EIO;
}

static int answer_all(void *socket)
{
	zmq_msg_t msg;
	int ret = 0;
	int n;

	/* An empty message is the end. */
	while (!ret) {
		zmq_msg_init(&msg);
		while ((n = zmq_msg_recv(&msg, socket, 0)) < 0 && errno == EINTR)
			; /* stopped between rounds */
		if (n == 0)
			break;
		if (n < 0 || zmq_msg_send(&msg, socket, 0) < 0)
			ret = negative_errno();
	}
	return ret;
}

static int serve(void *arg, int channel)
{
	struct echo *e = arg;
	void *ctx = zmq_ctx_new();
	void *socket = ctx ? zmq_socket(ctx, ZMQ_REP) : NULL;
	int ret;

	if (!socket || zmq_bind(socket, e->address))
		return negative_errno();
	ret = pair_tell(channel, "", 1);
	if (!ret)
		ret = answer_all(socket);
	zmq_close(socket);
	zmq_ctx_term(ctx);
	return ret;
}

static int echo_round(void *arg, struct rounds *r)
{
	struct echo *e = arg;
	uint64_t begin = sl_clock_ns();
	uint64_t now;

	do {
		if (zmq_send(e->socket, e->bytes, e->size, 0) < 0 ||
		    zmq_recv(e->socket, e->bytes, e->size, 0) != (int)e->size)
			return negative_errno();
		now = sl_clock_ns();
		rounds_add(r, now - begin, 2 * e->size);
		begin = now;
	} while (!rounds_over(r, begin));
	return 0;
}

static int measure(struct echo *e, const struct rounds_attr *attr, struct pair *pair)
{
	struct rounds_side side = { .round = echo_round, .arg = e, .pair = pair };
	void *ctx = zmq_ctx_new();
	char ready;
	int ret = pair_hear(pair->channel, &ready, 1);

	e->socket = ctx ? zmq_socket(ctx, ZMQ_REQ) : NULL;
	if (!e->socket || zmq_connect(e->socket, e->address))
		return negative_errno();
	if (!ret)
		ret = rounds_run(attr, &side);
	zmq_send(e->socket, "", 0, 0);
	zmq_close(e->socket);
	zmq_ctx_term(ctx);
	return ret;
}

static int run(const struct peer_options *o)
{
	struct echo e = { .size = o->size };
	struct pair pair;
	int ret, end;

	snprintf(e.address, sizeof(e.address), "ipc://@slime-zeromq-%d", (int)getpid());
	e.bytes = malloc(e.size);
	if (!e.bytes)
		return -ENOMEM;
	memset(e.bytes, 'q', e.size);
	ret = pair_start(&pair, serve, &e);
	if (ret)
		return ret;
	ret = measure(&e, &o->rounds, &pair);
	end = pair_end(&pair);
	free(e.bytes);
	return ret ? ret : end;
}

int main(int argc, char **argv)
{
	int major, minor, patch;
	char version[128];

	zmq_version(&major, &minor, &patch);
	snprintf(version, sizeof(version),
		 "zeromq    %d.%d.%d, REQ and REP over ipc, one call in flight", major, minor,
		 patch);
	return peer_main("baseline-zeromq", version, run, argc, argv);
}
