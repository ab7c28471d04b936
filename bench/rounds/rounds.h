/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that is one side of a comparison measures in rounds, and prints each as one line of
 * JSON. Stepped by its standard input, it takes turns with the other side without losing what it
 * set up; between its rounds it uses no CPU.
 */
#ifndef ROUNDS_ROUNDS_H
#define ROUNDS_ROUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/rounds/pair.h"

/* Durations of single operations; with more of them than this the last ones count. */
#define SAMPLES_MAX (UINT64_C(1) << 20)

struct samples {
	uint32_t *ns; /* longer than 4 s counts as that */
	uint64_t n;   /* taken; kept are at most SAMPLES_MAX */
};

struct rounds {
	uint64_t end_ns;  /* of the round at hand */
	uint64_t max_ops; /* or when it has so many operations; 0: then the time counts */
	uint64_t n_ops;
	uint64_t bytes;
	uint64_t resident;     /* bytes of memory for each link; 0: not told */
	struct samples whole;  /* each operation; empty when they were only counted */
	struct samples posted; /* until its submission returned; empty when not told apart */
};

/* One side: what it does, and its state. Both return 0 or a negative errno. */
struct rounds_side {
	int (*round)(void *arg, struct rounds *r); /* operate, until rounds_over() */
	int (*check)(void *arg); /* outside of the time: were the bytes right? NULL: nothing to
				    check */
	void *arg;
	const struct pair *pair; /* whose CPU time counts */
};

struct rounds_attr {
	uint64_t round_ns;
	bool step; /* a round for each line on standard input, until its end; else one */
	bool cold; /* what the source of the bytes is, for the line */
	/* Rounds by operations instead, and a row of CSV each: bytes one way, average, median, 99th
	 * percentile in microseconds, GB/s of one direction. Of echoes only. */
	uint64_t n_ops;
	uint64_t n_warm;
};

/* A round to warm up, which is not printed, then as attr says. 0, -ENOMEM, or what side returned.
 */
int rounds_run(const struct rounds_attr *attr, const struct rounds_side *side);

static inline bool rounds_over(const struct rounds *r, uint64_t now_ns)
{
	return r->max_ops ? r->n_ops >= r->max_ops : now_ns >= r->end_ns;
}

static inline void samples_add(struct samples *s, uint64_t ns)
{
	s->ns[s->n++ % SAMPLES_MAX] = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

/* An operation that is not timed. */
static inline void rounds_count(struct rounds *r, uint64_t bytes)
{
	r->n_ops++;
	r->bytes += bytes;
}

/* An operation took so long and moved so much. */
static inline void rounds_add(struct rounds *r, uint64_t ns, uint64_t bytes)
{
	samples_add(&r->whole, ns);
	rounds_count(r, bytes);
}

#endif
