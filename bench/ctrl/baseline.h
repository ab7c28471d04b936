/* SPDX-License-Identifier: Apache-2.0 */
/* A control plane beside another one of the same routes: rounds at either in turn. */
#ifndef CTRL_BASELINE_H
#define CTRL_BASELINE_H

#include <stdio.h>

#include "bench/output/document.h"
#include "bench/routes/routes.h"
#include "bench/settings.h"

#define CTRL_BASELINE_ROUNDS 7

/* Medians of the rounds; the ratio is the median of theirs, low and high are their quartiles. */
struct ctrl_baseline_row {
	enum route route;
	double ours_per_s, theirs_per_s;
	double ratio, low, high;
};

struct ctrl_baseline {
	const struct settings *settings;
	const char *flags; /* the command line as given */
	struct ctrl_baseline_row rows[ROUTES_BESIDE];
};

/* What goes wrong is said on standard error. Returns the status to exit with, 128 + the signal that
 * ended it. */
int ctrl_baseline_measure(struct ctrl_baseline *out);

/* As document_print(). */
int ctrl_baseline_report(const struct ctrl_baseline *result, enum report_format format, FILE *to);

#endif
