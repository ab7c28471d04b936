/* SPDX-License-Identifier: Apache-2.0 */
/* Readers: threads that each have one batch under way, and check what they get. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/load/memory.h"
#include "bench/load/pattern.h"
#include "bench/page/batch.h"
#include "bench/process/ranks.h"
#include "bench/page/page.h"

#define READY_MS    15000
#define PREFILL	    64 /* pages of one put */
#define LOOKUP_MS   1000
#define READERS_MS  60000 /* that readers of other hosts have to come */
#define READERS_MAX 1024
#define EDGE	    64 /* bytes of a page that are looked at, at each end; one page a batch wholly */
#define OBJECTS_MAX 2
/* Of exists, which takes less time for a key than making it does: batches that are made before. */
#define EXISTS_SETS 64

const char *const page_op_names[] = { "get", "put", "exists", "mixed", NULL };
const char *const page_layout_names[] = { "mla", "mha", NULL };
const char *const page_verify_names[] = { "always", "sample", "never", NULL };

struct drive {
	struct client *c;
	const struct page_settings *settings;
	const struct rank *rank;
	struct slime_pages *pages;
	uint32_t objects; /* of a page: k and v */
	_Atomic bool stop;
	_Atomic bool measures;
	_Atomic int failed; /* a negative errno */
};

/* A thread, and its batch. */
struct reader {
	struct drive *d;
	pthread_t thread;
	uint64_t random;
	struct page_batch b;
	struct page_rung rung;
};

/* ---- keys and bytes ---- */

/* index counts objects; those from the working set on are never put. */
static void set_item(struct reader *r, uint32_t i, uint64_t index)
{
	page_batch_set(&r->b, i, page_layout_names[r->d->settings->layout], index);
}

static void write_page(struct reader *r, uint32_t i)
{
	load_pattern_fill(page_batch_bytes(&r->b, i), r->d->settings->page_size, r->b.indices[i],
			  0);
}

static bool is_right(struct reader *r, uint32_t i, bool wholly)
{
	uint64_t len = r->d->settings->page_size, wrong;
	const uint8_t *at = page_batch_bytes(&r->b, i);

	if (wholly || len <= 2 * EDGE)
		return load_pattern_check(at, len, r->b.indices[i], 0, &wrong);
	return load_pattern_check(at, EDGE, r->b.indices[i], 0, &wrong) &&
	       load_pattern_check(at + len - EDGE, EDGE, r->b.indices[i], len - EDGE, &wrong);
}

/* ---- a reader ---- */

static int reader_init(struct reader *r, struct drive *d, uint64_t seed, uint32_t n,
		       uint32_t n_sets)
{
	*r = (struct reader){ .d = d, .random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1 };
	load_histogram_init(&r->rung.latency);
	return page_batch_init(&r->b, d->c->agent, d->pages, n, d->settings->page_size, n_sets);
}

static int wait_for_batch(struct reader *r)
{
	return page_batch_wait(&r->b, r->d->c);
}

static int put_batch(struct reader *r, uint32_t n, uint32_t flags)
{
	int ret;

	for (uint32_t i = 0; i < n; i++)
		write_page(r, i);
	ret = slime_pages_put(r->b.req, r->b.items, n, flags);
	return ret ? ret : wait_for_batch(r);
}

/* A batch begins anywhere in the working set, as a prefix of an engine's does. hit_rate percent of
 * its keys are in the working set; the others were never put. */
static void choose(struct reader *r)
{
	const struct page_settings *p = r->d->settings;
	uint64_t n_objects = (uint64_t)p->working_set * r->d->objects;
	uint64_t first = page_random(&r->random) % n_objects;

	for (uint32_t i = 0; i < r->b.n; i++) {
		bool misses = page_random(&r->random) % 100 >= (uint64_t)p->hit_percent;

		set_item(r, i, (first + i) % n_objects + (misses ? n_objects : 0));
	}
}

static int run_op(struct reader *r, enum page_op op)
{
	int ret;

	if (op == PAGE_PUT)
		ret = slime_pages_put(r->b.req, r->b.items, r->b.n, SLIME_PAGES_REPLACE);
	else if (op == PAGE_EXISTS)
		ret = slime_pages_exists(r->b.req, r->b.items, r->b.n);
	else
		ret = slime_pages_get(r->b.req, r->b.items, r->b.n);
	return ret ? ret : wait_for_batch(r);
}

static void count(struct reader *r, enum page_op op, uint64_t ns)
{
	struct page_rung *rung = &r->rung;

	rung->batches++;
	rung->pages += r->b.n;
	for (uint32_t i = 0; i < r->b.n; i++) {
		if (r->b.items[i].status)
			continue;
		rung->hits++;
		rung->bytes += op == PAGE_EXISTS ? 0 : r->d->settings->page_size;
	}
	load_histogram_add(&rung->latency, ns);
}

static void check(struct reader *r, uint32_t wholly)
{
	bool all = r->d->settings->check_all;

	for (uint32_t i = 0; i < r->b.n; i++) {
		if (r->b.items[i].status || is_right(r, i, all || i == wholly))
			continue;
		r->rung.wrong++;
		fprintf(stderr, "slime-bench: %s came with other bytes\n", r->b.keys[i]);
	}
}

