/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/options.h"

#include "peeragent/lib/control/ctrl.h"
#include "peeragent/lib/plan/topology.h"

static const char *const transports[] = { "any", "shm", "tcp", "rdma", NULL };

static const char *check_url(const char *text)
{
	return ctrl_is_url(text) ? NULL : "the URL of nanoctrl, as http://127.0.0.1:3000";
}

static const char *check_scope(const char *text)
{
	return topology_is_scope(text)
		       ? NULL
		       : "a scope: 1 to 253 of letters, digits and ._@-, not a reserved word";
}

static const char *check_name(const char *text)
{
	return topology_is_name(text, SLIME_AGENT_NAME_MAX)
		       ? NULL
		       : "a name: 1 to 253 of letters, digits and ._:@-";
}

#define OF_CONTROL(default_url)                                                                    \
	CLI_STRINGS(struct options, urls, n_urls, "ctrl", .value = "URL", .env = "SLIME_CTRL",     \
		    .def = (default_url), .check = check_url,                                      \
		    .help = "nanoctrl; may be repeated for its replicas"),                         \
		CLI_STRING(struct options, scope, "scope", .def = "default", .check = check_scope, \
			   .help = "the agents' scope"),                                           \
		CLI_STRING(struct options, token_file, "token-file", .value = "FILE",              \
			   .help = "file with the bearer token for nanoctrl")

static const struct cli_setting call_options[] = {
	OF_CONTROL("http://127.0.0.1:3000"),
	CLI_ENUM(struct options, transport, "transport", transports, .def = "any",
		 .help = "what the link to the agent may use"),
	CLI_DURATION_MS(struct options, timeout_ms, "timeout", .def = "10s", .min = 1,
			.max = 86400000, .help = "for the link, and again for the call"),
	CLI_END,
};

static const struct cli_setting pages_options[] = {
	OF_CONTROL("http://127.0.0.1:3000"),
	CLI_STRING(struct options, tenant, "tenant", .def = "default", .check = check_name,
		   .help = "the tenant of the pages"),
	CLI_INT(struct options, replicas, "replicas", .def = "1", .min = 1, .max = 8,
		.help = "owners that get each page, as its writers and readers are told"),
	CLI_DURATION_MS(struct options, timeout_ms, "timeout", .def = "5s", .min = 1,
			.max = 86400000, .help = "for owners to be reached, and for each answer"),
	CLI_END,
};

static const struct cli_setting devices_options[] = {
	CLI_FLAG(struct options, json, "json", .help = "print JSON"),
	CLI_STRING(struct options, sysfs, "sysfs", .value = "DIR", .hidden = true,
		   .help = "look there instead of /sys; it serves tests"),
	CLI_END,
};

static const struct cli_setting doctor_options[] = {
	OF_CONTROL(NULL),
	CLI_STRING(struct options, redis, "redis", .value = "HOST:PORT",
		   .help = "ask this Redis, too"),
	CLI_STRING(struct options, peer, "peer", .value = "AGENT", .check = check_name,
		   .help = "make a link to this agent over each transport; needs --ctrl"),
	CLI_DURATION_MS(struct options, timeout_ms, "timeout", .def = "5s", .min = 1,
			.max = 86400000, .help = "for each answer from the network"),
	CLI_FLAG(struct options, quiet, "quiet", .letter = 'q', .help = "leave out what is fine"),
	CLI_STRING(struct options, sysfs, "sysfs", .value = "DIR", .hidden = true,
		   .help = "look there instead of /sys; it serves tests"),
	CLI_STRING(struct options, procfs, "procfs", .value = "DIR", .hidden = true,
		   .help = "look there instead of /proc; it serves tests"),
	CLI_END,
};

static const struct cli_command commands[] = {
	{
		.name = "call",
		.summary = "call a method of an agent, and print its reply",
		.text = "DATA is the request; - reads it from standard input, and without DATA it is "
			"empty. The reply's bytes go to standard output as they are. Ends with 1 when "
			"the call failed.",
		.operands = "AGENT METHOD [DATA]",
		.min_operands = 2,
		.max_operands = 3,
		.tables = { call_options },
	},
	{
		.name = "pages",
		.summary =
			"explain a store of pages: its owners, and why a get of KEY hits or misses",
		.text = "A row for each owner: the transport to it, its memory for the tenant, its pages, and "
			"what it found, missed, evicted and refused. With KEY the owners are in the order in "
			"which they are to have it. Ends with 1 when a get of KEY misses, or when no owner "
			"can be reached.",
		.operands = "[KEY]",
		.max_operands = 1,
		.tables = { pages_options },
	},
	{
		.name = "devices",
		.summary =
			"RDMA devices of this host, and for each port why it can or cannot be used",
		.text = "Ends with 1 when no port can be used.",
		.tables = { devices_options },
	},
	{
		.name = "doctor",
		.summary =
			"look for what keeps links from working or from being fast, and say what helps",
		.text = "One line each: ok, note for what is slower than it could be, BAD for what will "
			"not work. Ends with 1 when something is BAD.",
		.tables = { doctor_options },
	},
	{ .name = NULL },
};

const struct cli_program tool_program = {
	.name = "slime",
	.summary = "agents and devices, for people at a shell",
	.commands = commands,
};
