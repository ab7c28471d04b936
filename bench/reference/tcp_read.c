/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reader over one socket: it names the blocks of a batch, and the server's answers leave together
 * from where they lie in the pool and arrive where they belong.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/load/pattern.h"
#include "bench/reference/reference.h"
#include "bench/reference/stream.h"
#include "bench/rounds/memory.h"
#include "bench/rounds/ticks.h"
#include "bench/rounds/walk.h"

#define STOP UINT64_MAX /* as the first block: the round is over */

struct reader {
	struct walk walk;
	enum reference_wait wait;
	int server_fd, client_fd;
	uint8_t *memory;   /* the server's pool, the client's batch */
	uint64_t *offsets; /* of a batch */
	struct iovec *iov;
	const struct pair *pair;
};

/* ---- the server ---- */

static int answer_batch(struct reader *s)
{
	uint64_t n = s->walk.n_batch;

	for (uint64_t i = 0; i < n; i++)
		s->iov[i] = (struct iovec){ s->memory + s->offsets[i], s->walk.block };
	return stream_send(s->server_fd, s->iov, n);
}

static int answer_until_stop(void *arg)
{
	struct reader *s = arg;
	int ret;

	do {
		struct iovec request = { s->offsets, s->walk.n_batch * sizeof(*s->offsets) };

		ret = stream_recv(s->server_fd, &request, 1, s->wait);
		if (!ret && s->offsets[0] == STOP)
			return 0;
		if (!ret)
			ret = answer_batch(s);
	} while (!ret);
	return ret;
}

static int serve(void *arg, int channel)
{
	struct reader *s = arg;

	close(s->client_fd);
	s->memory = memory_map(-1, walk_pool_bytes(&s->walk));
	if (!s->memory)
		return -ENOMEM;
	load_pattern_fill(s->memory, walk_pool_bytes(&s->walk), LOAD_PATTERN_SEED, 0);
	return stream_serve(channel, answer_until_stop, s);
}

/* ---- the client ---- */

static int ask(struct reader *c, uint64_t first)
{
	struct iovec request = { c->offsets, c->walk.n_batch * sizeof(*c->offsets) };

	for (uint64_t i = 0; i < c->walk.n_batch; i++)
		c->offsets[i] = first == STOP ? STOP : walk_offset(&c->walk, i);
	return stream_send(c->client_fd, &request, 1);
}

static int read_batch(struct reader *c)
{
	struct iovec answers = { c->memory, walk_batch_bytes(&c->walk) };
	int ret = ask(c, 0);

	return ret ? ret : stream_recv(c->client_fd, &answers, 1, c->wait);
}

static int read_round(void *arg, struct rounds *r)
{
	struct reader *c = arg;
	uint64_t begin = ticks_ns();
	uint64_t now;
	int ret = pair_tell(c->pair->channel, "", 1);

	do {
		if (!ret)
			ret = read_batch(c);
		now = ticks_ns();
		rounds_add(r, now - begin, walk_batch_bytes(&c->walk));
		walk_next(&c->walk);
		begin = now;
	} while (!ret && !rounds_over(r, begin));
	return ret ? ret : ask(c, STOP);
}

static int check_batch(void *arg)
{
	struct reader *c = arg;
	uint64_t wrong;
	int ret = pair_tell(c->pair->channel, "", 1);

	load_pattern_poison(c->memory, walk_batch_bytes(&c->walk));
	if (!ret)
		ret = read_batch(c);
	for (uint64_t i = 0; i < c->walk.n_batch && !ret; i++) {
		if (!load_pattern_check(c->memory + i * c->walk.block, c->walk.block,
					LOAD_PATTERN_SEED, walk_offset(&c->walk, i), &wrong))
			ret = -EILSEQ;
	}
	return ret ? ret : ask(c, STOP);
}

static int measure(struct reader *c, const struct rounds_attr *attr, struct pair *pair)
{
	struct rounds_side side = {
		.round = read_round, .check = check_batch, .arg = c, .pair = pair
	};

	c->pair = pair;
	c->memory = memory_map(-1, walk_batch_bytes(&c->walk));
	return c->memory ? rounds_run(attr, &side) : -ENOMEM;
}

int reference_tcp_read(const struct options *o, const struct rounds_attr *attr)
{
	struct reader r = { .wait = (enum reference_wait)o->wait };
	struct pair pair;
	int ret = walk_init(&r.walk, o->rounds.block, (uint64_t)o->rounds.batch, o->rounds.cold,
			    o->rounds.scatter);
	int end;

	if (ret)
		return ret;
	r.offsets = calloc(r.walk.n_batch, sizeof(*r.offsets));
	r.iov = calloc(r.walk.n_batch, sizeof(*r.iov));
	ret = r.offsets && r.iov ? stream_pair(&r.server_fd, &r.client_fd) : -ENOMEM;
	if (!ret)
		ret = pair_start(&pair, serve, &r);
	if (ret)
		return ret;
	close(r.server_fd);
	ret = measure(&r, attr, &pair);
	close(r.client_fd);
	end = pair_end(&pair);
	free(r.offsets);
	free(r.iov);
	walk_fini(&r.walk);
	return ret ? ret : end;
}
