/* SPDX-License-Identifier: Apache-2.0 */
/* What slime-reference can be told. */
#ifndef REFERENCE_OPTIONS_H
#define REFERENCE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/option.h"

struct options {
	int64_t round_ms;
	bool step;

	/* memcpy, pull, tcp-read */
	uint64_t block;
	int64_t batch;
	bool cold;
	bool scatter;

	/* mailbox, tcp-echo */
	uint64_t size;
	int wait; /* enum reference_wait */
};

enum reference_wait { WAIT_SPIN, WAIT_SLEEP };

extern const struct cli_program reference_program;

#endif
