/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "bench/load/memory.h"
#include "bench/load/pattern.h"
#include "bench/load/transfer.h"

const char *const load_op_names[LOAD_OPS] = {
	[LOAD_READ] = "read",
	[LOAD_WRITE] = "write",
	[LOAD_WRITE_IMM] = "write_imm",
};

/* Longest a trip may take before the run is given up, and how long a wish to stop may go unseen by
 * who waits for it. */
#define TRIP_TIMEOUT_MS 30000
#define LOOK_MS		1000
/* A full window of immediates empties as fast as the peer takes them: wait for that with a tiny
 * read. */
#define WINDOW_TRIES_NS (10 * SL_NS_PER_S)
/* Between trips: how long a wish to stop may go unseen. */
#define MAX_SLEEP_NS (100 * SL_NS_PER_MS)

struct shared {
	const struct load_transfer *load;
	struct slime_context *ctx;
	struct slime_endpoint *ep;
	const struct slime_remote_mr *remote;
	const struct load_control *control;
	uint64_t start_ns; /* of the phase under way */
	uint64_t end_ns;
	_Atomic bool failed; /* one thread's failure stops them all */
	_Atomic bool late;   /* so was a trip: the link was closed for it */
};

/* One thread's, with its own share of the region, so that writers do not meet. */
struct worker {
	struct shared *shared;
	pthread_t thread;
	uint32_t index;
	int (*phase)(struct worker *w);
	int ret;
	struct slime_mem *mem;
	struct slime_mr *mr;
	struct slime_op *op;
	struct slime_xfer *xfers;
	uint64_t share_start; /* in the region */
	uint64_t n_places;    /* batches that fit the share */
	uint64_t trips;	      /* measured ones */
	uint64_t all_trips;
	uint64_t late;
	uint64_t last_end_ns;
	struct load_histogram latency;
};

uint64_t load_cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * SL_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static uint64_t batch_bytes(const struct load_transfer *l)
{
	return l->block_size * l->batch_size;
}

uint64_t load_transfer_memory(const struct load_transfer *l)
{
	return batch_bytes(l) * l->threads;
}

static int check_load(const struct load_transfer *l, const struct slime_remote_mr *remote)
{
	if ((unsigned)l->op >= LOAD_OPS || !l->block_size || l->block_size % 8 || !l->batch_size ||
	    l->batch_size > LOAD_BATCH_MAX || !l->threads || l->threads > LOAD_THREADS_MAX ||
	    !l->duration_ms || l->duration_ms > LOAD_DURATION_MAX_MS ||
	    l->warmup_ms > LOAD_DURATION_MAX_MS)
		return -EINVAL;
	if (l->block_size > remote->len / l->batch_size / l->threads)
		return -EINVAL;
	return load_transfer_memory(l) > load_memory_budget() ? -E2BIG : 0;
}

/* ---- one thread ---- */

static int worker_open(struct worker *w)
{
	const struct load_transfer *l = w->shared->load;
	uint64_t bytes = batch_bytes(l);
	uint64_t share = w->shared->remote->len / l->threads / 8 * 8;
	int ret;

	w->share_start = w->index * share;
	w->n_places = share / bytes;
	w->xfers = calloc(l->batch_size, sizeof(*w->xfers));
	if (!w->xfers)
		return -ENOMEM;
	ret = slime_mem_alloc(w->shared->ctx, bytes, NULL, &w->mem);
	if (!ret)
		ret = slime_mr_create(w->shared->ctx, slime_mem_addr(w->mem), bytes, 0, &w->mr);
	if (!ret)
		ret = slime_op_create(w->shared->ctx, NULL, &w->op);
	return ret;
}

static void worker_close(struct worker *w)
{
	if (slime_op_destroy(w->op) || slime_mr_destroy(w->mr) || slime_mem_destroy(w->mem))
		sl_error("load", "memory of a transfer is still held");
	free(w->xfers);
}

static uint64_t place_of(const struct worker *w, uint64_t trip)
{
	return w->share_start + trip % w->n_places * batch_bytes(w->shared->load);
}

static int submit(struct worker *w, enum load_op op, uint32_t imm)
{
	const struct load_transfer *l = w->shared->load;
	struct slime_endpoint *ep = w->shared->ep;

	switch (op) {
	case LOAD_READ:
		return slime_read(ep, w->xfers, l->batch_size, 0, w->op);
	case LOAD_WRITE:
		return slime_write(ep, w->xfers, l->batch_size, 0, w->op);
	default:
		return slime_write_imm(ep, w->xfers, l->batch_size, 0, imm, w->op);
	}
}

