/* SPDX-License-Identifier: Apache-2.0 */
/* What slime-reference can be told. */
#ifndef REFERENCE_OPTIONS_H
#define REFERENCE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/rounds/options.h"

struct options {
	struct rounds_options rounds; /* the first: its tables are for both */

	/* tcp-read, tcp-echo */
	int wait; /* enum reference_wait */

	/* tcp-rate */
	int64_t inflight;

	/* mailbox, tcp-links */
	int64_t links;
};

enum reference_wait { WAIT_SPIN, WAIT_SLEEP };

extern const struct cli_program reference_program;

#endif
