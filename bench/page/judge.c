/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether any page comes with wrong bytes. Owners are processes of this program, with memory for
 * half of the working set, so that they evict all the time. Writers rewrite and delete pages as
 * fast as they can, and use their memory again at once. Readers compare every byte. In the second
 * part owners are killed and started again.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/process/child.h"
#include "bench/load/memory.h"
#include "bench/load/pattern.h"
#include "bench/page/batch.h"
#include "bench/page/page.h"

#define READY_MS   15000
#define TIMEOUT_MS 2000 /* of a question to an owner */
#define KIND	   "judge"
#define N_WRITERS  2
#define HEAD	   16 /* bytes of a page that say its index and its version */
#define FAULT_MS   700
#define END_MS	   10000
#define MEMORY_MIN (UINT64_C(4) << 20)
#define OWNERS_MAX 16

enum phase { CALM, FAULTS, N_PHASES, IDLE = N_PHASES };

struct judge {
	struct client *c;
	const struct page_settings *settings;
	struct slime_pages *pages;
	struct child owners[OWNERS_MAX];
	int n_owners; /* that run */
	_Atomic bool stop;
	_Atomic int phase;
	_Atomic int failed; /* a negative errno */
	_Atomic uint64_t version, rewritten, deleted, bytes;
	uint64_t n_killed;
	struct page_series *series;
};

struct hand {
	struct judge *j;
	pthread_t thread;
	uint64_t random;
	struct page_batch b;
	struct page_rung rungs[N_PHASES];
};

static bool is_interrupted(const struct judge *j)
{
	return atomic_load(&j->c->interrupt.caught) != 0;
}

/* ---- bytes: of any version of the page that its key names ---- */

static uint64_t seed_of(uint64_t index, uint64_t version)
{
	return index * UINT64_C(0x9e3779b97f4a7c15) ^ version;
}

static void write_page(const struct page_batch *b, uint32_t i, uint64_t version)
{
	uint64_t *head = (uint64_t *)(void *)page_batch_bytes(b, i);

	head[0] = b->indices[i];
	head[1] = version;
	load_pattern_fill(head + 2, b->page_size - HEAD, seed_of(head[0], version), HEAD);
}

static bool is_right(const struct page_batch *b, uint32_t i)
{
	const uint64_t *head = (const uint64_t *)(void *)page_batch_bytes(b, i);
	uint64_t wrong;

	return b->items[i].len == b->page_size && head[0] == b->indices[i] &&
	       load_pattern_check(head + 2, b->page_size - HEAD, seed_of(head[0], head[1]), HEAD,
				  &wrong);
}

/* ---- writers and readers ---- */

static void choose(struct hand *h, unsigned hit_percent)
{
	uint64_t n = (uint64_t)h->j->settings->working_set;
	uint64_t first = page_random(&h->random) % n;

	for (uint32_t i = 0; i < h->b.n; i++) {
		bool misses = page_random(&h->random) % 100 >= hit_percent;

		page_batch_set(&h->b, i, KIND, (first + i) % n + (misses ? n : 0));
	}
}

/* Of eight batches seven rewrite, and one deletes. */
static int write_batch(struct hand *h)
{
	bool deletes = page_random(&h->random) % 8 == 0;
	uint64_t version = atomic_fetch_add(&h->j->version, 1);
	struct page_batch *b = &h->b;
	int ret;

	choose(h, 100);
	for (uint32_t i = 0; i < b->n && !deletes; i++)
		write_page(b, i, version);
	if (deletes)
		ret = slime_pages_delete(b->req, b->items, b->n);
	else
		ret = slime_pages_put(b->req, b->items, b->n, SLIME_PAGES_REPLACE);
	if (!ret)
		ret = page_batch_wait(b, h->j->c);
	for (uint32_t i = 0; i < b->n && !ret; i++)
		if (!b->items[i].status)
			atomic_fetch_add(deletes ? &h->j->deleted : &h->j->rewritten, 1);
	return ret;
}

static void count(struct hand *h, struct page_rung *rung, uint64_t ns)
{
	const struct page_batch *b = &h->b;

	rung->batches++;
	rung->pages += b->n;
	for (uint32_t i = 0; i < b->n; i++) {
		rung->hits += !b->items[i].status;
		rung->bytes += b->items[i].status ? 0 : b->page_size;
	}
	load_histogram_add(&rung->latency, ns);
}

static int read_batch(struct hand *h)
{
	int phase = atomic_load(&h->j->phase);
	struct page_rung *rung = &h->rungs[phase == FAULTS ? FAULTS : CALM];
	struct page_batch *b = &h->b;
	uint64_t begin;
	int ret;

	choose(h, (unsigned)h->j->settings->hit_percent);
	load_pattern_poison(page_batch_bytes(b, 0), b->n * b->page_size);
	begin = sl_clock_ns();
	ret = slime_pages_get(b->req, b->items, b->n);
	if (!ret)
		ret = page_batch_wait(b, h->j->c);
	if (ret)
		return ret;
	if (phase != IDLE) {
		uint64_t before = rung->bytes;

		count(h, rung, sl_clock_ns() - begin);
		atomic_fetch_add_explicit(&h->j->bytes, rung->bytes - before, memory_order_relaxed);
	}
	for (uint32_t i = 0; i < b->n; i++) {
		if (b->items[i].status || is_right(b, i))
			continue;
		rung->wrong++;
		fprintf(stderr, "slime-bench: %s came with other bytes\n", b->keys[i]);
	}
	return 0;
}

