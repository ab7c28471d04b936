/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/options.h"

static const char *const transports[] = { "any", "shm", "tcp", NULL };
static const char *const pollings[] = { "adaptive", "busy", "event", NULL };
static const char *const ops[] = { "read", "write", "write_imm", NULL };

static const struct cli_setting common[] = {
	CLI_STRINGS(struct options, ctrl, n_ctrl, "ctrl", .def = "http://127.0.0.1:3000",
		    .value = "URL", .env = "SLIME_CTRL",
		    .help = "nanoctrl; several replicas by repeating it"),
	CLI_STRING(struct options, scope, "scope", .def = "default", .help = "the agents' scope"),
	CLI_STRING(struct options, token_file, "token-file", .value = "FILE",
		   .help = "bearer token for nanoctrl"),
	CLI_STRING(struct options, peer, "peer", .value = "AGENT", .min = 1,
		   .max = SLIME_AGENT_NAME_MAX, .help = "the agent at the other end"),
	CLI_STRING(
		struct options, from, "from", .value = "AGENT", .max = SLIME_AGENT_NAME_MAX,
		.help = "the agent that initiates, by its bench service; absent: an ephemeral agent in this "
			"process"),
	CLI_ENUM(struct options, transport, "transport", transports, .def = "any",
		 .help = "what the link between the two may use"),
	CLI_ENUM(struct options, polling, "polling", pollings, .def = "adaptive",
		 .help = "how the ephemeral agent waits"),
	CLI_INT(struct options, threads, "threads", .def = "1", .min = 1, .max = LOAD_THREADS_MAX,
		.help = "threads that initiate"),
	CLI_FLAG(struct options, json, "json", .help = "print JSON"),
	CLI_FLAG(struct options, csv, "csv", .help = "print CSV"),
	CLI_END,
};

static const struct cli_setting rpc[] = {
	CLI_SIZES(struct options, sizes, n_sizes, "sizes",
		  .def = "1KiB,4KiB,16KiB,64KiB,256KiB,1MiB,4MiB,16MiB,64MiB", .min = 8,
		  .max = LOAD_CALL_MAX, .help = "of request and reply, one row each"),
	CLI_INT(struct options, iterations, "iterations", .def = "0", .min = 0,
		.max = LOAD_CALLS_MAX,
		.help = "measured calls per thread and size; 0: 50 MB worth, at least 50 and at most 500"),
	CLI_DURATION_MS(struct options, duration_ms, "duration", .def = "0", .min = 0,
			.max = LOAD_DURATION_MAX_MS,
			.help = "measure each size for so long instead"),
	CLI_INT(struct options, inflight, "inflight", .def = "1", .min = 1,
		.max = LOAD_INFLIGHT_MAX, .help = "calls in flight per thread"),
	CLI_END,
};

static const struct cli_setting transfer[] = {
	CLI_ENUM(struct options, op, "op", ops, .def = "read", .help = "which way the bytes go"),
	CLI_STRING(struct options, region, "region", .value = "NAME", .max = SLIME_AGENT_NAME_MAX,
		   .help = "the peer's region; absent: the one its bench service offers for this"),
	CLI_FLAG(struct options, overwrite, "overwrite",
		 .help = "allow writing to a region of the peer's own"),
	CLI_SIZE(struct options, block_size, "block-size", .def = "128KiB", .min = 8,
		 .max = INT64_C(1) << 34, .help = "bytes of a block, a multiple of 8"),
	CLI_INT(struct options, batch_size, "batch-size", .def = "32", .min = 1,
		.max = LOAD_BATCH_MAX, .help = "blocks of a trip"),
	CLI_DURATION_MS(struct options, duration_ms, "duration", .def = "3s", .min = 1,
			.max = LOAD_DURATION_MAX_MS, .help = "how long to measure"),
	CLI_INT(struct options, qps, "qps", .def = "0", .min = 0, .max = 100000000,
		.help = "trips a second (open loop: latency counts from the intended start); 0: as fast as it goes"),
	CLI_END,
};

static const struct cli_command commands[] = {
	{
		.name = "rpc",
		.summary = "echo calls of growing size",
		.text = "Every reply is compared with its request. Closed loop: a call begins when the one before it "
			"ended, so latencies tell nothing of queueing.",
		.tables = { common, rpc },
	},
	{
		.name = "transfer",
		.summary = "one-sided reads or writes",
		.text = "Trips walk over the whole region, so its bytes come from memory when it is larger than the "
			"caches. The bytes of the first places are checked after the measurement.",
		.tables = { common, transfer },
	},
	{ .name = NULL },
};

const struct cli_program bench_program = {
	.name = "slime-bench",
	.summary = "measures calls and transfers between agents",
	.commands = commands,
};