/* What a trip failed with, though it may be another worker who closed the link. */
static int as_the_run(const struct worker *w, int ret)
{
	if (ret && atomic_load(&w->shared->late))
		return -ETIMEDOUT;
	return ret && load_stop_asked(w->shared->control) ? -ECANCELED : ret;
}

/* What is under way has the worker's memory until the end of its link. */
static int await(struct worker *w)
{
	int ret = slime_op_wait(w->op, LOOK_MS);

	for (int ms = LOOK_MS; ret && !load_stop_asked(w->shared->control); ms += LOOK_MS) {
		if (ms >= TRIP_TIMEOUT_MS) {
			atomic_store(&w->shared->late, true);
			break;
		}
		ret = slime_op_wait(w->op, LOOK_MS);
	}
	if (ret) {
		slime_endpoint_close(w->shared->ep);
		ret = slime_op_wait(w->op, -1);
	}
	return ret ? ret : slime_op_status(w->op);
}

static int trip(struct worker *w, enum load_op op, uint64_t number)
{
	const struct load_transfer *l = w->shared->load;
	uint64_t place = place_of(w, number);
	uint64_t give_up = 0;
	int ret;

	for (uint32_t i = 0; i < l->batch_size; i++) {
		w->xfers[i] = (struct slime_xfer){
			.local = w->mr,
			.remote = w->shared->remote,
			.local_offset = i * l->block_size,
			.remote_offset = place + i * l->block_size,
			.len = l->block_size,
		};
	}
	while ((ret = submit(w, op, (uint32_t)number)) == -EAGAIN) {
		/* The peer has a window of immediates to take: let it. */
		uint64_t now = sl_clock_ns();

		if (!give_up)
			give_up = now + WINDOW_TRIES_NS;
		if (now > give_up)
			return -ETIMEDOUT;
		slime_context_poll(w->shared->ctx);
	}
	return as_the_run(w, ret ? ret : await(w));
}

/* One thread's failure stops them all. */
static bool goes_on(struct worker *w)
{
	return !atomic_load_explicit(&w->shared->failed, memory_order_relaxed);
}

/* Open loop: when trip number n of this thread is meant to begin. Returns that time, which has
 * come, unless it is behind the end or the run is not to go on. */
static uint64_t wait_for_turn(struct worker *w, uint64_t n)
{
	const struct load_transfer *l = w->shared->load;
	uint64_t interval = SL_NS_PER_S * l->threads / l->qps;
	uint64_t due = w->shared->start_ns + n * interval + w->index * interval / l->threads;
	uint64_t now = sl_clock_ns();

	if (now > due + interval)
		w->late++;
	while (now < due && due < w->shared->end_ns && goes_on(w) &&
	       !load_stop_asked(w->shared->control)) {
		uint64_t until = due - now > MAX_SLEEP_NS ? now + MAX_SLEEP_NS : due;
		struct timespec ts = { .tv_sec = (time_t)(until / SL_NS_PER_S),
				       .tv_nsec = (long)(until % SL_NS_PER_S) };

		if (due - now > 100 * SL_NS_PER_US)
			clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
		now = sl_clock_ns();
	}
	return due;
}

static int trip_unless_stopped(struct worker *w, uint64_t number)
{
	return load_stop_asked(w->shared->control) ? -ECANCELED
						   : trip(w, w->shared->load->op, number);
}

/* Not measured: mappings, caches, queues. */
static int warm_up(struct worker *w)
{
	int ret = 0;

	while (!ret && goes_on(w) && sl_clock_ns() < w->shared->end_ns)
		ret = trip_unless_stopped(w, w->all_trips++);
	return ret;
}

/* The first trip is made even if this thread only came to it after the end. */
static int measure(struct worker *w)
{
	const struct load_transfer *l = w->shared->load;
	uint64_t begin;
	int ret = 0;

	while (!ret && goes_on(w)) {
		begin = sl_clock_ns();
		if (l->qps)
			begin = wait_for_turn(w, w->trips);
		/* Trips that a slower link still owes at the end are not made up for. */
		if ((l->qps && begin >= w->shared->end_ns) ||
		    (w->trips && sl_clock_ns() >= w->shared->end_ns))
			break;
		ret = trip_unless_stopped(w, w->all_trips);
		if (ret)
			break;
		w->last_end_ns = sl_clock_ns();
		load_histogram_add(&w->latency, w->last_end_ns - begin);
		w->all_trips++;
		w->trips++;
	}
	return ret;
}

/* What a write writes: the pattern of where it goes, which is another for each place. */
static void fill(struct worker *w, uint64_t number)
{
	load_pattern_fill(slime_mr_addr(w->mr), batch_bytes(w->shared->load), w->shared->load->seed,
			  place_of(w, number));
}

