/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Echo calls of one caller, one in flight, beside reads of blocks that never cease: over one link,
 * or over two of the same two contexts. The calls are timed; the bytes are those of the reads.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "bench/load/pattern.h"
#include "bench/measure/link.h"
#include "bench/measure/measure.h"
#include "bench/load/stamp.h"
#include "bench/rounds/ticks.h"

struct mixed;

/* A read in flight. Its callback counts it and submits it again. */
struct lane {
	struct mixed *m;
	struct slime_op *op;
	struct slime_xfer xfer;
};

struct mixed {
	const struct options *opt;
	struct link link;
	struct link beside; /* of the calls, if it is another one */
	struct space pool;  /* what is read, at the server; where it goes, at the client */
	struct slime_remote_mr remote;
	struct lane *lanes;
	uint32_t n_lanes;
	struct slime_call *call;
	struct slime_call_args args;
	uint8_t *request, *reply;
	uint64_t number;
	/* Callbacks run on whichever thread makes progress. */
	_Atomic uint32_t n_pending;
	_Atomic uint64_t n_read;
	_Atomic bool over;
	_Atomic int failed; /* what a read failed with */
};

static uint64_t pool_len(const struct mixed *m)
{
	return m->n_lanes * m->opt->rounds.block;
}

static int open_links(struct mixed *m, enum link_side side, int channel)
{
	int ret = link_open(&m->link, m->opt, side, channel);

	if (ret || !m->opt->other_link)
		return ret;
	ret = link_open_beside(&m->beside, &m->link, m->opt, channel);
	if (ret)
		link_close(&m->link);
	return ret;
}

static void close_links(struct mixed *m)
{
	if (m->opt->other_link)
		link_close_beside(&m->beside);
	link_close(&m->link);
}

/* ---- the server ---- */

static int serve_pool(struct mixed *m, int channel)
{
	char end;
	int ret = space_open(&m->pool, &m->link, pool_len(m), SLIME_ACCESS_REMOTE_READ, false);

	if (ret)
		return ret;
	load_pattern_fill(m->pool.bytes, m->pool.len, LOAD_PATTERN_SEED, 0);
	ret = space_tell(&m->pool, channel);
	if (!ret)
		ret = (int)pair_hear_some(channel, &end, 1);
	slime_endpoint_close(m->link.ep);
	space_close(&m->pool);
	return ret;
}

static int serve(void *arg, int channel)
{
	struct mixed *m = arg;
	int ret = open_links(m, LINK_SERVER, channel);

	if (ret)
		return ret;
	ret = serve_pool(m, channel);
	close_links(m);
	return ret;
}

/* ---- the reads ---- */

static void on_read(void *arg, struct slime_op *op)
{
	struct lane *lane = arg;
	struct mixed *m = lane->m;
	int ret = slime_op_status(op);

	atomic_fetch_add(&m->n_read, 1);
	if (!ret && !atomic_load(&m->over))
		ret = slime_read(m->link.ep, &lane->xfer, 1, 0, op);
	else
		ret = ret ? ret : -ECANCELED;
	if (!ret)
		return;
	if (ret != -ECANCELED)
		atomic_store(&m->failed, ret);
	atomic_fetch_sub(&m->n_pending, 1);
}

static int start_reads(struct mixed *m)
{
	int ret = 0;

	atomic_store(&m->over, false);
	atomic_store(&m->n_read, 0);
	for (uint32_t i = 0; i < m->n_lanes && !ret; i++) {
		atomic_fetch_add(&m->n_pending, 1);
		ret = slime_read(m->link.ep, &m->lanes[i].xfer, 1, 0, m->lanes[i].op);
		if (ret)
			atomic_fetch_sub(&m->n_pending, 1);
	}
	return ret;
}

static int end_reads(struct mixed *m)
{
	atomic_store(&m->over, true);
	while (atomic_load(&m->n_pending))
		(void)slime_context_poll(m->link.ctx);
	return atomic_load(&m->failed);
}

/* ---- the calls ---- */

