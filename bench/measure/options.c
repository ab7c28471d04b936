/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/measure/options.h"

#include "bench/routes/routes.h"

static const char *const transports[] = { "any", "shm", "tcp", "rdma", NULL };
static const char *const pollings[] = { "adaptive", "busy", "event", NULL };
static const char *const memories[] = { "own", "registered", "in-place", NULL };

static const struct cli_setting link_settings[] = {
	CLI_ENUM(struct options, transport, "transport", transports, .def = "shm",
		 .help = "transport of the link"),
	CLI_ENUM(struct options, polling, "polling", pollings, .def = "adaptive",
		 .help = "polling of both ends"),
	CLI_STRING(struct options, device, "device", .value = "NAME",
		   .help = "over rdma: the client's device; else the first"),
	CLI_STRING(struct options, server_device, "server-device", .value = "NAME",
		   .help = "over rdma: the server's"),
	CLI_INT(struct options, qps, "qps", .def = "1", .min = 1, .max = 8,
		.help = "over rdma: queue pairs of the link"),
	CLI_END,
};

static const struct cli_setting memory_settings[] = {
	CLI_INT(struct options, inflight, "inflight", .def = "1", .min = 1, .max = 4096,
		.help = "batches in flight, each with a place of its own"),
	CLI_FLAG(struct options, one_place, "one-place",
		 .help = "all batches in flight are of the same bytes, as perftest's are"),
	CLI_FLAG(struct options, foreign, "foreign",
		 .help = "memory that is not from slime_mem_alloc, at both ends"),
	CLI_FLAG(struct options, count, "count", .help = "count batches without timing each"),
	CLI_END,
};

static const struct cli_setting calls[] = {
	CLI_INT(struct options, inflight, "inflight", .def = "1", .min = 1, .max = 4096,
		.help = "calls in flight"),
	CLI_ENUM(struct options, memory, "memory", memories, .def = "own",
		 .help = "what request and reply lie in"),
	CLI_FLAG(struct options, count, "count", .help = "count calls without timing each"),
	CLI_END,
};

static const struct cli_setting many[] = {
	CLI_INT(struct options, links, "links", .def = "64", .min = 1, .max = 1000,
		.help = "links of the two processes"),
	CLI_END,
};

static const struct cli_setting mixed[] = {
	CLI_INT(struct options, inflight, "inflight", .def = "16", .min = 1, .max = 4096,
		.help = "reads in flight, each of one block"),
	CLI_SIZE(struct options, rounds.block, "block", .def = "1MiB", .min = 8,
		 .max = INT64_C(1) << 28, .help = "bytes of a read, a multiple of 8"),
	CLI_FLAG(struct options, other_link, "other-link",
		 .help = "the calls go over another link of the two processes than the reads"),
	CLI_END,
};

static const struct cli_setting target[] = {
	CLI_STRING(struct options, url, "url", .value = "URL", .def = "http://127.0.0.1:3000",
		   .help = "nanoctrl"),
	CLI_SIZE(struct options, rounds.block, "block", .def = "4KiB", .min = 8,
		 .max = INT64_C(1) << 28, .help = "bytes of a read, a multiple of 8"),
	CLI_FLAG(struct options, by_handles, "by-handles",
		 .help = "by an endpoint and a region's descriptor, without a target"),
	CLI_END,
};

static const struct cli_setting routes[] = {
	CLI_STRING(struct options, url, "url", .value = "URL", .def = "http://127.0.0.1:3000",
		   .help = "the server, ours or DLSlime's NanoCtrl"),
	CLI_ENUM(struct options, route, "route", route_names, .def = "heartbeat",
		 .help = "route to call"),
	CLI_INT(struct options, connections, "connections", .def = "1", .min = 1,
		.max = ROUTES_CALLERS_MAX, .help = "that stay open, with one call each"),
	CLI_INT(struct options, entities, "entities", .def = "0", .min = 0,
		.max = ROUTES_ENTITIES_MAX,
		.help = "entities, or agents, in the scope; at least one a connection"),
	CLI_END,
};

static const struct cli_command commands[] = {
	{
		.name = "read",
		.summary = "read batches of blocks of the server's",
		.tables = { rounds_settings, link_settings, rounds_block_settings,
			    memory_settings },
	},
	{
		.name = "write",
		.summary = "write batches of blocks to the server's memory",
		.tables = { rounds_settings, link_settings, rounds_block_settings,
			    memory_settings },
	},
	{
		.name = "rpc",
		.summary = "echo calls",
		.tables = { rounds_settings, link_settings, rounds_message_settings, calls },
	},
	{
		.name = "mixed",
		.summary = "echo calls, one in flight, beside reads that never cease",
		.tables = { rounds_settings, link_settings, rounds_message_settings, mixed },
	},
	{
		.name = "bounce",
		.summary =
			"write, and wait until the answer was written: half of it, as ib_write_lat says",
		.tables = { rounds_settings, link_settings, rounds_message_settings },
	},
	{
		.name = "links",
		.summary = "echo calls on many links in turn, one at a time",
		.tables = { rounds_settings, link_settings, rounds_message_settings, many },
	},
	{
		.name = "rest",
		.summary = "what links take that were used once and rest",
		.tables = { rounds_settings, link_settings, rounds_message_settings, many },
	},
	{
		.name = "target",
		.summary = "read one block of another agent's region, one after the other",
		.tables = { rounds_settings, link_settings, target },
	},
	{
		.name = "control",
		.summary =
			"calls of a control plane that runs already, which take turns on each connection",
		.tables = { rounds_settings, routes },
	},
	{ .name = NULL },
};

const struct cli_program measure_program = {
	.name = "slime-measure",
	.summary = "what libslime does between two processes: our side of bench/targets",
	.text = "Two processes on two CPUs, without a control plane; each round is printed as one line of JSON.",
	.commands = commands,
};