static int run_batch(struct reader *r)
{
	enum page_op op = (enum page_op)r->d->settings->op;
	uint64_t begin, ns;
	int ret;

	if (op == PAGE_MIXED) /* a tenth of the batches are puts */
		op = page_random(&r->random) % 10 ? PAGE_GET : PAGE_PUT;
	if (r->b.n_sets == 1)
		choose(r);
	else
		page_batch_use(&r->b, (uint32_t)(page_random(&r->random) % r->b.n_sets));
	for (uint32_t i = 0; op == PAGE_PUT && i < r->b.n; i++)
		write_page(r, i);
	begin = sl_clock_ns();
	ret = run_op(r, op);
	ns = sl_clock_ns() - begin;
	if (ret)
		return ret;
	if (op == PAGE_GET)
		check(r, (uint32_t)(page_random(&r->random) % r->b.n));
	if (atomic_load_explicit(&r->d->measures, memory_order_relaxed))
		count(r, op, ns);
	return 0;
}

static void *run_reader(void *arg)
{
	struct reader *r = arg;
	int ret = 0;

	while (!ret && !atomic_load_explicit(&r->d->stop, memory_order_relaxed))
		ret = run_batch(r);
	if (ret)
		atomic_store(&r->d->failed, ret);
	return NULL;
}

/* ---- readers of other hosts ---- */

static int count_readers(struct drive *d)
{
	char(*names)[SLIME_AGENT_NAME_MAX + 1] = calloc(READERS_MAX, sizeof(*names));
	int n = names ? slime_agent_providers(d->c->agent, PAGE_READER_SERVICE, names, READERS_MAX,
					      LOOKUP_MS)
		      : -ENOMEM;

	free(names);
	return n;
}

/* Until so many offer the service: each says with its registration that it is one. */
static int wait_for_readers(struct drive *d)
{
	uint64_t until = sl_clock_ns() + READERS_MS * SL_NS_PER_MS;
	int n = 0;

	while (n < d->settings->readers && sl_clock_ns() < until &&
	       !atomic_load(&d->c->interrupt.caught)) {
		const struct timespec pause = { .tv_nsec = 20000000 };

		n = count_readers(d);
		nanosleep(&pause, NULL);
	}
	return n < d->settings->readers ? -ETIMEDOUT : 0;
}

/* ---- rungs ---- */

static int rung_reader_init(struct reader *r, struct drive *d, uint64_t seed)
{
	uint32_t n_sets = d->settings->op == PAGE_EXISTS ? EXISTS_SETS : 1;
	int ret = reader_init(r, d, seed, (uint32_t)d->settings->batch_size * d->objects, n_sets);

	for (uint32_t i = 0; i < n_sets && n_sets > 1 && !ret; i++) {
		page_batch_use(&r->b, i);
		choose(r);
	}
	return ret;
}

static bool is_interrupted(struct drive *d)
{
	return atomic_load(&d->c->interrupt.caught) != 0;
}

static void sleep_ms(struct drive *d, int64_t ms)
{
	uint64_t until = sl_clock_ns() + (uint64_t)ms * SL_NS_PER_MS, now;

	while ((now = sl_clock_ns()) < until && !atomic_load(&d->failed) && !is_interrupted(d)) {
		uint64_t step = until - now < 50 * SL_NS_PER_MS ? until - now : 50 * SL_NS_PER_MS;
		struct timespec ts = { .tv_nsec = (long)step };

		nanosleep(&ts, NULL);
	}
}

void page_rung_add(struct page_rung *to, const struct page_rung *from)
{
	to->batches += from->batches;
	to->pages += from->pages;
	to->hits += from->hits;
	to->bytes += from->bytes;
	to->wrong += from->wrong;
	load_histogram_merge(&to->latency, &from->latency);
}

/* Together with the other processes. */
static int measure(struct drive *d, struct page_rung *out)
{
	uint64_t begin, cpu;
	int ret = rank_barrier(d->rank);

	if (ret)
		return ret;
	sleep_ms(d, d->settings->warmup_ms);
	cpu = load_cpu_ns();
	begin = sl_clock_ns();
	atomic_store(&d->measures, true);
	sleep_ms(d, d->settings->duration_ms);
	atomic_store(&d->measures, false);
	out->elapsed_ns = sl_clock_ns() - begin;
	out->cpu_ns = load_cpu_ns() - cpu;
	return 0;
}

