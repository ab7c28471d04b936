/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slime-bench page: a store of pages under the load of an inference engine. serve is an owner,
 * drive the readers, judge looks for wrong bytes; they find each other through nanoctrl.
 */
#ifndef BENCH_PAGE_H
#define BENCH_PAGE_H

#include <stdio.h>

#include "bench/client.h"
#include "bench/head.h"
#include "bench/load/histogram.h"
#include <slime/pages.h>

#define PAGE_THREADS_MAX 256
#define PAGE_RUNGS_MAX	 16

extern const char *const page_op_names[];
extern const char *const page_layout_names[];
extern const char *const page_verify_names[];

enum page_op { PAGE_GET, PAGE_PUT, PAGE_EXISTS, PAGE_MIXED };
enum page_layout { PAGE_MLA, PAGE_MHA };

/* One number of threads. */
struct page_rung {
	const char *note; /* NULL: none */
	uint32_t threads;
	uint64_t batches;
	uint64_t pages; /* asked for, or put */
	uint64_t hits;
	uint64_t bytes; /* of hits and puts */
	uint64_t wrong; /* pages that were returned with other bytes */
	uint64_t elapsed_ns;
	uint64_t cpu_ns;	       /* of this process */
	struct load_histogram latency; /* of a batch */
};

struct page_result {
	const struct settings *settings;
	const char *flags;
	const char *agent;
	char owners[256];
	uint32_t n_owners;
	struct page_rung rungs[PAGE_RUNGS_MAX];
	size_t n_rungs;
	bool judged; /* what follows is filled */
	uint64_t killed, rewritten, deleted;
	uint64_t rejected; /* pages that had changed when they arrived: no wrong ones */
};

/* They say on standard error what is wrong, and return the exit status. */
int page_serve(struct client *c);
int page_drive(struct client *c, struct page_result *out);
int page_judge(struct client *c, struct page_result *out);

/* Before the agent starts: makes an owner of it. 0, a negative errno. */
int page_prepare_owner(struct slime_agent *agent, const struct settings *settings,
		       struct slime_pages_owner **out);

int page_report(const struct page_result *r, enum report_format format, FILE *to);

#endif
