/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of one-sided reads or writes of blocks of the server's pool, some in flight. */
#include <errno.h>
#include <stdlib.h>

#include "bench/load/lanes.h"
#include "bench/load/pattern.h"
#include "bench/measure/link.h"
#include "bench/measure/measure.h"
#include "bench/rounds/ticks.h"
#include "bench/rounds/walk.h"

/* Counted batches between two looks at the clock. */
#define BATCHES_PER_LOOK 16

/* A batch in flight. */
struct lane {
	struct slime_op *op;
	struct slime_xfer *xfers;
	uint64_t begin_ns;
};

struct blocks {
	const struct options *opt;
	struct walk walk; /* a step of it is a batch of each lane, or one for all */
	struct link link;
	struct space local; /* of all lanes: of each in turn, or the same */
	struct slime_remote_mr pool;
	struct slime_xfer *xfers;
	struct lane *lanes;
	uint64_t n_lanes;
	uint64_t n_batch; /* blocks of a lane's */
	bool write;
};

/* ---- the server ---- */

static int serve_pool(struct blocks *b, int channel)
{
	struct space pool;
	char end;
	int ret = space_open(&pool, &b->link, walk_pool_bytes(&b->walk),
			     SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE, b->opt->foreign);

	if (ret)
		return ret;
	load_pattern_fill(pool.bytes, pool.len, LOAD_PATTERN_SEED, 0);
	ret = space_tell(&pool, channel);
	if (!ret)
		ret = (int)pair_hear_some(channel, &end, 1);
	slime_endpoint_close(b->link.ep);
	space_close(&pool);
	return ret;
}

static int serve(void *arg, int channel)
{
	struct blocks *b = arg;
	int ret = link_open(&b->link, b->opt, LINK_SERVER, channel);

	if (ret)
		return ret;
	ret = serve_pool(b, channel);
	link_close(&b->link);
	return ret;
}

/* ---- the client ---- */

static uint64_t lane_bytes(const struct blocks *b)
{
	return b->n_batch * b->walk.block;
}

static uint64_t first_block(const struct blocks *b, const struct lane *lane)
{
	return b->opt->one_place ? 0 : (uint64_t)(lane - b->lanes) * b->n_batch;
}

static int submit(struct blocks *b, struct lane *lane, bool write)
{
	return write ? slime_write(b->link.ep, lane->xfers, b->n_batch, 0, lane->op)
		     : slime_read(b->link.ep, lane->xfers, b->n_batch, 0, lane->op);
}

static int wait_batch(struct lane *lane)
{
	int ret = slime_op_wait(lane->op, -1);

	return ret ? ret : slime_op_status(lane->op);
}

/* What differs from batch to batch: all else of the pieces was set once. */
static void aim(struct blocks *b, struct lane *lane)
{
	uint64_t first = first_block(b, lane);

	for (uint64_t i = 0; i < b->n_batch; i++)
		lane->xfers[i].remote_offset = walk_offset(&b->walk, first + i);
}

static int start(struct blocks *b, struct lane *lane, struct rounds *r, uint64_t now)
{
	int ret;

	lane->begin_ns = now;
	aim(b, lane);
	ret = submit(b, lane, b->write);
	if (!b->opt->count)
		samples_add(&r->posted, ticks_ns() - now);
	return ret;
}

/* It is timed, or counted; the clock is a system call in some guests. */
static void finished(const struct blocks *b, const struct lane *lane, struct rounds *r,
		     uint64_t *now)
{
	bool count = b->opt->count;

	if (!count || r->n_ops % BATCHES_PER_LOOK == 0)
		*now = ticks_ns();
	if (count)
		rounds_count(r, lane_bytes(b));
	else
		rounds_add(r, *now - lane->begin_ns, lane_bytes(b));
}

/* A round under way, and when its last batch ended. */
struct turn {
	struct blocks *b;
	struct rounds *r;
	uint64_t now;
};

static int begin_batch(void *arg, uint64_t i)
{
	struct turn *t = arg;

	return start(t->b, &t->b->lanes[i], t->r, t->now);
}

static int end_batch(void *arg, uint64_t i)
{
	struct turn *t = arg;
	struct lane *lane = &t->b->lanes[i];
	int ret;

	if (i == 0)
		walk_next(&t->b->walk);
	ret = wait_batch(lane);
	finished(t->b, lane, t->r, &t->now);
	return ret;
}

static bool goes_on(void *arg)
{
	const struct turn *t = arg;

	return !rounds_over(t->r, t->now);
}