static int run_rung(struct drive *d, uint32_t threads, struct page_rung *out)
{
	struct reader *readers = calloc(threads, sizeof(*readers));
	uint32_t made = 0, begun = 0;
	int ret = readers ? 0 : -ENOMEM;

	*out = (struct page_rung){ .threads = threads };
	load_histogram_init(&out->latency);
	atomic_store(&d->stop, false);
	for (; made < threads && !ret; made++)
		ret = rung_reader_init(&readers[made], d, made + 1);
	while (begun < made && !ret) {
		ret = -pthread_create(&readers[begun].thread, NULL, run_reader, &readers[begun]);
		begun += !ret;
	}
	if (!ret)
		ret = measure(d, out);
	atomic_store(&d->stop, true);
	for (uint32_t i = 0; i < begun; i++)
		pthread_join(readers[i].thread, NULL);
	for (uint32_t i = 0; i < made; i++) {
		page_rung_add(out, &readers[i].rung);
		page_batch_fini(&readers[i].b);
	}
	free(readers);
	return ret ? ret : atomic_load(&d->failed);
}

/* Of the first status that says that a page is not there. */
static int put_status(const struct reader *r, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (r->b.items[i].status && r->b.items[i].status != -EEXIST)
			return r->b.items[i].status;
	return 0;
}

/* The keys of an owner that dies belong to another one then. */
static int put_missing(struct reader *r, uint32_t n)
{
	uint64_t until = sl_clock_ns() + READY_MS * SL_NS_PER_MS;
	int ret;

	do {
		ret = put_batch(r, n, 0);
		if (ret)
			return ret;
		ret = put_status(r, n);
	} while ((ret == -ECONNRESET || ret == -ENOTCONN) && sl_clock_ns() < until &&
		 !atomic_load(&r->d->c->interrupt.caught));
	return ret;
}

/* Put what is not there. */
static int prefill(struct drive *d)
{
	uint64_t n_objects = (uint64_t)d->settings->working_set * d->objects;
	struct reader r;
	int ret = reader_init(&r, d, 1, PREFILL, 1);

	for (uint64_t at = 0; at < n_objects && !ret && !is_interrupted(d); at += PREFILL) {
		uint32_t n = n_objects - at < PREFILL ? (uint32_t)(n_objects - at) : PREFILL;

		for (uint32_t i = 0; i < n; i++)
			set_item(&r, i, at + i);
		ret = put_missing(&r, n);
	}
	page_batch_fini(&r.b);
	return ret;
}

static int complain(const struct drive *d, const char *what, int ret)
{
	if (!atomic_load(&d->c->interrupt.caught))
		fprintf(stderr, "slime-bench: %s: %s\n", what, strerror(-ret));
	return EXIT_FAILURE;
}

static int open_pages(struct drive *d)
{
	const struct page_settings *p = d->settings;
	struct slime_pages_attr attr = SLIME_PAGES_ATTR_INIT;

	attr.tenant = p->tenant;
	attr.verify = (enum slime_pages_verify)p->verify;
	attr.dir_cache_ttl_ms = (uint32_t)p->dir_cache_ttl_ms;
	attr.dir_cache_entries = (uint32_t)p->working_set * d->objects * 2;
	attr.replicas = (uint32_t)p->replicas;
	attr.refresh_ms = 200;
	return slime_pages_create(d->c->agent, &attr, &d->pages);
}

static int run_rungs(struct drive *d, struct page_result *out)
{
	const struct page_settings *p = d->settings;
	uint64_t wrong = 0;
	int ret = 0;

	for (size_t i = 0; i < p->n_concurrencies && !ret && !is_interrupted(d); i++) {
		cli_progress_say(&d->c->progress, "page %s, %" PRIu64 " threads ...",
				 page_op_names[p->op], p->concurrencies[i]);
		ret = run_rung(d, (uint32_t)p->concurrencies[i], &out->rungs[out->n_rungs]);
		cli_progress_clear(&d->c->progress);
		if (!ret)
			wrong += out->rungs[out->n_rungs++].wrong;
	}
	if (ret)
		return complain(d, "a batch failed", ret);
	return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}

int page_drive(struct client *c, const struct rank *rank, struct page_result *out)
{
	struct drive d = { .c = c, .settings = &c->settings->page, .rank = rank };
	struct slime_pages_counters counters;
	int status = EXIT_FAILURE;
	int ret;

	d.objects = d.settings->layout == PAGE_MHA ? OBJECTS_MAX : 1;
	ret = open_pages(&d);
	if (ret)
		return complain(&d, "pages", ret);
	ret = slime_pages_wait_ready(d.pages, (unsigned)d.settings->owners, READY_MS);
	if (ret)
		complain(&d,
			 ret == -EACCES ? "the tenant is not open to this agent"
					: "agents that offer pages",
			 ret);
	if (!ret) {
		cli_progress_say(&c->progress, "putting the working set ...");
		ret = prefill(&d);
		cli_progress_clear(&c->progress);
		if (ret)
			complain(&d, "cannot put the working set", ret);
	}
	if (!ret && d.settings->readers) {
		cli_progress_say(&c->progress, "waiting for readers ...");
		ret = wait_for_readers(&d);
		cli_progress_clear(&c->progress);
		if (ret)
			complain(&d, "readers of other hosts", ret);
	}
	if (!ret)
		status = run_rungs(&d, out);
	slime_pages_counters(d.pages, &counters);
	out->n_owners = counters.owners;
	page_note_client(c, out);
	ret = slime_pages_destroy(d.pages);
	return ret ? EXIT_FAILURE : status;
}
