/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slime-bench transfer: blocks of several sizes between an agent of each process and its peer. Each
 * peer is measured by processes of its own; all measure a size at the same time.
 */
#ifndef BENCH_TRANSFER_H
#define BENCH_TRANSFER_H

#include "bench/output/document.h"
#include "bench/service/job.h"
#include "bench/settings.h"

#define TRANSFER_PEERS_MAX 64
#define TRANSFER_SIZES_MAX 64

/* One block size, over one link or several. */
struct transfer_row {
	char peer[SLIME_AGENT_NAME_MAX + 1]; /* "": all of them together */
	uint64_t block_size;
	struct bench_result result;
	struct load_histogram latency;
};

struct transfer_result {
	const struct settings *settings;
	const char *flags;		     /* the command line as given */
	char from[SLIME_AGENT_NAME_MAX + 1]; /* the agent that initiated; "": several processes */
	size_t n_processes;
	struct transfer_row *rows;
	size_t n_rows;
	double copy_gb_s; /* of memcpy on all CPUs; 0: unknown, and so the next */
	double line_gb_s; /* of the devices together */
};

/* what NULL: measure; "target": be an agent to measure with. It says on standard error what is
 * wrong, and returns the exit status. */
int transfer_command(const struct settings *settings, const char *what, const char *flags,
		     enum report_format format);

int transfer_target(const struct settings *settings);

/* As document_print(). */
int transfer_report(const struct transfer_result *r, enum report_format format, FILE *to);

#endif