/*
 * The batches of the first places again, byte by byte: a read into poisoned memory; a write, and a
 * read of what it left.
 */
static int verify(struct worker *w)
{
	const struct load_transfer *l = w->shared->load;
	uint64_t n = w->n_places < 4 ? w->n_places : 4;
	uint64_t wrong;
	int ret = 0;

	for (uint64_t i = 0; i < n && !ret; i++) {
		if (l->op != LOAD_READ) {
			fill(w, i);
			ret = trip(w, l->op, i);
			w->all_trips++;
		}
		load_pattern_poison(slime_mr_addr(w->mr), batch_bytes(l));
		if (!ret)
			ret = trip(w, LOAD_READ, i);
		w->all_trips++;
		if (!ret && !load_pattern_check(slime_mr_addr(w->mr), batch_bytes(l), l->seed,
						place_of(w, i), &wrong)) {
			sl_error("load", "%s: byte %llu of the region is wrong",
				 load_op_names[l->op],
				 (unsigned long long)(place_of(w, i) + wrong));
			ret = -EILSEQ;
		}
	}
	return ret;
}

static int prepare(struct worker *w)
{
	int ret = worker_open(w);

	if (!ret)
		fill(w, 0);
	return ret;
}

/* ---- all of them ---- */

static void *run_phase(void *arg)
{
	struct worker *w = arg;

	w->ret = w->phase(w);
	if (w->ret)
		atomic_store(&w->shared->failed, true);
	return NULL;
}

/* The first error is that of the phase. */
static int run_all(struct shared *s, struct worker *workers, int (*phase)(struct worker *w),
		   uint32_t ms)
{
	int ret = 0;
	uint32_t n;

	s->start_ns = sl_clock_ns();
	s->end_ns = s->start_ns + ms * SL_NS_PER_MS;
	for (n = 0; n < s->load->threads; n++) {
		workers[n].phase = phase;
		ret = -pthread_create(&workers[n].thread, NULL, run_phase, &workers[n]);
		if (ret) {
			atomic_store(&s->failed, true);
			break;
		}
	}
	for (uint32_t i = 0; i < n; i++) {
		pthread_join(workers[i].thread, NULL);
		if (!ret)
			ret = workers[i].ret;
	}
	return ret;
}

static void add_result(struct load_transfer_result *out, const struct worker *w, uint64_t start_ns)
{
	uint64_t elapsed = w->trips ? w->last_end_ns - start_ns : 0;

	out->trips += w->trips;
	out->late += w->late;
	if (elapsed > out->elapsed_ns)
		out->elapsed_ns = elapsed;
	load_histogram_merge(&out->latency, &w->latency);
}

/* Each phase begins when all threads have done with the one before it, so that the time and the
 * CPU time of the measured one are its own. */
static int run_phases(struct shared *s, struct worker *workers, struct load_transfer_result *out)
{
	const struct load_transfer *l = s->load;
	int ret = run_all(s, workers, prepare, 0);
	uint64_t cpu;

	if (!ret && l->warmup_ms)
		ret = run_all(s, workers, warm_up, l->warmup_ms);
	if (ret)
		return ret;
	ret = load_begin(s->control);
	if (ret)
		return ret;
	cpu = load_cpu_ns();
	ret = run_all(s, workers, measure, l->duration_ms);
	out->cpu_ns = load_cpu_ns() - cpu;
	for (uint32_t i = 0; i < l->threads; i++)
		add_result(out, &workers[i], s->start_ns);
	return !ret && l->verify ? run_all(s, workers, verify, 0) : ret;
}

int load_transfer_run(struct slime_context *ctx, struct slime_endpoint *ep,
		      const struct slime_remote_mr *remote, const struct load_transfer *load,
		      const struct load_control *control, struct load_transfer_result *out)
{
	struct shared shared = {
		.load = load, .ctx = ctx, .ep = ep, .remote = remote, .control = control
	};
	struct worker *workers;
	int ret = check_load(load, remote);

	if (ret)
		return ret;
	workers = calloc(load->threads, sizeof(*workers));
	if (!workers)
		return -ENOMEM;
	memset(out, 0, sizeof(*out));
	load_histogram_init(&out->latency);
	for (uint32_t i = 0; i < load->threads; i++) {
		workers[i].shared = &shared;
		workers[i].index = i;
		load_histogram_init(&workers[i].latency);
	}
	ret = run_phases(&shared, workers, out);
	for (uint32_t i = 0; i < load->threads; i++) {
		out->all_trips += workers[i].all_trips;
		worker_close(&workers[i]);
	}
	out->bytes = out->trips * batch_bytes(load);
	free(workers);
	return ret;
}
