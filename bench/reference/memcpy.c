/* SPDX-License-Identifier: Apache-2.0 */
/* memcpy of blocks from memory that another process wrote to memory of this one, both shared. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "bench/load/pattern.h"
#include "bench/reference/reference.h"
#include "bench/rounds/memory.h"
#include "bench/rounds/ticks.h"
#include "bench/rounds/walk.h"

struct copy {
	struct walk walk;
	int pool_fd;
	uint8_t *pool;
	uint8_t *local; /* of one batch */
};

static int serve(void *arg, int channel)
{
	struct copy *c = arg;
	uint64_t len = walk_pool_bytes(&c->walk);
	uint8_t *pool = memory_map(c->pool_fd, len);
	char end;
	int ret;

	if (!pool)
		return -ENOMEM;
	load_pattern_fill(pool, len, LOAD_PATTERN_SEED, 0);
	ret = pair_tell(channel, "", 1);
	return ret ? ret : (int)pair_hear_some(channel, &end, 1);
}

static int copy_round(void *arg, struct rounds *r)
{
	struct copy *c = arg;
	uint64_t block = c->walk.block;
	uint64_t n = c->walk.n_batch;
	uint64_t begin = ticks_ns();

	do {
		uint64_t now;

		for (uint64_t i = 0; i < n; i++)
			memcpy(c->local + i * block, c->pool + walk_offset(&c->walk, i), block);
		now = ticks_ns();
		rounds_add(r, now - begin, n * block);
		walk_next(&c->walk);
		begin = now;
	} while (!rounds_over(r, begin));
	return 0;
}

/* The destination is shared memory, too, as the library's is. */
static int open_memory(struct copy *c)
{
	int fd = memory_file(walk_batch_bytes(&c->walk));

	if (fd < 0)
		return fd;
	c->local = memory_map(fd, walk_batch_bytes(&c->walk));
	close(fd);
	c->pool = memory_map(c->pool_fd, walk_pool_bytes(&c->walk));
	return c->local && c->pool ? 0 : -ENOMEM;
}

static int measure(struct copy *c, const struct rounds_attr *attr, struct pair *pair)
{
	struct rounds_side side = { .round = copy_round, .arg = c, .pair = pair };
	char ready;
	int ret = pair_hear(pair->channel, &ready, 1);

	if (!ret)
		ret = open_memory(c);
	return ret ? ret : rounds_run(attr, &side);
}

int reference_memcpy(const struct options *o, const struct rounds_attr *attr)
{
	struct copy c;
	struct pair pair;
	int ret = walk_init(&c.walk, o->rounds.block, (uint64_t)o->rounds.batch, o->rounds.cold,
			    o->rounds.scatter);
	int end;

	if (ret)
		return ret;
	c.pool_fd = memory_file(walk_pool_bytes(&c.walk));
	if (c.pool_fd < 0)
		return c.pool_fd;
	ret = pair_start(&pair, serve, &c);
	if (ret)
		return ret;
	ret = measure(&c, attr, &pair);
	end = pair_end(&pair);
	walk_fini(&c.walk);
	return ret ? ret : end;
}
