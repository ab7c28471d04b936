/* SPDX-License-Identifier: Apache-2.0 */
/* A control plane beside another one of the same routes: rounds at either in turn. */
#ifndef CTRL_BESIDE_H
#define CTRL_BESIDE_H

#include <stdio.h>

#include "bench/head.h"
#include "bench/routes/routes.h"
#include "bench/settings.h"

#define BESIDE_ROUNDS 7

/* Medians of the rounds; the ratio is the median of theirs, low and high are their quartiles. */
struct beside_row {
	enum route route;
	double ours_per_s, theirs_per_s;
	double ratio, low, high;
};

struct beside_result {
	const struct settings *settings;
	const char *flags; /* the command line as given */
	struct beside_row rows[ROUTES_BESIDE];
};

/* What goes wrong is said on standard error. Returns the status to exit with, 128 + the signal that
 * ended it. */
int beside_measure(struct beside_result *out);

/* As head_print(). */
int beside_report(const struct beside_result *result, enum report_format format, FILE *to);

#endif
