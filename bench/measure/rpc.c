/* SPDX-License-Identifier: Apache-2.0 */
/* Echo calls of one caller, some in flight; each reply is looked at. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bench/load/lanes.h"
#include "bench/load/stamp.h"
#include "bench/measure/link.h"
#include "bench/measure/measure.h"
#include "bench/rounds/ticks.h"

/* Counted calls between two looks at the clock. */
#define CALLS_PER_LOOK 64
/* Calls that begin together. */
#define TOGETHER_MAX 16

/* Two cache lines: with many of them in flight what each needs has to fit the cache. */
struct lane {
	_Alignas(128) struct slime_call *call;
	struct slime_call_args args;
	uint8_t *request;
	uint8_t *reply; /* NULL: the call keeps it */
	uint64_t begin_ns;
	uint64_t number;
};

struct calls {
	const struct options *opt;
	struct link link;
	struct space space; /* a request and a reply of each lane */
	struct lane *lanes;
	uint32_t n_lanes;
	uint64_t number;
};

static int serve(void *arg, int channel)
{
	struct calls *c = arg;
	char end;
	int ret = link_open(&c->link, c->opt, LINK_SERVER, channel);

	if (ret)
		return ret;
	ret = (int)pair_hear_some(channel, &end, 1);
	link_close(&c->link);
	return ret;
}

/* ---- a call ---- */

/* A call begins when the one before it ended: the clock is read once for each that is timed. */
static void prepare(struct calls *c, struct lane *lane, uint64_t begin_ns)
{
	lane->number = ++c->number;
	lane->begin_ns = begin_ns;
	stamp(lane->request, c->opt->rounds.size, lane->number);
}

static int start(struct calls *c, struct lane *lane, uint64_t begin_ns)
{
	prepare(c, lane, begin_ns);
	return slime_call_start(c->link.ep, &lane->args, lane->call);
}

/* Those that were prepared. */
static int start_together(struct calls *c, const struct slime_call_item *items, uint32_t n)
{
	int ret = slime_call_start_many(c->link.ep, items, n);

	return ret < 0 ? ret : (uint32_t)ret < n ? -EAGAIN : 0;
}

static int finish(struct calls *c, struct lane *lane, struct rounds *r, uint64_t *end_ns)
{
	uint64_t size = c->opt->rounds.size;
	int ret = slime_call_test(lane->call) ? 0 : slime_call_wait(lane->call, -1);

	if (!c->opt->count || lane->number % CALLS_PER_LOOK == 0)
		*end_ns = ticks_ns();
	if (!ret)
		ret = slime_call_status(lane->call);
	if (ret)
		return ret;
	if (c->opt->count)
		rounds_count(r, 2 * size);
	else
		rounds_add(r, *end_ns - lane->begin_ns, 2 * size);
	if (slime_call_reply_len(lane->call) != size ||
	    !stamped(slime_call_reply_data(lane->call), size, lane->number))
		return -EILSEQ;
	return 0;
}

/* ---- rounds ---- */

/* A round under way, and when its last call ended. */
struct turn {
	struct calls *c;
	struct rounds *r;
	uint64_t now;
};

static int begin_call(void *arg, uint64_t i)
{
	struct turn *t = arg;

	return start(t->c, &t->c->lanes[i], t->now);
}

static int end_call(void *arg, uint64_t i)
{
	struct turn *t = arg;

	return finish(t->c, &t->c->lanes[i], t->r, &t->now);
}

static bool goes_on(void *arg)
{
	const struct turn *t = arg;

	return !rounds_over(t->r, t->now);
}

static int rpc_round(void *arg, struct rounds *r)
{
	struct calls *c = arg;
	struct turn turn = { .c = c, .r = r, .now = ticks_ns() };
	const struct lanes lanes = { .n = c->n_lanes,
				     .begin = begin_call,
				     .end = end_call,
				     .goes_on = goes_on,
				     .arg = &turn };

	return lanes_run(&lanes);
}

/* The same where calls are only counted: those begin together whose replies came together. */
static int rpc_round_together(void *arg, struct rounds *r)
{
	struct slime_call_item items[TOGETHER_MAX];
	struct calls *c = arg;
	const uint32_t most = c->n_lanes < TOGETHER_MAX ? c->n_lanes : TOGETHER_MAX;
	struct lane *lane = c->lanes;
	uint64_t now = ticks_ns();
	uint32_t pending = c->n_lanes;
	uint32_t n = 0;
	int ret = 0;

	for (uint32_t i = 0; i < c->n_lanes && !ret; i++)
		ret = start(c, &c->lanes[i], now);
	while (pending && !ret) {
		bool over;

		ret = finish(c, lane, r, &now);
		if (ret)
			return ret;
		over = rounds_over(r, now);
		if (over) {
			pending--;
		} else {
			prepare(c, lane, now);
			items[n++] =
				(struct slime_call_item){ .call = lane->call, .args = &lane->args };
		}
		lane = lane + 1 < c->lanes + c->n_lanes ? lane + 1 : c->lanes;
		if (n && (over || n == most || !slime_call_test(lane->call))) {
			ret = start_together(c, items, n);
			n = 0;
		}
	}
	return ret;
}

