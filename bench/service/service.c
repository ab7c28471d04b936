/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/wire.h"
#include "bench/load/pattern.h"
#include "bench/service/claim.h"
#include "bench/service/drain.h"
#include "bench/service/job.h"
#include "cli/options/quantity.h"
#include <slime/plugin.h>

/*
 * The bench service of an agent: `services: [ { name: bench, options: { size: 64MiB } } ]`.
 * Offers the regions "bench" and "bench-write" of `size` bytes each and the methods of job.h. What
 * blocks runs on the worker pool, with a worker of its own for bench.run: two agents that measure
 * each other wait for each other's answers.
 */

#define DEFAULT_SIZE (UINT64_C(64) << 20)
#define MAX_SIZE     (INT64_C(1) << 40)
#define N_DRAINS     8
/* What is filled between two looks at whether it is wanted still: a tenth of a second. */
#define FILL_STEP (UINT64_C(64) << 20)
/* The link of somebody who calls us comes up at our end, too: a moment later. */
#define LINK_MS 1000

struct offer {
	const char *name;
	uint32_t access;
	struct slime_mem *mem;
	struct slime_mr *mr;
	bool offered;
};

/* Who asks: an agent, and the profile of the link between the two of us. */
struct caller {
	char agent[SLIME_AGENT_NAME_MAX + 1];
	char profile[SLIME_AGENT_NAME_MAX + 1];
	uint32_t number;
};

struct service {
	struct slime_agent *agent;
	uint64_t size;
	struct offer offers[2];

	pthread_mutex_t lock;
	_Atomic bool stopping; /* written with the lock held */
	bool running;	       /* a job */
	struct bench_claim claim;
	struct bench_drain *drains[N_DRAINS];
};

static void refuse(struct slime_rpc_request *req, int err, const char *message)
{
	slime_rpc_reply_error(req, (uint32_t)-err, message);
}

/* ---- bench.run ---- */

static bool begin_run(struct service *s)
{
	bool free_now;

	pthread_mutex_lock(&s->lock);
	free_now = !s->running && !s->stopping;
	if (free_now)
		s->running = true;
	pthread_mutex_unlock(&s->lock);
	return free_now;
}

struct asked_run {
	struct service *service;
	struct slime_rpc_request *req;
};

/* The caller cancelled, or has gone; or this service stops. */
static bool is_unwanted(void *arg)
{
	struct asked_run *a = arg;

	return slime_rpc_request_cancelled(a->req) || atomic_load(&a->service->stopping);
}

static void end_run(struct service *s)
{
	pthread_mutex_lock(&s->lock);
	s->running = false;
	pthread_mutex_unlock(&s->lock);
}

static void on_run(void *arg, struct slime_rpc_request *req)
{
	struct service *s = arg;
	struct asked_run asked = { s, req };
	struct load_control control = { .stop = is_unwanted, .arg = &asked };
	char message[BENCH_MESSAGE_MAX];
	uint8_t reply[BENCH_JOB_MAX];
	struct bench_result result;
	struct bench_job job;
	int ret, len;

	if (bench_job_read(&job, slime_rpc_request_data(req), slime_rpc_request_len(req))) {
		refuse(req, -EINVAL, "malformed job");
		return;
	}
	if (!begin_run(s)) {
		refuse(req, -EBUSY, "another run is going on");
		return;
	}
	ret = bench_job_run(s->agent, &job, &control, &result, NULL, message);
	end_run(s);
	/* Also before it had begun to measure, with the error of what it waited for. */
	if (ret && is_unwanted(&asked))
		sl_info("bench", "a run against %s ended with its caller", job.peer);
	if (ret) {
		refuse(req, ret, message);
		return;
	}
	len = bench_result_write(&result, reply, sizeof(reply));
	slime_rpc_reply(req, reply, (size_t)len);
}

/* ---- bench.usage ---- */

static void on_usage(void *arg, struct slime_rpc_request *req)
{
	uint8_t reply[8];

	(void)arg;
	sl_put_le64(reply, load_cpu_ns());
	slime_rpc_reply(req, reply, sizeof(reply));
}

/* ---- who asks ---- */

static bool read_name(struct sl_reader *r, char *out)
{
	uint16_t len = sl_read_u16(r);
	const uint8_t *p = sl_read_span(r, len);

	if (!p || !len || len > SLIME_AGENT_NAME_MAX || memchr(p, 0, len))
		return false;
	memcpy(out, p, len);
	out[len] = 0;
	return true;
}

/* Who calls says who he is, and nobody proves it: a link that does something else has its
 * immediates taken, or is closed, by no word of a third one. */
static bool read_caller(struct slime_rpc_request *req, struct caller *out)
{
	struct sl_reader r = { .at = slime_rpc_request_data(req),
			       .left = slime_rpc_request_len(req) };
	bool ok = read_name(&r, out->agent) && read_name(&r, out->profile);

	out->number = sl_read_u32(&r);
	if (ok && !r.failed && !r.left &&
	    !strncmp(out->profile, BENCH_PROFILE, strlen(BENCH_PROFILE)))
		return true;
	refuse(req, -EINVAL, "malformed request");
	return false;
}

