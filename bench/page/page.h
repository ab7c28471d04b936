/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slime-bench page: a store of pages under the load of an inference engine. serve is an owner,
 * drive the readers, judge looks for wrong bytes; they find each other through nanoctrl.
 */
#ifndef BENCH_PAGE_H
#define BENCH_PAGE_H

#include <stdio.h>

#include "bench/agents/client.h"
#include "bench/output/document.h"
#include "bench/load/histogram.h"
#include "bench/host/nic_groups.h"
#include "bench/page/series.h"
#include <slime/pages.h>

#define PAGE_READER_SERVICE "page-reader" /* offered by each process of drive */
#define PAGE_THREADS_MAX    256
#define PAGE_RUNGS_MAX	    16
#define PAGE_ROWS_MAX	    (PAGE_RUNGS_MAX * (NIC_GROUPS_MAX + 1))
#define PAGE_NOTE_MAX	    96

extern const char *const page_op_names[];
extern const char *const page_layout_names[];
extern const char *const page_verify_names[];

enum page_op { PAGE_GET, PAGE_PUT, PAGE_EXISTS, PAGE_MIXED };
enum page_layout { PAGE_MLA, PAGE_MHA };

/* One number of threads. */
struct page_rung {
	char note[PAGE_NOTE_MAX]; /* "": none */
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
	char agent[SLIME_AGENT_NAME_MAX + 1]; /* that drove; "": several processes */
	uint32_t n_processes;
	uint32_t transports; /* of links to owners: a bit for each enum slime_transport */
	uint32_t n_owners;
	struct page_rung rungs[PAGE_ROWS_MAX];
	size_t n_rungs;
	size_t n_groups; /* devices that have rows of their own, before one of all */
	bool has_bare;	 /* perftest is installed: */
	double bare_gb_s[NIC_GROUPS_MAX + 1]; /* ib_read_bw of each device, and of all together */
	double copy_gb_s; /* of memcpy on one CPU; 0: unknown, and so the next */
	double line_gb_s; /* of the devices together */
	uint32_t n_cpus;
	bool judged; /* what follows is filled */
	struct page_series series;
	uint64_t killed, rewritten, deleted;
	uint64_t rejected; /* pages that had changed when they arrived: no wrong ones */
};

/* Adds batches, figures and latencies, not times and threads. */
void page_rung_add(struct page_rung *to, const struct page_rung *from);

struct rank;

/* They say on standard error what is wrong, and return the exit status. */
int page_command(const struct settings *settings, const char *what, const char *flags,
		 enum report_format format);
int page_serve(const struct settings *settings);
int page_drive(struct client *c, const struct rank *rank, struct page_result *out);
int page_judge(struct client *c, struct page_result *out);

/* The agent of one process that measures, and the transports of its links. */
void page_note_client(const struct client *c, struct page_result *out);

int page_report(const struct page_result *r, enum report_format format, FILE *to);

#endif
