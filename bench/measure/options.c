/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/measure/options.h"

static const char *const transports[] = { "any", "shm", "tcp", "rdma", NULL };
static const char *const pollings[] = { "adaptive", "busy", "event", NULL };
static const char *const memories[] = { "own", "registered", "in-place", NULL };

static const struct cli_setting common[] = {
	CLI_DURATION_MS(struct options, round_ms, "round", .def = "200ms", .min = 1, .max = 60000,
			.help = "how long a round is"),
	CLI_FLAG(struct options, step, "step",
		 .help = "a round for each line on standard input, until its end"),
	CLI_ENUM(struct options, transport, "transport", transports, .def = "shm",
		 .help = "what the link may use"),
	CLI_ENUM(struct options, polling, "polling", pollings, .def = "adaptive",
		 .help = "how both ends wait"),
	CLI_END,
};

static const struct cli_setting blocks[] = {
	CLI_SIZE(struct options, block, "block", .def = "128KiB", .min = 8, .max = INT64_C(1) << 28,
		 .help = "bytes of a block, a multiple of 8"),
	CLI_INT(struct options, batch, "batch", .def = "32", .min = 1, .max = 65536,
		.help = "blocks of a batch"),
	CLI_FLAG(struct options, cold, "cold",
		 .help = "walk over 512 MiB; else the same blocks again and again"),
	CLI_FLAG(struct options, scatter, "scatter",
		 .help = "take the pool's blocks in a shuffled order"),
	CLI_FLAG(struct options, foreign, "foreign",
		 .help = "memory that is not from slime_mem_alloc, at both ends"),
	CLI_END,
};

static const struct cli_setting calls[] = {
	CLI_SIZE(struct options, size, "size", .def = "64", .min = 0, .max = INT64_C(1) << 28,
		 .help = "bytes of request and reply"),
	CLI_INT(struct options, inflight, "inflight", .def = "1", .min = 1, .max = 4096,
		.help = "calls in flight"),
	CLI_ENUM(struct options, memory, "memory", memories, .def = "own",
		 .help = "what request and reply lie in"),
	CLI_END,
};

static const struct cli_command commands[] = {
	{
		.name = "read",
		.summary = "read batches of blocks of the server's",
		.tables = { common, blocks },
	},
	{
		.name = "write",
		.summary = "write batches of blocks to the server's memory",
		.tables = { common, blocks },
	},
	{
		.name = "rpc",
		.summary = "echo calls",
		.tables = { common, calls },
	},
	{ .name = NULL },
};

const struct cli_program measure_program = {
	.name = "slime-measure",
	.summary = "what libslime does between two processes: our side of bench/targets",
	.text = "Two processes on two CPUs, without a control plane; each round is printed as one line of JSON.",
	.commands = commands,
};