static void run_hand(struct hand *h, int (*batch)(struct hand *h))
{
	int ret = 0;

	while (!ret && !atomic_load_explicit(&h->j->stop, memory_order_relaxed))
		ret = batch(h);
	if (ret)
		atomic_store(&h->j->failed, ret);
}

static void *run_writer(void *arg)
{
	run_hand(arg, write_batch);
	return NULL;
}

static void *run_reader(void *arg)
{
	run_hand(arg, read_batch);
	return NULL;
}

/* ---- owners ---- */

static uint64_t memory_of_owner(const struct page_settings *p)
{
	uint64_t half = (uint64_t)p->working_set * p->page_size / 2 / (uint64_t)p->owners;
	uint64_t size = p->memory ? p->memory : half;

	if (size < MEMORY_MIN + p->page_size * 2)
		size = MEMORY_MIN + p->page_size * 2;
	return (size + 4095) / 4096 * 4096;
}

/* As this process is told about nanoctrl. */
static int start_owner(struct judge *j, struct child *out)
{
	const struct settings *s = j->c->settings;
	const char *argv[64] = { "/proc/self/exe", "page", "serve" };
	struct child_attr how = { .argv = (char *const *)(uintptr_t)argv, .err = 2 };
	char size[64], memory[64];
	int n = 3;
	int ret;

	snprintf(size, sizeof(size), "%" PRIu64, s->page.page_size);
	snprintf(memory, sizeof(memory), "%" PRIu64, memory_of_owner(&s->page));
	argv[n++] = "--page-size";
	argv[n++] = size;
	argv[n++] = "--memory";
	argv[n++] = memory;
	argv[n++] = "--tenant";
	argv[n++] = s->page.tenant;
	argv[n++] = "--scope";
	argv[n++] = s->between.scope;
	for (size_t i = 0; i < s->control.n_urls && n < 60; i++) {
		argv[n++] = "--ctrl";
		argv[n++] = s->control.urls[i];
	}
	if (s->control.token_file) {
		argv[n++] = "--token-file";
		argv[n++] = s->control.token_file;
	}
	how.in = how.out = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (how.in < 0)
		return -errno;
	ret = child_start(out, &how);
	close(how.in);
	return ret;
}

static void end_owner(struct child *owner, int sig)
{
	int caught;

	kill(owner->pid, sig);
	(void)child_wait(owner, END_MS, -1, &caught);
}

static int start_owners(struct judge *j)
{
	int ret = 0;

	while (j->n_owners < j->settings->owners && !ret) {
		ret = start_owner(j, &j->owners[j->n_owners]);
		j->n_owners += !ret;
	}
	return ret;
}

static void end_owners(struct judge *j)
{
	while (j->n_owners)
		end_owner(&j->owners[--j->n_owners], SIGTERM);
}

/* One owner is killed, and every fourth ends in order; another one takes its place. */
static int replace_owner(struct judge *j)
{
	int which = (int)(j->n_killed % (uint64_t)j->n_owners);
	struct child *owner = &j->owners[which];

	series_add_fault(j->series);
	end_owner(owner, j->n_killed++ % 4 == 3 ? SIGTERM : SIGKILL);
	*owner = j->owners[--j->n_owners];
	return start_owners(j);
}

/* ---- the run ---- */

static void sleep_ms(struct judge *j, int64_t ms)
{
	uint64_t until = sl_clock_ns() + (uint64_t)ms * SL_NS_PER_MS;

	while (sl_clock_ns() < until && !atomic_load(&j->failed) && !is_interrupted(j)) {
		struct timespec step = { .tv_nsec = 20000000 };

		nanosleep(&step, NULL);
	}
}

static int run_phase(struct judge *j, enum phase phase, int64_t ms, struct page_rung *out)
{
	uint64_t begin = sl_clock_ns(), cpu = load_cpu_ns();
	uint64_t end = begin + (uint64_t)ms * SL_NS_PER_MS, now;
	int ret = 0;

	atomic_store(&j->phase, phase);
	while ((now = sl_clock_ns()) < end && !ret && !atomic_load(&j->failed) &&
	       !is_interrupted(j)) {
		int64_t left = (int64_t)((end - now) / SL_NS_PER_MS) + 1;

		sleep_ms(j, phase == CALM || left < FAULT_MS ? left : FAULT_MS);
		if (phase == FAULTS && sl_clock_ns() < end)
			ret = replace_owner(j);
	}
	atomic_store(&j->phase, IDLE);
	out->elapsed_ns = sl_clock_ns() - begin;
	out->cpu_ns = load_cpu_ns() - cpu;
	return ret;
}

static uint64_t bytes_so_far(void *judge)
{
	return atomic_load_explicit(&((struct judge *)judge)->bytes, memory_order_relaxed);
}

