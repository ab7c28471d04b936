/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of one-sided reads or writes of blocks of the server's pool, one batch in flight. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "bench/load/pattern.h"
#include "bench/measure/link.h"
#include "bench/measure/measure.h"
#include "bench/rounds/walk.h"

#define BATCH_TIMEOUT_MS 30000

struct blocks {
	const struct options *opt;
	struct walk walk;
	struct link link;
	struct space local; /* of one batch */
	struct slime_remote_mr pool;
	struct slime_xfer *xfers;
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
	int ret = link_open(&b->link, b->opt, channel);

	if (ret)
		return ret;
	ret = serve_pool(b, channel);
	link_close(&b->link);
	return ret;
}

/* ---- the client ---- */

static int submit(struct blocks *b, bool write)
{
	size_t n = b->walk.n_batch;

	return write ? slime_write(b->link.ep, b->xfers, n, 0, b->link.op)
		     : slime_read(b->link.ep, b->xfers, n, 0, b->link.op);
}

static int wait_batch(struct blocks *b)
{
	int ret = slime_op_wait(b->link.op, BATCH_TIMEOUT_MS);

	return ret ? ret : slime_op_status(b->link.op);
}

/* What differs from batch to batch: all else of the pieces was set once. */
static void aim(struct blocks *b)
{
	for (uint64_t i = 0; i < b->walk.n_batch; i++)
		b->xfers[i].remote_offset = walk_offset(&b->walk, i);
}

static int blocks_round(void *arg, struct rounds *r)
{
	struct blocks *b = arg;
	uint64_t begin = sl_clock_ns();
	uint64_t posted, now;
	int ret;

	do {
		aim(b);
		ret = submit(b, b->write);
		posted = sl_clock_ns();
		if (!ret)
			ret = wait_batch(b);
		if (ret)
			return ret;
		now = sl_clock_ns();
		samples_add(&r->posted, posted - begin);
		rounds_add(r, now - begin, walk_batch_bytes(&b->walk));
		walk_next(&b->walk);
		begin = now;
	} while (!rounds_over(r, begin));
	return 0;
}

/* The pool's pattern, at the places of the batch at hand. */
static void fill_local(struct blocks *b)
{
	uint64_t block = b->walk.block;

	for (uint64_t i = 0; i < b->walk.n_batch; i++)
		load_pattern_fill(b->local.bytes + i * block, block, LOAD_PATTERN_SEED,
				  walk_offset(&b->walk, i));
}

static bool local_is_right(struct blocks *b)
{
	uint64_t block = b->walk.block;
	uint64_t wrong;

	for (uint64_t i = 0; i < b->walk.n_batch; i++) {
		if (!load_pattern_check(b->local.bytes + i * block, block, LOAD_PATTERN_SEED,
					walk_offset(&b->walk, i), &wrong))
			return false;
	}
	return true;
}

/* One more batch: of a write also a read of what it left. */
static int check(void *arg)
{
	struct blocks *b = arg;
	int ret = 0;

	aim(b);
	if (b->write) {
		fill_local(b);
		ret = submit(b, true);
		if (!ret)
			ret = wait_batch(b);
	}
	load_pattern_poison(b->local.bytes, b->local.len);
	if (!ret)
		ret = submit(b, false);
	if (!ret)
		ret = wait_batch(b);
	return ret ? ret : local_is_right(b) ? 0 : -EILSEQ;
}

static void make_xfers(struct blocks *b)
{
	for (uint64_t i = 0; i < b->walk.n_batch; i++)
		b->xfers[i] = (struct slime_xfer){
			.local = b->local.mr,
			.remote = &b->pool,
			.local_offset = i * b->walk.block,
			.len = b->walk.block,
		};
}

static int measure_linked(struct blocks *b, const struct rounds_attr *attr, struct pair *pair)
{
	struct rounds_side side = { .round = blocks_round, .check = check, .arg = b, .pair = pair };
	int ret = space_open(&b->local, &b->link, walk_batch_bytes(&b->walk), 0, b->opt->foreign);

	if (ret)
		return ret;
	ret = space_hear(&b->pool, pair->channel);
	make_xfers(b);
	if (!ret)
		ret = rounds_run(attr, &side);
	space_close(&b->local);
	return ret;
}

static int measure(struct blocks *b, const struct rounds_attr *attr, struct pair *pair)
{
	int ret;

	b->xfers = calloc(b->walk.n_batch, sizeof(*b->xfers));
	if (!b->xfers)
		return -ENOMEM;
	ret = link_open(&b->link, b->opt, pair->channel);
	if (!ret) {
		ret = measure_linked(b, attr, pair);
		link_close(&b->link);
	}
	free(b->xfers);
	return ret;
}

int measure_blocks(const struct options *o, const struct rounds_attr *attr, bool write)
{
	struct blocks b = { .opt = o, .write = write };
	struct pair pair;
	int ret = walk_init(&b.walk, o->rounds.block, (uint64_t)o->rounds.batch, o->rounds.cold,
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
