/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/rounds/rounds.h"
#include "bench/rounds/ticks.h"

static int compare_ns(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a;
	uint32_t y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static size_t n_kept(const struct samples *s)
{
	return s->n < SAMPLES_MAX ? s->n : SAMPLES_MAX;
}

/* Of sorted samples: the least that this share is not above, as load_histogram_permille() counts;
 * in microseconds. */
static double permille_us(const struct samples *s, unsigned permille)
{
	size_t n = n_kept(s);

	return n ? s->ns[(n * permille + 999) / 1000 - 1] / 1e3 : 0;
}

static void sort(struct samples *s)
{
	qsort(s->ns, n_kept(s), sizeof(*s->ns), compare_ns);
}

static void print_round(const struct rounds_attr *attr, struct rounds *r, uint64_t elapsed_ns,
			uint64_t cpu_ns)
{
	double seconds = (double)elapsed_ns / 1e9;

	sort(&r->whole);
	printf("{\"source\": \"%s\", \"ops\": %" PRIu64 ", \"avg_us\": %.3f, \"per_s\": %.1f",
	       attr->cold ? "cold" : "warm", r->n_ops, seconds * 1e6 / (double)r->n_ops,
	       (double)r->n_ops / seconds);
	if (r->whole.n)
		printf(", \"p50_us\": %.3f, \"p99_us\": %.3f", permille_us(&r->whole, 500),
		       permille_us(&r->whole, 990));
	if (r->bytes)
		printf(", \"gb_s\": %.4f, \"cpu_s_gib\": %.4f", (double)r->bytes / seconds / 1e9,
		       (double)cpu_ns / 1e9 / ((double)r->bytes / (double)(1 << 30)));
	if (r->bytes && r->whole.n)
		printf(", \"p50_gb_s\": %.4f",
		       (double)r->bytes / (double)r->n_ops / permille_us(&r->whole, 500) / 1e3);
	if (r->posted.n) {
		sort(&r->posted);
		printf(", \"post_us\": %.3f", permille_us(&r->posted, 500));
	}
	if (r->resident)
		printf(", \"kib_each\": %.1f, \"cpu_percent\": %.3f", (double)r->resident / 1024,
		       (double)cpu_ns * 100 / (double)elapsed_ns);
	printf("}\n");
	fflush(stdout);
}

static void print_row(struct rounds *r, uint64_t elapsed_ns)
{
	double average_ns = (double)elapsed_ns / (double)r->n_ops;

	sort(&r->whole);
	printf("%" PRIu64 ",%.2f,%.2f,%.2f,%.4g\n", r->bytes / r->n_ops / 2, average_ns / 1e3,
	       permille_us(&r->whole, 500), permille_us(&r->whole, 990),
	       (double)r->bytes / 2 / (double)elapsed_ns);
	fflush(stdout);
}

static int one_round(const struct rounds_attr *attr, const struct rounds_side *side,
		     struct rounds *r, bool print)
{
	uint64_t cpu = pair_cpu_ns(side->pair);
	uint64_t begin = sl_clock_ns();
	uint64_t elapsed;
	int ret;

	r->end_ns = ticks_ns() + attr->round_ns;
	r->max_ops = print ? attr->n_ops : attr->n_warm;
	r->n_ops = r->bytes = r->whole.n = r->posted.n = 0;
	ret = side->round(side->arg, r);
	elapsed = sl_clock_ns() - begin;
	cpu = pair_cpu_ns(side->pair) - cpu;
	if (!ret)
		ret = ticks_check();
	if (!ret && side->check)
		ret = side->check(side->arg);
	if (!ret && print && attr->n_ops)
		print_row(r, elapsed);
	else if (!ret && print)
		print_round(attr, r, elapsed, cpu);
	return ret;
}

/* The next line of whoever steps us; false at the end. */
static bool stepped(void)
{
	int c;

	do
		c = getchar();
	while (c != '\n' && c != EOF);
	return c == '\n';
}

static int all_rounds(const struct rounds_attr *attr, const struct rounds_side *side,
		      struct rounds *r)
{
	int ret = attr->n_ops && !attr->n_warm ? 0 : one_round(attr, side, r, false);

	if (!attr->step)
		return ret ? ret : one_round(attr, side, r, true);
	while (!ret && stepped())
		ret = one_round(attr, side, r, true);
	return ret;
}

int rounds_run(const struct rounds_attr *attr, const struct rounds_side *side)
{
	struct rounds r = { 0 };
	int ret = -ENOMEM;

	ticks_start();
	r.whole.ns = calloc(SAMPLES_MAX, sizeof(*r.whole.ns));
	r.posted.ns = calloc(SAMPLES_MAX, sizeof(*r.posted.ns));
	if (r.whole.ns && r.posted.ns)
		ret = all_rounds(attr, side, &r);
	free(r.posted.ns);
	free(r.whole.ns);
	return ret;
}