static void reply_number(struct slime_rpc_request *req, uint64_t n)
{
	uint8_t reply[8];

	sl_put_le64(reply, n);
	slime_rpc_reply(req, reply, sizeof(reply));
}

/* ---- bench.claim: for number milliseconds, or until the link ends; 0 gives it back ---- */

static bool is_linked(struct service *s, const struct bench_claim *claim)
{
	struct slime_endpoint *ep;

	if (slime_agent_endpoint_get(s->agent, claim->agent, claim->profile, LINK_MS, &ep))
		return false;
	slime_agent_endpoint_put(s->agent, ep);
	return true;
}

/* Whoever was killed or interrupted gave nothing back: without its link it writes no more. The look
 * takes a while, and the claim may be another then. */
static void drop_stale_claim(struct service *s, const struct caller *but)
{
	struct bench_claim seen;

	pthread_mutex_lock(&s->lock);
	seen = s->claim;
	pthread_mutex_unlock(&s->lock);
	if (bench_claim_is_free_for(&seen, but->agent) || is_linked(s, &seen))
		return;
	pthread_mutex_lock(&s->lock);
	bench_claim_drop(&s->claim, &seen);
	pthread_mutex_unlock(&s->lock);
}

static void on_claim(void *arg, struct slime_rpc_request *req)
{
	struct service *s = arg;
	struct caller c;
	bool ok;

	if (!read_caller(req, &c))
		return;
	drop_stale_claim(s, &c);
	pthread_mutex_lock(&s->lock);
	ok = bench_claim_is_free_for(&s->claim, c.agent);
	if (ok)
		bench_claim_take(&s->claim, c.agent, c.profile, c.number);
	pthread_mutex_unlock(&s->lock);
	if (ok)
		reply_number(req, 0);
	else
		refuse(req, -EBUSY, "another agent writes to the bench region: try again later");
}

/* ---- bench.drain, bench.drained ---- */

static int add_drain(struct service *s, struct bench_drain *d)
{
	int ret = -EBUSY;

	pthread_mutex_lock(&s->lock);
	for (int i = 0; i < N_DRAINS && ret && !s->stopping; i++) {
		if (!s->drains[i]) {
			s->drains[i] = d;
			ret = 0;
		}
	}
	pthread_mutex_unlock(&s->lock);
	return ret;
}

/* Free those whose connection has ended; all of them, by ending it, when the service stops. */
static void reap_drains(struct service *s, bool all)
{
	for (int i = 0; i < N_DRAINS; i++) {
		struct bench_drain *d = NULL;

		pthread_mutex_lock(&s->lock);
		if (s->drains[i] && (all || bench_drain_has_ended(s->drains[i]))) {
			d = s->drains[i];
			s->drains[i] = NULL;
		}
		pthread_mutex_unlock(&s->lock);
		bench_drain_destroy(d);
	}
}

static void on_drain(void *arg, struct slime_rpc_request *req)
{
	struct service *s = arg;
	struct bench_drain *d;
	struct caller c;
	int ret;

	if (!read_caller(req, &c))
		return;
	reap_drains(s, false);
	ret = bench_drain_create(s->agent, c.agent, c.profile, &d);
	if (!ret) {
		ret = add_drain(s, d);
		if (ret)
			bench_drain_destroy(d);
	}
	if (ret)
		refuse(req, ret, strerror(-ret));
	else
		reply_number(req, 0);
}

/* The drain goes on until its connection ends: the caller still has calls to make over it. */
static void on_drained(void *arg, struct slime_rpc_request *req)
{
	struct service *s = arg;
	uint64_t n = 0;
	bool found = false;
	struct caller c;

	if (!read_caller(req, &c))
		return;
	pthread_mutex_lock(&s->lock);
	for (int i = 0; i < N_DRAINS && !found; i++) {
		found = s->drains[i] && !bench_drain_has_ended(s->drains[i]) &&
			bench_drain_is_of(s->drains[i], c.agent, c.profile);
		if (found)
			n = bench_drain_count(s->drains[i]);
	}
	pthread_mutex_unlock(&s->lock);
	if (found)
		reply_number(req, n);
	else
		refuse(req, -ENOENT, "no immediates are taken for you");
}

/* ---- life ---- */

/* NULL when it is fine, and *size is what it says. */
static const char *parse_option(const struct slime_plugin_option *option, uint64_t *size)
{
	int64_t bytes;

	if (strcmp(option->key, "size"))
		return "the option size";
	if (cli_size_parse(option->value, &bytes) || bytes < 4096 || bytes > MAX_SIZE ||
	    bytes % 4096)
		return "a size such as 64MiB, a multiple of 4KiB, at most 1TiB";
	*size = (uint64_t)bytes;
	return NULL;
}

static const char *service_check(const struct slime_plugin_option *options, size_t n, size_t *index)
{
	const char *expected = NULL;
	uint64_t size;

	for (size_t i = 0; i < n && !expected; i++) {
		expected = parse_option(&options[i], &size);
		*index = i;
	}
	return expected;
}

