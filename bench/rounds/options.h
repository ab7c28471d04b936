/* SPDX-License-Identifier: Apache-2.0 */
/* What every program that measures in rounds can be told; the first member of its options. */
#ifndef ROUNDS_OPTIONS_H
#define ROUNDS_OPTIONS_H

#include "bench/rounds/rounds.h"
#include "cli/options/option.h"

struct rounds_options {
	int64_t round_ms;
	bool step;

	/* of blocks */
	uint64_t block;
	int64_t batch;
	bool cold;
	bool scatter;

	/* of messages */
	uint64_t size;
};

extern const struct cli_setting rounds_settings[];
extern const struct cli_setting rounds_block_settings[];
extern const struct cli_setting rounds_message_settings[];

/* What rounds_run() needs of them. */
struct rounds_attr rounds_attr_of(const struct rounds_options *o);

/* What the tables cannot say: 0, or an exit status after one line on standard error. */
int rounds_options_check(const struct cli_program *program, const struct rounds_options *o);

#endif