static int call_once(struct mixed *m)
{
	uint64_t size = m->opt->rounds.size;
	int ret;

	stamp(m->request, size, ++m->number);
	ret = slime_call_start(m->opt->other_link ? m->beside.ep : m->link.ep, &m->args, m->call);
	if (!ret)
		ret = slime_call_wait(m->call, -1);
	if (!ret)
		ret = slime_call_status(m->call);
	if (!ret && (slime_call_reply_len(m->call) != size ||
		     !stamped(slime_call_reply_data(m->call), size, m->number)))
		ret = -EILSEQ;
	return ret;
}

static int mixed_round(void *arg, struct rounds *r)
{
	struct mixed *m = arg;
	int ret = start_reads(m), end;
	uint64_t now = ticks_ns();

	while (!ret && !rounds_over(r, now)) {
		uint64_t begin = now;

		ret = call_once(m);
		now = ticks_ns();
		rounds_add(r, now - begin, 0);
	}
	end = end_reads(m);
	r->bytes = atomic_load(&m->n_read) * m->opt->rounds.block;
	return ret ? ret : end;
}

/* Every byte that the reads left. */
static int check(void *arg)
{
	struct mixed *m = arg;
	uint64_t wrong;
	bool right = load_pattern_check(m->pool.bytes, pool_len(m), LOAD_PATTERN_SEED, 0, &wrong);

	load_pattern_poison(m->pool.bytes, pool_len(m));
	return right ? 0 : -EILSEQ;
}

/* ---- what they use ---- */

static int open_lanes(struct mixed *m)
{
	int ret = 0;

	for (uint32_t i = 0; i < m->n_lanes && !ret; i++) {
		struct lane *lane = &m->lanes[i];
		struct slime_op_attr attr = { .fn = on_read, .arg = lane };
		uint64_t at = i * m->opt->rounds.block;

		lane->m = m;
		lane->xfer = (struct slime_xfer){
			.local = m->pool.mr,
			.remote = &m->remote,
			.local_offset = at,
			.remote_offset = at,
			.len = m->opt->rounds.block,
		};
		ret = slime_op_create(m->link.ctx, &attr, &lane->op);
	}
	return ret;
}

static int open_call(struct mixed *m)
{
	uint64_t size = m->opt->rounds.size;

	m->request = malloc(2 * size + 1);
	if (!m->request)
		return -ENOMEM;
	m->reply = m->request + size;
	memset(m->request, 'q', size);
	m->args = (struct slime_call_args){
		.method = slime_rpc_method_id("echo"),
		.request = m->request,
		.request_len = size,
		.reply = m->reply,
		.reply_cap = size,
		.timeout_ms = -1,
	};
	return slime_call_create(m->link.ctx, NULL, &m->call);
}

static void close_all(struct mixed *m)
{
	slime_call_destroy(m->call);
	free(m->request);
	for (uint32_t i = 0; i < m->n_lanes; i++)
		slime_op_destroy(m->lanes[i].op);
	space_close(&m->pool);
}

static int measure(struct mixed *m, const struct rounds_attr *attr, struct pair *pair)
{
	struct rounds_side side = { .round = mixed_round, .check = check, .arg = m, .pair = pair };
	int ret = open_links(m, LINK_CLIENT, pair->channel);

	if (ret)
		return ret;
	ret = space_open(&m->pool, &m->link, pool_len(m), 0, false);
	if (!ret) {
		ret = space_hear(&m->remote, pair->channel);
		if (!ret)
			ret = open_lanes(m);
		if (!ret)
			ret = open_call(m);
		if (!ret)
			ret = rounds_run(attr, &side);
		close_all(m);
	}
	close_links(m);
	return ret;
}

int measure_mixed(const struct options *o, const struct rounds_attr *attr)
{
	struct mixed m = { .opt = o, .n_lanes = (uint32_t)o->inflight };
	struct pair pair;
	int ret, end;

	m.lanes = calloc(m.n_lanes, sizeof(*m.lanes));
	if (!m.lanes)
		return -ENOMEM;
	ret = pair_start(&pair, serve, &m);
	if (!ret) {
		ret = measure(&m, attr, &pair);
		end = pair_end(&pair);
		ret = ret ? ret : end;
	}
	free(m.lanes);
	return ret;
}