static int add_methods(struct service *s)
{
	static const struct {
		const char *name;
		slime_rpc_fn *fn;
		uint32_t flags;
	} methods[] = {
		{ BENCH_METHOD_RUN, on_run, 0 },
		{ BENCH_METHOD_USAGE, on_usage, SLIME_RPC_INLINE },
		{ BENCH_METHOD_CLAIM, on_claim, 0 },
		{ BENCH_METHOD_DRAIN, on_drain, 0 },
		{ BENCH_METHOD_DRAINED, on_drained, 0 },
	};

	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		struct slime_rpc_method_attr attr = {
			.fn = methods[i].fn,
			.arg = s,
			.flags = methods[i].flags,
			.max_message = BENCH_JOB_MAX,
		};
		int ret = slime_agent_method_add(s->agent, methods[i].name, &attr);

		if (ret)
			return ret;
	}
	return 0;
}

/* The program is to end before there is a service: as slime/plugin.h has it, there is one in a
 * process. */
static _Atomic bool cancelled;

static bool is_cancelled(void *arg)
{
	(void)arg;
	return atomic_load(&cancelled);
}

static void service_cancel(void)
{
	atomic_store(&cancelled, true);
}

static int fill(const struct service *s, const struct offer *o)
{
	uint8_t *to = slime_mem_addr(o->mem);

	for (uint64_t at = 0; at < s->size; at += FILL_STEP) {
		uint64_t left = s->size - at;

		if (is_cancelled(NULL))
			return -ECANCELED;
		load_pattern_fill(to + at, left < FILL_STEP ? left : FILL_STEP, LOAD_PATTERN_SEED,
				  at);
	}
	return 0;
}

/* Filling many GiB takes longer than a lease: before there is one. */
static int make(struct service *s, struct offer *o)
{
	struct slime_context *ctx = slime_agent_context(s->agent);
	struct slime_mem_attr attr = SLIME_MEM_ATTR_INIT;
	int ret;

	attr.name = o->name;
	attr.cancelled = is_cancelled;
	ret = slime_mem_alloc(ctx, s->size, &attr, &o->mem);
	if (!ret)
		ret = fill(s, o);
	if (ret)
		return ret;
	return slime_mr_create(ctx, slime_mem_addr(o->mem), s->size, o->access, &o->mr);
}

static int offer(struct service *s, struct offer *o)
{
	int ret = slime_agent_region_offer(s->agent, o->name, o->mr, o->access, NULL, 0);

	o->offered = !ret;
	return ret;
}

/* What fails is said. */
static int for_both(struct service *s, int (*what)(struct service *s, struct offer *o))
{
	for (int i = 0; i < 2; i++) {
		int ret = what(s, &s->offers[i]);

		if (ret && ret != -ECANCELED)
			sl_error("bench", "region %s of %llu bytes: %s", s->offers[i].name,
				 (unsigned long long)s->size, strerror(-ret));
		if (ret)
			return ret;
	}
	return 0;
}

static void service_fini(void *state)
{
	struct service *s = state;

	for (int i = 0; i < 2; i++) {
		if (slime_mr_destroy(s->offers[i].mr) || slime_mem_destroy(s->offers[i].mem))
			sl_error("bench", "region %s is still reached by a peer",
				 s->offers[i].name);
	}
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static int service_init(struct slime_agent *agent, const struct slime_plugin_option *options,
			size_t n, void **state)
{
	struct service *s = calloc(1, sizeof(*s));
	int ret;

	if (!s)
		return -ENOMEM;
	s->agent = agent;
	s->size = DEFAULT_SIZE;
	s->offers[0] = (struct offer){ .name = BENCH_REGION, .access = SLIME_ACCESS_REMOTE_READ };
	s->offers[1] = (struct offer){
		.name = BENCH_REGION_WRITE,
		.access = SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE,
	};
	pthread_mutex_init(&s->lock, NULL);
	ret = 0;
	for (size_t i = 0; i < n && !ret; i++)
		ret = parse_option(&options[i], &s->size) ? -EINVAL : 0;
	if (!ret)
		ret = add_methods(s);
	if (!ret)
		ret = for_both(s, make);
	if (ret)
		service_fini(s);
	else
		*state = s;
	return ret;
}

static int service_start(void *state)
{
	return for_both(state, offer);
}

static void service_stop(void *state)
{
	struct service *s = state;

	pthread_mutex_lock(&s->lock);
	s->stopping = true;
	pthread_mutex_unlock(&s->lock);
	reap_drains(s, true);
	for (int i = 0; i < 2; i++) {
		if (s->offers[i].offered)
			slime_agent_region_withdraw(s->agent, s->offers[i].name);
		s->offers[i].offered = false;
	}
}

const struct slime_plugin slime_plugin = {
	SLIME_PLUGIN_HEAD,	.name = "bench",	  .init = service_init,
	.start = service_start, .stop = service_stop,	  .fini = service_fini,
	.check = service_check, .cancel = service_cancel, .workers = 1,
};
