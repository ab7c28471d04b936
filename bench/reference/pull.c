/* SPDX-License-Identifier: Apache-2.0 */
/* process_vm_readv of blocks of another process's ordinary memory, as many as it takes at once. */
#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "bench/load/pattern.h"
#include "bench/reference/reference.h"
#include "bench/rounds/memory.h"
#include "bench/rounds/ticks.h"
#include "bench/rounds/walk.h"

#define PIECES_MAX 1024 /* of a system call */

struct pull {
	struct walk walk;
	pid_t server;
	uint8_t *pool; /* the same address in both: the server maps it after the fork */
	uint8_t *local;
};

static int serve(void *arg, int channel)
{
	struct pull *p = arg;
	uint64_t len = walk_pool_bytes(&p->walk);
	char end;
	int ret;

	p->pool = memory_map(-1, len);
	if (!p->pool)
		return -ENOMEM;
	load_pattern_fill(p->pool, len, LOAD_PATTERN_SEED, 0);
	ret = pair_tell(channel, &p->pool, sizeof(p->pool));
	return ret ? ret : (int)pair_hear_some(channel, &end, 1);
}

static int pull_pieces(const struct pull *p, uint64_t first, size_t n)
{
	struct iovec local[PIECES_MAX];
	struct iovec remote[PIECES_MAX];
	uint64_t block = p->walk.block;
	ssize_t got;

	for (size_t i = 0; i < n; i++) {
		local[i] = (struct iovec){ p->local + (first + i) * block, block };
		remote[i] = (struct iovec){ p->pool + walk_offset(&p->walk, first + i), block };
	}
	got = process_vm_readv(p->server, local, n, remote, n, 0);
	if (got < 0)
		return -errno;
	return (size_t)got == n * block ? 0 : -EIO;
}

static int pull_batch(const struct pull *p)
{
	uint64_t n = p->walk.n_batch;
	int ret = 0;

	for (uint64_t i = 0; i < n && !ret; i += PIECES_MAX)
		ret = pull_pieces(p, i, n - i < PIECES_MAX ? n - i : PIECES_MAX);
	return ret;
}

static int pull_round(void *arg, struct rounds *r)
{
	struct pull *p = arg;
	uint64_t begin = ticks_ns();
	uint64_t now;
	int ret;

	do {
		ret = pull_batch(p);
		if (ret)
			return ret;
		now = ticks_ns();
		rounds_add(r, now - begin, walk_batch_bytes(&p->walk));
		walk_next(&p->walk);
		begin = now;
	} while (!rounds_over(r, begin));
	return 0;
}

static int measure(struct pull *p, const struct rounds_attr *attr, struct pair *pair)
{
	struct rounds_side side = { .round = pull_round, .arg = p, .pair = pair };
	int ret = pair_hear(pair->channel, &p->pool, sizeof(p->pool));

	if (ret)
		return ret;
	p->server = pair->server;
	p->local = memory_map(-1, walk_batch_bytes(&p->walk));
	return p->local ? rounds_run(attr, &side) : -ENOMEM;
}

int reference_pull(const struct options *o, const struct rounds_attr *attr)
{
	struct pull p;
	struct pair pair;
	int ret = walk_init(&p.walk, o->rounds.block, (uint64_t)o->rounds.batch, o->rounds.cold,
			    o->rounds.scatter);
	int end;

	if (ret)
		return ret;
	ret = pair_start(&pair, serve, &p);
	if (ret)
		return ret;
	ret = measure(&p, attr, &pair);
	end = pair_end(&pair);
	walk_fini(&p.walk);
	return ret ? ret : end;
}
