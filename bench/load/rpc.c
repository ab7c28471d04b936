/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "bench/load/lanes.h"
#include "bench/load/memory.h"
#include "bench/load/pattern.h"
#include "bench/load/rpc.h"
#include "bench/load/stamp.h"
#include "bench/load/transfer.h"

#define CALL_TIMEOUT_MS 30000
/* How long a wish to stop may go unseen by who waits for a call. */
#define LOOK_MS 1000
/* Poison and check one byte of each stretch of large replies in between, all of it when nothing is
 * measured any more. */
#define CHECK_STRIDE 4096

struct lane {
	struct slime_call *call;
	uint64_t begin_ns;
	uint64_t number; /* of the call */
};

struct worker {
	const struct load_rpc *load;
	struct slime_context *ctx;
	struct slime_endpoint *ep;
	const struct load_control *control;
	_Atomic bool *failed;
	_Atomic bool *late; /* a call did not end in time: the link was closed for it */
	pthread_t thread;
	uint32_t index;
	int ret;
	struct slime_mem *mem; /* a request and a reply for each lane */
	struct slime_mr *mr;
	struct lane *lanes;
	uint64_t started;
	uint64_t measured;
	uint64_t begin_ns; /* of what is measured; 0: it is the warm-up still */
	uint64_t busy_ns;
	uint64_t end_ns; /* 0: none */
	struct load_histogram latency;
};

static uint64_t slot_size(const struct load_rpc *l)
{
	return (l->size + 63) / 64 * 64;
}

static uint8_t *request_of(const struct worker *w, uint64_t lane)
{
	return (uint8_t *)slime_mr_addr(w->mr) + 2 * lane * slot_size(w->load);
}

static uint8_t *reply_of(const struct worker *w, uint64_t lane)
{
	return request_of(w, lane) + slot_size(w->load);
}

/* ---- what is in a call ---- */

static void poison_some(uint8_t *p, uint64_t size)
{
	for (uint64_t at = 0; at < size; at += CHECK_STRIDE)
		p[at] = (uint8_t)~p[at];
	if (size)
		p[size - 1] = (uint8_t)~p[size - 1];
}

static bool same_some(const uint8_t *a, const uint8_t *b, uint64_t size)
{
	for (uint64_t at = 0; at < size; at += CHECK_STRIDE) {
		if (a[at] != b[at])
			return false;
	}
	return !size || (a[size - 1] == b[size - 1] && !memcmp(a, b, size < 8 ? size : 8));
}

/* ---- a lane ---- */

static int begin(void *arg, uint64_t i)
{
	struct worker *w = arg;
	const struct load_rpc *l = w->load;
	struct lane *lane = &w->lanes[i];
	uint64_t at = (uint64_t)(request_of(w, i) - (uint8_t *)slime_mr_addr(w->mr));
	struct slime_call_args args = {
		.method = l->method,
		.request_mr = w->mr,
		.request_offset = at,
		.request_len = l->size,
		.reply_mr = w->mr,
		.reply_offset = at + slot_size(l),
		.reply_cap = l->size,
		.timeout_ms = CALL_TIMEOUT_MS,
	};

	if (load_stop_asked(w->control))
		return -ECANCELED;
	lane->number = w->started++;
	stamp(request_of(w, i), l->size, lane->number);
	poison_some(reply_of(w, i), l->size);
	lane->begin_ns = sl_clock_ns();
	return slime_call_start(w->ep, &args, lane->call);
}

static int wrong_reply(const struct worker *w, const struct lane *lane, const char *what)
{
	sl_error("load", "call %llu of %llu bytes: %s", (unsigned long long)lane->number,
		 (unsigned long long)w->load->size, what);
	return -EILSEQ;
}

/* The call has the worker's memory until it ends. When its peer stands still, only the end of the
 * link ends it. Returns the status of the call. */
static int await(const struct worker *w, const struct lane *lane)
{
	uint64_t end = lane->begin_ns + (CALL_TIMEOUT_MS + SLIME_CALL_GRACE_MS) * SL_NS_PER_MS;
	int ret;

	while ((ret = slime_call_wait(lane->call, LOOK_MS)) == -ETIMEDOUT) {
		if (sl_clock_ns() >= end)
			atomic_store(w->late, true);
		if (atomic_load(w->late) || load_stop_asked(w->control))
			slime_endpoint_close(w->ep);
	}
	return ret ? ret : slime_call_status(lane->call);
}

static int end(void *arg, uint64_t i)
{
	struct worker *w = arg;
	const struct load_rpc *l = w->load;
	struct lane *lane = &w->lanes[i];
	int ret = await(w, lane);
	uint64_t now = sl_clock_ns();

	if (ret)
		return ret;
	if (lane->number >= (uint64_t)l->warmup) {
		load_histogram_add(&w->latency, now - lane->begin_ns);
		w->measured++;
	}
	if (slime_call_reply_len(lane->call) != l->size)
		return wrong_reply(w, lane, "the reply has another length");
	if (!same_some(request_of(w, i), reply_of(w, i), l->size))
		return wrong_reply(w, lane, "the reply differs from the request");
	return 0;
}

