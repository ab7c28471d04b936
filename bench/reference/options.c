/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/reference/options.h"

static const char *const waits[] = { "spin", "sleep", NULL };

static const struct cli_setting common[] = {
	CLI_DURATION_MS(struct options, round_ms, "round", .def = "200ms", .min = 1, .max = 60000,
			.help = "how long a round is"),
	CLI_FLAG(struct options, step, "step",
		 .help = "a round for each line on standard input, until its end"),
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
	CLI_END,
};

static const struct cli_setting message[] = {
	CLI_SIZE(struct options, size, "size", .def = "64", .min = 0, .max = INT64_C(1) << 28,
		 .help = "bytes each way"),
	CLI_END,
};

static const struct cli_setting waiting[] = {
	CLI_ENUM(struct options, wait, "wait", waits, .def = "spin",
		 .help = "how either end waits for the other"),
	CLI_END,
};

static const struct cli_command commands[] = {
	{
		.name = "memcpy",
		.summary = "copy blocks from one shared mapping to another",
		.tables = { common, blocks },
	},
	{
		.name = "pull",
		.summary = "read blocks of another process by process_vm_readv, a call a batch",
		.tables = { common, blocks },
	},
	{
		.name = "mailbox",
		.summary = "two spinning processes, three copies a round trip",
		.text = "The client copies its request into the mailbox, the server copies it to the reply, and the "
			"client copies that out. Of size 0 it is the ping-pong of a cache line.",
		.tables = { common, message },
	},
	{
		.name = "futex",
		.summary = "two processes that wake each other by futex",
		.tables = { common },
	},
	{
		.name = "tcp-read",
		.summary = "read blocks over one socket, the answers of a batch in one sendmsg",
		.tables = { common, blocks, waiting },
	},
	{
		.name = "tcp-echo",
		.summary = "bytes out and back over one socket",
		.tables = { common, message, waiting },
	},
	{ .name = NULL },
};

const struct cli_program reference_program = {
	.name = "slime-reference",
	.summary = "what this machine does without libslime: the other side of bench/targets",
	.text = "Two processes on two CPUs; each round is printed as one line of JSON.",
	.commands = commands,
};
