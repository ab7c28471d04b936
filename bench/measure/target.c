/* SPDX-License-Identifier: Apache-2.0 */
/* Reads of one block of another agent's region: through a target, or by an endpoint and a region's
 * descriptor that the program looked up once. */
#include <errno.h>
#include <string.h>

#include "bench/load/pattern.h"
#include "bench/measure/measure.h"
#include "bench/rounds/ticks.h"
#include <slime/target.h>

#define READS_TOGETHER 16

#define READY_MS 30000
#define REGION	 "pool"

struct reads {
	const struct options *opt;
	struct slime_agent *agent;
	struct slime_mem *mem;
	struct slime_mr *mr;
	struct slime_op *op;
	struct slime_xfer xfer;
	/* By names, or by handles. */
	struct slime_target *target;
	struct slime_endpoint *ep;
	struct slime_remote_mr remote;
};

static int start_agent(const struct options *o, const char *name,
		       const struct slime_topology *topology, struct slime_agent **out)
{
	struct slime_agent_attr attr = SLIME_AGENT_ATTR_INIT;
	int ret;

	attr.name = name;
	attr.scope = "slime-measure";
	attr.urls = &o->url;
	attr.n_urls = 1;
	attr.topology = *topology;
	attr.transports[0] = (enum slime_transport)o->transport;
	attr.data.polling = (enum slime_polling)o->polling;
	ret = slime_agent_create(&attr, out);
	if (ret)
		return ret;
	ret = slime_agent_start(*out);
	if (!ret)
		ret = slime_agent_wait_ready(*out, READY_MS);
	if (ret)
		slime_agent_destroy(*out);
	return ret;
}

/* ---- the server ---- */

static int serve(void *arg, int channel)
{
	const struct options *o = arg;
	const struct slime_agent_region pool = { .name = REGION,
						 .size = o->rounds.block,
						 .numa_node = SLIME_NUMA_ANY,
						 .access = SLIME_ACCESS_REMOTE_READ };
	const struct slime_topology topology = { .regions = &pool, .n_regions = 1 };
	struct slime_agent *agent;
	struct slime_mr *mr;
	char end;
	int ret = start_agent(o, "server", &topology, &agent);

	if (ret)
		return ret;
	ret = slime_agent_region_local(agent, REGION, &mr);
	if (!ret) {
		load_pattern_fill(slime_mr_addr(mr), pool.size, LOAD_PATTERN_SEED, 0);
		ret = pair_tell(channel, "", 1);
	}
	if (!ret)
		ret = (int)pair_hear_some(channel, &end, 1);
	slime_agent_destroy(agent);
	return ret;
}

/* ---- the client ---- */

static int read_once(struct reads *r)
{
	int ret = r->target ? slime_target_read(r->target, &r->xfer, 1, 0, r->op)
			    : slime_read(r->ep, &r->xfer, 1, 0, r->op);

	if (!ret)
		ret = slime_op_wait(r->op, -1);
	return ret ? ret : slime_op_status(r->op);
}

/* A read takes less than 0.1 us, and the counter of some processors goes in steps of 10 ns: each of
 * a few reads counts as their mean. */
static int round_of_reads(void *arg, struct rounds *rounds)
{
	struct reads *r = arg;
	uint64_t now = ticks_ns(), begin;
	int ret = 0;

	do {
		begin = now;
		for (int i = 0; i < READS_TOGETHER && !ret; i++)
			ret = read_once(r);
		now = ticks_ns();
		for (int i = 0; i < READS_TOGETHER; i++)
			rounds_add(rounds, (now - begin) / READS_TOGETHER, r->xfer.len);
	} while (!ret && !rounds_over(rounds, now));
	return ret;
}

static int check(void *arg)
{
	struct reads *r = arg;
	uint64_t wrong;
	int ret;

	load_pattern_poison(slime_mem_addr(r->mem), r->xfer.len);
	ret = read_once(r);
	if (ret)
		return ret;
	return load_pattern_check(slime_mem_addr(r->mem), r->xfer.len, LOAD_PATTERN_SEED, 0, &wrong)
		       ? 0
		       : -EILSEQ;
}

static int open_memory(struct reads *r)
{
	struct slime_context *ctx = slime_agent_context(r->agent);
	uint64_t len = r->opt->rounds.block;
	int ret = slime_mem_alloc(ctx, len, NULL, &r->mem);

	if (!ret)
		ret = slime_mr_create(ctx, slime_mem_addr(r->mem), len, 0, &r->mr);
	if (!ret)
		ret = slime_op_create(ctx, NULL, &r->op);
	r->xfer = (struct slime_xfer){ .local = r->mr, .remote = &r->remote, .len = len };
	return ret;
}

static int open_route(struct reads *r)
{
	int ret;

	if (!r->opt->by_handles) {
		ret = slime_agent_target_get(r->agent, "server", REGION, &r->target);
		return ret ? ret : slime_agent_target_wait(r->target, READY_MS);
	}
	ret = slime_agent_endpoint_get(r->agent, "server", NULL, READY_MS, &r->ep);
	return ret ? ret
		   : slime_agent_region_remote(r->agent, "server", REGION, READY_MS, &r->remote);
}

static int close_all(struct reads *r)
{
	int ret;

	slime_agent_target_put(r->target);
	if (r->ep)
		slime_agent_endpoint_put(r->agent, r->ep);
	ret = slime_op_destroy(r->op);
	if (!ret)
		ret = slime_mr_destroy(r->mr);
	if (!ret)
		ret = slime_mem_destroy(r->mem);
	return ret ? ret : slime_agent_destroy(r->agent);
}

static int measure(struct reads *r, const struct rounds_attr *attr, struct pair *pair)
{
	struct rounds_side side = {
		.round = round_of_reads, .check = check, .arg = r, .pair = pair
	};
	const struct slime_agent_link link = { .to = "server" };
	const struct slime_topology topology = { .links = &link, .n_links = 1 };
	char ready;
	int ret = pair_hear(pair->channel, &ready, 1), end;

	if (!ret)
		ret = start_agent(r->opt, "client", &topology, &r->agent);
	if (ret)
		return ret;
	ret = open_memory(r);
	if (!ret)
		ret = open_route(r);
	if (!ret)
		ret = rounds_run(attr, &side);
	end = close_all(r);
	return ret ? ret : end;
}

int measure_target(const struct options *o, const struct rounds_attr *attr)
{
	struct options served = *o;
	struct reads r = { .opt = o };
	struct pair pair;
	int ret = pair_start(&pair, serve, &served), end;

	if (ret)
		return ret;
	ret = measure(&r, attr, &pair);
	end = pair_end(&pair);
	return ret ? ret : end;
}
