/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "bench/rounds/options.h"

const struct cli_setting rounds_settings[] = {
	CLI_DURATION_MS(struct rounds_options, round_ms, "round", .def = "200ms", .min = 1,
			.max = 60000, .help = "how long a round is"),
	CLI_FLAG(struct rounds_options, step, "step",
		 .help = "a round for each line on standard input, until its end"),
	CLI_END,
};

const struct cli_setting rounds_block_settings[] = {
	CLI_SIZE(struct rounds_options, block, "block", .def = "128KiB", .min = 8,
		 .max = INT64_C(1) << 28, .help = "bytes of a block, a multiple of 8"),
	CLI_INT(struct rounds_options, batch, "batch", .def = "32", .min = 1, .max = 65536,
		.help = "blocks of a batch"),
	CLI_FLAG(struct rounds_options, cold, "cold",
		 .help = "walk over 512 MiB; else the same blocks again and again"),
	CLI_FLAG(struct rounds_options, scatter, "scatter",
		 .help = "take the pool's blocks in a shuffled order"),
	CLI_END,
};

const struct cli_setting rounds_message_settings[] = {
	CLI_SIZE(struct rounds_options, size, "size", .def = "64", .min = 0,
		 .max = INT64_C(1) << 28, .help = "bytes each way"),
	CLI_END,
};

struct rounds_attr rounds_attr_of(const struct rounds_options *o)
{
	return (struct rounds_attr){
		.round_ns = (uint64_t)o->round_ms * SL_NS_PER_MS,
		.step = o->step,
		.cold = o->cold,
	};
}

int rounds_options_check(const struct cli_program *program, const struct rounds_options *o)
{
	return o->block % 8 ? cli_usage_error(program, "--block: expected a multiple of 8") : 0;
}