/* One more call, every byte of it. */
static int check(void *arg)
{
	struct calls *c = arg;
	struct lane *lane = &c->lanes[0];
	uint64_t size = c->opt->rounds.size;
	int ret;

	if (lane->reply)
		memset(lane->reply, 0, size);
	ret = start(c, lane, 0);
	if (!ret)
		ret = slime_call_wait(lane->call, -1);
	if (!ret)
		ret = slime_call_status(lane->call);
	if (!ret && memcmp(slime_call_reply_data(lane->call), lane->request, size))
		ret = -EILSEQ;
	return ret;
}

/* ---- what the lanes use ---- */

static int open_space(struct calls *c, uint64_t slot)
{
	uint64_t len = (2 * c->n_lanes * slot + 4095) / 4096 * 4096;

	if (c->opt->memory == MEMORY_OWN) {
		c->space.bytes = aligned_alloc(4096, len);
		return c->space.bytes ? 0 : -ENOMEM;
	}
	return space_open(&c->space, &c->link, len,
			  SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE, false);
}

static void close_space(struct calls *c)
{
	if (c->opt->memory == MEMORY_OWN)
		free(c->space.bytes);
	else
		space_close(&c->space);
}

static void aim(struct calls *c, struct lane *lane, uint64_t at, uint64_t slot)
{
	uint64_t size = c->opt->rounds.size;
	bool own = c->opt->memory == MEMORY_OWN;
	bool in_place = c->opt->memory == MEMORY_IN_PLACE;

	lane->request = c->space.bytes + at;
	lane->reply = in_place ? NULL : lane->request + slot;
	lane->args = (struct slime_call_args){
		.method = slime_rpc_method_id(in_place ? "copy" : "echo"),
		.request = own ? lane->request : NULL,
		.request_mr = c->space.mr,
		.request_offset = own ? 0 : at,
		.request_len = size,
		.reply = own ? lane->reply : NULL,
		.reply_mr = in_place ? NULL : c->space.mr,
		.reply_offset = own || in_place ? 0 : at + slot,
		.reply_cap = size,
		.timeout_ms = -1, /* as the references have none */
	};
}

static int open_lanes(struct calls *c)
{
	uint64_t slot = (c->opt->rounds.size + 63) / 64 * 64 + 64;
	int ret = open_space(c, slot);

	if (ret)
		return ret;
	memset(c->space.bytes, 'q', 2 * c->n_lanes * slot);
	for (uint32_t i = 0; i < c->n_lanes && !ret; i++) {
		aim(c, &c->lanes[i], 2 * i * slot, slot);
		ret = slime_call_create(c->link.ctx, NULL, &c->lanes[i].call);
	}
	return ret;
}

static void close_lanes(struct calls *c)
{
	for (uint32_t i = 0; i < c->n_lanes; i++)
		slime_call_destroy(c->lanes[i].call);
	close_space(c);
}

static int measure(struct calls *c, const struct rounds_attr *attr, struct pair *pair)
{
	struct rounds_side side = { .round = rpc_round, .check = check, .arg = c, .pair = pair };
	int ret = link_open(&c->link, c->opt, LINK_CLIENT, pair->channel);

	if (ret)
		return ret;
	if (c->opt->count && c->n_lanes > 1)
		side.round = rpc_round_together;
	ret = open_lanes(c);
	if (!ret)
		ret = rounds_run(attr, &side);
	close_lanes(c);
	link_close(&c->link);
	return ret;
}

int measure_rpc(const struct options *o, const struct rounds_attr *attr)
{
	struct calls c = { .opt = o, .n_lanes = (uint32_t)o->inflight };
	struct pair pair;
	int ret = pair_start(&pair, serve, &c);
	int end;

	if (ret)
		return ret;
	c.lanes = aligned_alloc(_Alignof(struct lane), c.n_lanes * sizeof(*c.lanes));
	ret = c.lanes ? 0 : -ENOMEM;
	if (!ret) {
		memset(c.lanes, 0, c.n_lanes * sizeof(*c.lanes));
		ret = measure(&c, attr, &pair);
	}
	end = pair_end(&pair);
	free(c.lanes);
	return ret ? ret : end;
}