static int run_phases(struct judge *j, struct page_result *out)
{
	int64_t calm = j->settings->duration_ms / 3;
	int ret;

	sleep_ms(j, j->settings->warmup_ms);
	j->series = &out->series;
	ret = series_start(j->series, j->settings->duration_ms, bytes_so_far, j);
	if (ret)
		return ret;
	ret = run_phase(j, CALM, calm, &out->rungs[CALM]);
	if (!ret)
		ret = run_phase(j, FAULTS, j->settings->duration_ms - calm, &out->rungs[FAULTS]);
	series_stop(j->series);
	return ret;
}

static int hand_init(struct hand *h, struct judge *j, uint64_t seed)
{
	const struct page_settings *p = j->settings;

	*h = (struct hand){ .j = j, .random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1 };
	for (int i = 0; i < N_PHASES; i++)
		load_histogram_init(&h->rungs[i].latency);
	return page_batch_init(&h->b, j->c->agent, j->pages, (uint32_t)p->batch_size, p->page_size,
			       1);
}

static int run(struct judge *j, uint32_t n_readers, struct page_result *out)
{
	uint32_t n = n_readers + N_WRITERS, made = 0, begun = 0;
	struct hand *hands = calloc(n, sizeof(*hands));
	int ret = hands ? 0 : -ENOMEM;

	while (made < n && !ret) {
		ret = hand_init(&hands[made], j, made + 1);
		made++;
	}
	while (begun < made && !ret) {
		ret = -pthread_create(&hands[begun].thread, NULL,
				      begun < N_WRITERS ? run_writer : run_reader, &hands[begun]);
		begun += !ret;
	}
	if (!ret)
		ret = run_phases(j, out);
	atomic_store(&j->stop, true);
	for (uint32_t i = 0; i < begun; i++)
		pthread_join(hands[i].thread, NULL);
	for (uint32_t i = 0; i < made; i++) {
		for (int k = 0; k < N_PHASES; k++)
			page_rung_add(&out->rungs[k], &hands[i].rungs[k]);
		page_batch_fini(&hands[i].b);
	}
	free(hands);
	return ret ? ret : atomic_load(&j->failed);
}

static int open_pages(struct judge *j)
{
	const struct page_settings *p = j->settings;
	struct slime_pages_attr attr = SLIME_PAGES_ATTR_INIT;

	attr.tenant = p->tenant;
	attr.verify = (enum slime_pages_verify)p->verify;
	attr.dir_cache_ttl_ms = (uint32_t)p->dir_cache_ttl_ms;
	attr.replicas = (uint32_t)p->replicas;
	attr.refresh_ms = 200;
	attr.timeout_ms = TIMEOUT_MS;
	return slime_pages_create(j->c->agent, &attr, &j->pages);
}

static int complain(const struct judge *j, const char *what, int ret)
{
	if (!is_interrupted(j))
		fprintf(stderr, "slime-bench: %s: %s\n", what, strerror(-ret));
	return EXIT_FAILURE;
}

static int verdict(const struct judge *j, const struct page_result *out)
{
	uint64_t wrong = out->rungs[CALM].wrong + out->rungs[FAULTS].wrong;

	if (!out->rungs[CALM].hits || !out->rungs[FAULTS].hits) {
		if (!is_interrupted(j))
			fprintf(stderr, "slime-bench: no page was read, so nothing is shown\n");
		return EXIT_FAILURE;
	}
	return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}

int page_judge(struct client *c, struct page_result *out)
{
	struct judge j = { .c = c, .settings = &c->settings->page, .phase = IDLE };
	uint32_t n_readers = (uint32_t)j.settings->concurrencies[j.settings->n_concurrencies - 1];
	struct slime_pages_counters counters;
	int status = EXIT_FAILURE;
	int ret = open_pages(&j);

	if (ret)
		return complain(&j, "pages", ret);
	for (int i = 0; i < N_PHASES; i++) {
		out->rungs[i] = (struct page_rung){ .threads = n_readers };
		snprintf(out->rungs[i].note, PAGE_NOTE_MAX, "%s",
			 i == FAULTS ? "with faults" : "without faults");
		load_histogram_init(&out->rungs[i].latency);
	}
	ret = start_owners(&j);
	if (!ret)
		ret = slime_pages_wait_ready(j.pages, (unsigned)j.settings->owners, READY_MS);
	page_note_client(c, out); /* while there are links to all */
	if (ret) {
		complain(&j, "owners of pages", ret);
	} else {
		ret = run(&j, n_readers, out);
		out->n_rungs = N_PHASES;
		status = ret ? complain(&j, "a batch failed", ret) : verdict(&j, out);
	}
	slime_pages_counters(j.pages, &counters);
	end_owners(&j);
	out->n_owners = (uint32_t)j.settings->owners;
	out->judged = true;
	out->killed = j.n_killed;
	out->rewritten = atomic_load(&j.rewritten);
	out->deleted = atomic_load(&j.deleted);
	out->rejected = counters.rejected;
	return slime_pages_destroy(j.pages) ? EXIT_FAILURE : status;
}