static int blocks_round(void *arg, struct rounds *r)
{
	struct blocks *b = arg;
	struct turn turn = { .b = b, .r = r, .now = ticks_ns() };
	const struct lanes lanes = { .n = b->n_lanes,
				     .begin = begin_batch,
				     .end = end_batch,
				     .goes_on = goes_on,
				     .arg = &turn };

	return lanes_run(&lanes);
}

/* The pool's pattern, at the places of the batch at hand. */
static void fill_local(struct blocks *b)
{
	uint64_t block = b->walk.block;

	for (uint64_t i = 0; i < b->n_batch; i++)
		load_pattern_fill(b->local.bytes + i * block, block, LOAD_PATTERN_SEED,
				  walk_offset(&b->walk, i));
}

static bool local_is_right(struct blocks *b)
{
	uint64_t block = b->walk.block;
	uint64_t wrong;

	for (uint64_t i = 0; i < b->n_batch; i++) {
		if (!load_pattern_check(b->local.bytes + i * block, block, LOAD_PATTERN_SEED,
					walk_offset(&b->walk, i), &wrong))
			return false;
	}
	return true;
}

/* One more batch, of the first lane: of a write also a read of what it left. */
static int check(void *arg)
{
	struct blocks *b = arg;
	struct lane *lane = &b->lanes[0];
	int ret = 0;

	aim(b, lane);
	if (b->write) {
		fill_local(b);
		ret = submit(b, lane, true);
		if (!ret)
			ret = wait_batch(lane);
	}
	load_pattern_poison(b->local.bytes, lane_bytes(b));
	if (!ret)
		ret = submit(b, lane, false);
	if (!ret)
		ret = wait_batch(lane);
	return ret ? ret : local_is_right(b) ? 0 : -EILSEQ;
}

static void make_xfers(struct blocks *b, struct lane *lane)
{
	for (uint64_t i = 0; i < b->n_batch; i++)
		lane->xfers[i] = (struct slime_xfer){
			.local = b->local.mr,
			.remote = &b->pool,
			.local_offset = (first_block(b, lane) + i) * b->walk.block,
			.len = b->walk.block,
		};
}

static int open_lanes(struct blocks *b)
{
	int ret = 0;

	for (uint64_t i = 0; i < b->n_lanes && !ret; i++) {
		b->lanes[i].xfers = b->xfers + i * b->n_batch;
		make_xfers(b, &b->lanes[i]);
		ret = slime_op_create(b->link.ctx, NULL, &b->lanes[i].op);
	}
	return ret;
}

static void close_lanes(struct blocks *b)
{
	for (uint64_t i = 0; i < b->n_lanes; i++)
		slime_op_destroy(b->lanes[i].op);
}

static int measure_linked(struct blocks *b, const struct rounds_attr *attr, struct pair *pair)
{
	struct rounds_side side = { .round = blocks_round, .check = check, .arg = b, .pair = pair };
	int ret = space_open(&b->local, &b->link, walk_batch_bytes(&b->walk), 0, b->opt->foreign);

	if (ret)
		return ret;
	ret = space_hear(&b->pool, pair->channel);
	if (!ret)
		ret = open_lanes(b);
	if (!ret)
		ret = rounds_run(attr, &side);
	close_lanes(b);
	space_close(&b->local);
	return ret;
}

static int measure(struct blocks *b, const struct rounds_attr *attr, struct pair *pair)
{
	int ret;

	b->xfers = calloc(b->n_lanes * b->n_batch, sizeof(*b->xfers));
	b->lanes = calloc(b->n_lanes, sizeof(*b->lanes));
	ret = b->xfers && b->lanes ? 0 : -ENOMEM;
	if (!ret)
		ret = link_open(&b->link, b->opt, LINK_CLIENT, pair->channel);
	if (!ret) {
		ret = measure_linked(b, attr, pair);
		link_close(&b->link);
	}
	free(b->lanes);
	free(b->xfers);
	return ret;
}

int measure_blocks(const struct options *o, const struct rounds_attr *attr, bool write)
{
	struct blocks b = {
		.opt = o,
		.n_lanes = (uint64_t)o->inflight,
		.n_batch = (uint64_t)o->rounds.batch,
		.write = write,
	};
	struct pair pair;
	uint64_t n_places = o->one_place ? 1 : b.n_lanes;
	int ret = walk_init(&b.walk, o->rounds.block, n_places * b.n_batch, o->rounds.cold,
			    o->rounds.scatter);
	int end;

	if (ret)
		return ret;
	ret = pair_start(&pair, serve, &b);
	if (ret)
		return ret;
	ret = measure(&b, attr, &pair);
	end = pair_end(&pair);
	walk_fini(&b.walk);
	return ret ? ret : end;
}
