/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that are lost. Each has a log line, but in a context of many endpoints those that are
 * lost together, when their peer ends for example, have one line with their number.
 */
#ifndef SL_LOSSES_H
#define SL_LOSSES_H

#include "src/core/poller.h"

struct slime_context;

struct sl_losses {
	struct sl_timer timer;
	unsigned n; /* that have no line yet */
	uint64_t latest_ns;
	char name[64]; /* of the first */
	char why[256];
};

void sl_losses_init(struct sl_losses *l);
/* What has no line yet is logged. The context ends. */
void sl_losses_fini(struct slime_context *ctx);

/* The endpoint of that name lost its connection. [token] */
void sl_losses_note(struct slime_context *ctx, const char *name, const char *why);

#endif
