/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A write to the peer's memory, which sees it arrive and writes back: as ib_write_lat does it.
 * Nobody is told; both look at the last byte.
 */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "bench/measure/link.h"
#include "bench/measure/measure.h"
#include "bench/rounds/pair.h"
#include "bench/rounds/ticks.h"

#define LOST_NS (30 * SL_NS_PER_S)
/*
 * How often the memory is polled between two checks of the link, and between two reads of the
 * clock. The answer appears in the memory. The link is checked in case it ended; that check, and on
 * some guests the clock, is a system call, which delays the answer.
 */
#define LOOKS		4096
#define LOOKS_PER_CLOCK (64 * LOOKS)

struct bounce {
	const struct options *opt;
	const struct pair *pair; /* of the client */
	struct link link;
	struct space space; /* what comes in, and behind it what goes out */
	struct slime_remote_mr peer;
	uint64_t size;
	uint64_t out_at;
	struct slime_xfer out;
	uint8_t turn; /* 1 to 250; STOP ends the server's round */
};

#define TURNS 250
#define STOP  255

/* ---- both ends ---- */

static int open_space(struct bounce *b, int channel)
{
	int ret;

	b->out_at = (b->size + 4095) / 4096 * 4096;
	ret = space_open(&b->space, &b->link, 2 * b->out_at,
			 SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE, false);
	if (ret)
		return ret;
	memset(b->space.bytes, 0, b->space.len);
	b->out = (struct slime_xfer){
		.local = b->space.mr,
		.remote = &b->peer,
		.local_offset = b->out_at,
		.len = b->size,
	};
	ret = space_tell(&b->space, channel);
	if (!ret)
		ret = space_hear(&b->peer, channel);
	if (ret)
		space_close(&b->space);
	return ret;
}

/* A write, and its acknowledgement, which comes while the answer is on its way. */
static int put(struct bounce *b, uint8_t turn)
{
	int ret;

	memset(b->space.bytes + b->out_at, turn, b->size < 8 ? b->size : 8);
	b->space.bytes[b->out_at + b->size - 1] = turn;
	ret = slime_write(b->link.ep, &b->out, 1, 0, b->link.op);
	if (!ret)
		ret = slime_op_wait(b->link.op, -1);
	return ret ? ret : slime_op_status(b->link.op);
}

/* Until the last byte is turn, or STOP, which is told: bytes of a write arrive in their order. */
static int await(struct bounce *b, uint8_t turn, uint8_t *out)
{
	const volatile uint8_t *last = b->space.bytes + b->size - 1;
	uint64_t until = 0;

	for (unsigned i = 1;; i++) {
		*out = *last;
		if (*out == turn || *out == STOP)
			break;
		if (i % LOOKS == 0)
			slime_context_poll(b->link.ctx);
		if (i % LOOKS_PER_CLOCK)
			continue;
		if (until && sl_clock_ns() > until)
			return -ETIMEDOUT;
		if (!until)
			until = sl_clock_ns() + LOST_NS;
	}
	atomic_thread_fence(memory_order_acquire);
	return 0;
}

static uint8_t after(uint8_t turn)
{
	return (uint8_t)(turn % TURNS + 1);
}

/* ---- the server ---- */

static int answer_until_stop(struct bounce *b)
{
	uint8_t got;
	int ret;

	do {
		b->turn = after(b->turn);
		ret = await(b, b->turn, &got);
		if (!ret)
			ret = put(b, got);
	} while (!ret && got != STOP);
	b->turn = 0;
	return ret;
}

/* A round begins with a packet; until then the link is looked after. Whether there is one more. */
static bool wait_for_round(struct bounce *b, int channel)
{
	struct pollfd fd = { .fd = channel, .events = POLLIN };
	char go;

	while (poll(&fd, 1, 1) == 0)
		slime_context_poll(b->link.ctx);
	return pair_hear_some(channel, &go, 1) > 0;
}

static int serve_rounds(struct bounce *b, int channel)
{
	int ret = 0;

	while (!ret && wait_for_round(b, channel)) {
		b->space.bytes[b->size - 1] = 0;
		ret = pair_tell(channel, "", 1);
		if (!ret)
			ret = answer_until_stop(b);
	}
	return ret;
}

static int serve(void *arg, int channel)
{
	struct bounce *b = arg;
	int ret = link_open_manual(&b->link, b->opt, LINK_SERVER, channel);

	if (ret)
		return ret;
	ret = open_space(b, channel);
	if (!ret) {
		ret = serve_rounds(b, channel);
		slime_endpoint_close(b->link.ep);
		space_close(&b->space);
	}
	link_close(&b->link);
	return ret;
}

/* ---- the client ---- */

static int begin_round(struct bounce *b)
{
	char ready;
	int ret;

	b->turn = 0;
	b->space.bytes[b->size - 1] = 0;
	ret = pair_tell(b->pair->channel, "", 1);
	return ret ? ret : pair_hear(b->pair->channel, &ready, 1);
}

static int trip(struct bounce *b, uint8_t turn)
{
	uint8_t got;
	int ret = put(b, turn);

	if (!ret)
		ret = await(b, turn, &got);
	return ret || got == turn ? ret : -EPROTO;
}

static int bounce_round(void *arg, struct rounds *r)
{
	struct bounce *b = arg;
	int ret = begin_round(b);
	uint64_t begin, now = ticks_ns();

	do {
		begin = now;
		b->turn = after(b->turn);
		if (!ret)
			ret = trip(b, b->turn);
		now = ticks_ns();
		rounds_add(r, (now - begin) / 2, 2 * b->size);
	} while (!ret && !rounds_over(r, now));
	return ret ? ret : trip(b, STOP);
}

static int measure(struct bounce *b, const struct rounds_attr *attr)
{
	struct rounds_side side = { .round = bounce_round, .arg = b, .pair = b->pair };
	int ret = link_open_manual(&b->link, b->opt, LINK_CLIENT, b->pair->channel);

	if (ret)
		return ret;
	ret = open_space(b, b->pair->channel);
	if (!ret) {
		ret = rounds_run(attr, &side);
		space_close(&b->space);
	}
	link_close(&b->link);
	return ret;
}

int measure_bounce(const struct options *o, const struct rounds_attr *attr)
{
	struct bounce b = { .opt = o, .size = o->rounds.size };
	struct pair pair;
	int ret = b.size ? pair_start(&pair, serve, &b) : -EINVAL;
	int end;

	if (ret)
		return ret;
	b.pair = &pair;
	ret = measure(&b, attr);
	end = pair_end(&pair);
	return ret ? ret : end;
}