/* The last reply of each lane, the whole of it. */
static int check_last(const struct worker *w)
{
	for (uint32_t i = 0; i < w->load->inflight && i < w->started; i++) {
		if (memcmp(request_of(w, i), reply_of(w, i), w->load->size) != 0)
			return wrong_reply(w, &w->lanes[i], "the reply differs from the request");
	}
	return 0;
}

/* ---- a thread ---- */

static int worker_open(struct worker *w)
{
	const struct load_rpc *l = w->load;
	uint64_t len = 2 * l->inflight * slot_size(l);
	int ret;

	load_histogram_init(&w->latency);
	w->lanes = calloc(l->inflight, sizeof(*w->lanes));
	if (!w->lanes)
		return -ENOMEM;
	ret = slime_mem_alloc(w->ctx, len ? len : 64, NULL, &w->mem);
	if (!ret)
		ret = slime_mr_create(w->ctx, slime_mem_addr(w->mem), len ? len : 64,
				      SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE, &w->mr);
	for (uint32_t i = 0; i < l->inflight && !ret; i++) {
		ret = slime_call_create(w->ctx, NULL, &w->lanes[i].call);
		load_pattern_fill(request_of(w, i), l->size, w->index * UINT64_C(1000003) + i, 0);
	}
	return ret;
}

static void worker_close(struct worker *w)
{
	int ret = 0;

	for (uint32_t i = 0; w->lanes && i < w->load->inflight; i++)
		ret |= slime_call_destroy(w->lanes[i].call);
	/* A peer on this host that stands still reaches a region until it goes on or dies. */
	if (ret || slime_mr_destroy(w->mr) || slime_mem_destroy(w->mem))
		sl_error("load",
			 "memory of calls is still held, and stays until this process ends");
	free(w->lanes);
}

static bool goes_on(void *arg)
{
	struct worker *w = arg;
	const struct load_rpc *l = w->load;

	if (!w->begin_ns && w->started >= l->warmup) {
		w->begin_ns = sl_clock_ns();
		if (l->duration_ms)
			w->end_ns = w->begin_ns + l->duration_ms * SL_NS_PER_MS;
	}
	if (atomic_load_explicit(w->failed, memory_order_relaxed))
		return false;
	if (l->iterations && w->started >= l->warmup + l->iterations)
		return false;
	return !w->end_ns || w->started < l->warmup || sl_clock_ns() < w->end_ns;
}

static int run_lanes(struct worker *w)
{
	const struct lanes lanes = {
		.n = w->load->inflight, .begin = begin, .end = end, .goes_on = goes_on, .arg = w
	};
	int ret = lanes_run(&lanes);

	w->busy_ns = sl_clock_ns() - w->begin_ns;
	return ret ? ret : check_last(w);
}

static void *run_worker(void *arg)
{
	struct worker *w = arg;

	w->ret = worker_open(w);
	if (!w->ret)
		w->ret = run_lanes(w);
	if (w->ret)
		atomic_store(w->failed, true);
	worker_close(w);
	return NULL;
}

uint64_t load_rpc_memory(const struct load_rpc *l)
{
	return 2 * slot_size(l) * l->inflight * l->threads;
}

static int check_load(const struct load_rpc *l)
{
	if (!l->threads || l->threads > LOAD_THREADS_MAX || !l->inflight ||
	    l->inflight > LOAD_INFLIGHT_MAX || l->size > LOAD_CALL_MAX ||
	    l->warmup > LOAD_CALLS_MAX || l->iterations > LOAD_CALLS_MAX ||
	    l->duration_ms > LOAD_DURATION_MAX_MS || (!l->iterations && !l->duration_ms))
		return -EINVAL;
	return load_rpc_memory(l) > load_memory_budget() ? -E2BIG : 0;
}

int load_rpc_run(struct slime_context *ctx, struct slime_endpoint *ep, const struct load_rpc *load,
		 const struct load_control *control, struct load_rpc_result *out)
{
	_Atomic bool failed = false;
	_Atomic bool late = false;
	struct worker *workers;
	uint64_t cpu = load_cpu_ns();
	uint32_t n;
	int ret = check_load(load);

	if (ret)
		return ret;
	workers = calloc(load->threads, sizeof(*workers));
	if (!workers)
		return -ENOMEM;
	memset(out, 0, sizeof(*out));
	load_histogram_init(&out->latency);
	for (n = 0; n < load->threads; n++) {
		workers[n] = (struct worker){
			.load = load,
			.ctx = ctx,
			.ep = ep,
			.control = control,
			.failed = &failed,
			.late = &late,
			.index = n,
		};
		ret = -pthread_create(&workers[n].thread, NULL, run_worker, &workers[n]);
		if (ret) {
			atomic_store(&failed, true);
			break;
		}
	}
	for (uint32_t i = 0; i < n; i++) {
		pthread_join(workers[i].thread, NULL);
		if (!ret)
			ret = workers[i].ret;
		out->calls += workers[i].measured;
		out->all_calls += workers[i].started;
		if (workers[i].busy_ns > out->elapsed_ns)
			out->elapsed_ns = workers[i].busy_ns;
		load_histogram_merge(&out->latency, &workers[i].latency);
	}
	out->cpu_ns = load_cpu_ns() - cpu;
	free(workers);
	/* All saw that the link was closed; a wrong reply is the worse news. */
	return ret && ret != -EILSEQ && late ? -ETIMEDOUT : ret;
}
