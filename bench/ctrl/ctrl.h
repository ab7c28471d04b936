/* SPDX-License-Identifier: Apache-2.0 */
/* What a control plane does for many agents, measured by simulated ones. */
#ifndef CTRL_CTRL_H
#define CTRL_CTRL_H

#include <stddef.h>
#include <stdint.h>

#include "bench/output/document.h"
#include "bench/load/histogram.h"
#include "bench/settings.h"

/* In the order in which they are measured. */
enum ctrl_op {
	CTRL_REGISTER,
	CTRL_HEARTBEAT,
	CTRL_LOOKUP,
	CTRL_RENDEZVOUS,
	CTRL_TOPOLOGY,
	CTRL_HOLD,
	CTRL_CRASH,
	CTRL_N_OPS,
};

/* NULL ends them. */
extern const char *const ctrl_op_names[];

#define CTRL_AGENTS_MAX 2000
#define CTRL_MESH_MAX	256
/* A rendezvous is two, and a topology those and one. */
#define CTRL_ROWS_MAX (CTRL_N_OPS + 3)

struct ctrl_row {
	const char *what;
	uint64_t n;
	uint64_t elapsed_ns;
	struct load_histogram latency;
};

struct ctrl_result {
	const struct settings *settings;
	const char *flags; /* the command line as given */
	struct ctrl_row rows[CTRL_ROWS_MAX];
	size_t n_rows;
};

/*
 * Measure what the settings ask for. What goes wrong is said on standard error. Returns the status
 * to exit with, 128 + the signal that ended it; what came before a failure is in out.
 */
int ctrl_measure(const struct settings *settings, struct ctrl_result *out);

/* As document_print(). */
int ctrl_report(const struct ctrl_result *result, enum report_format format, FILE *to);

#endif
