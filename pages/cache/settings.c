/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/settings.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "cache/directory.h"
#include "cli/options/quantity.h"
#include "cli/process/logsink.h"
#include "http/host.h"
#include "nanoctrl/client/url.h"

bool cache_size(const char *text, uint64_t *out)
{
	static const char units[] = "kmgt";
	size_t digits = strspn(text, "0123456789");
	const char *unit = text + digits + strspn(text + digits, " ");
	const char *at = *unit ? strchr(units, *unit | 0x20) : NULL;
	int shift = at ? 10 * (int)(at - units + 1) : 0;
	uint64_t n = 0;

	if (!digits || (*unit && !at))
		return false;
	if (at && unit[1] && strcasecmp(unit + 1, "b") != 0 && strcasecmp(unit + 1, "ib") != 0)
		return false;
	for (size_t i = 0; i < digits; i++) {
		if (n > (UINT64_MAX >> 8) / 10)
			return false;
		n = n * 10 + (uint64_t)(text[i] - '0');
	}
	if (n > UINT64_MAX >> 1 >> shift)
		return false;
	*out = n << shift;
	return true;
}

static const char *check_address(const char *text)
{
	unsigned char bytes[16];

	if (inet_pton(AF_INET, text, bytes) == 1 || inet_pton(AF_INET6, text, bytes) == 1)
		return NULL;
	return "an IPv4 or IPv6 address";
}

static const char *check_size(const char *text)
{
	uint64_t size;

	return cache_size(text, &size) ? NULL : "a size such as 256K or 1G";
}

static const char *check_slab(const char *text)
{
	uint64_t size;

	return cache_size(text, &size) && size >= DIRECTORY_SLAB_MIN && size <= DIRECTORY_SLAB_MAX
		       ? NULL
		       : "a size from 128K to 1G";
}

static const char *check_url(const char *text)
{
	struct nc_url url;

	return nc_url_parse(text, &url) ? "the URL of nanoctrl, as http://127.0.0.1:3000" : NULL;
}

static const char *check_absolute(const char *text)
{
	return text[0] == '/' ? NULL : "an absolute path";
}

#define S struct cache_settings

static const struct cli_setting where_options[] = {
	CLI_STRING(S, runtime_dir, "runtime-dir", .value = "DIR", .check = check_absolute,
		   .env = "DLSLIME_CACHE_RUNTIME_DIR",
		   .help = "pid file and log; default $RUNTIME_DIRECTORY, else "
			   "$XDG_RUNTIME_DIR/slime-cache, else /run/slime-cache for root and "
			   "$XDG_STATE_HOME/slime-cache/run for others"),
	CLI_END,
};

static const struct cli_setting server_options[] = {
	CLI_STRING(S, host, "host", .value = "ADDRESS", .def = "127.0.0.1", .check = check_address,
		   .help = "address to listen on"),
	CLI_PORT(S, port, "port", .def = "8765",
		 .help = "TCP port; 0 lets the kernel choose one, and start prints it"),
	CLI_FLAG(
		S, insecure, "insecure",
		.help = "listen beyond loopback, although every client that reaches it may do anything"),
	CLI_STRINGS(
		S, names, n_names, "names", .value = "NAME,...", .check = host_check_name,
		.help = "host names by which clients reach it, besides addresses and localhost"),
	CLI_STRING(S, slab_size, "slab-size", .value = "SIZE", .def = "256K", .check = check_slab,
		   .help = "most bytes of a piece, from 128K to 1G"),
	CLI_STRING(S, memory_size, "memory-size", .value = "SIZE", .def = "0", .check = check_size,
		   .help = "logical memory, a multiple of the slab; 0: no slabs are given out, and "
			   "pieces keep their offsets"),
	CLI_STRING(S, ctrl, "ctrl", .value = "URL", .check = check_url,
		   .help = "control plane at which clients find the cache; default none"),
	CLI_STRING(S, scope, "scope", .max = 253,
		   .help = "scope at the control plane; default none"),
	CLI_STRING(S, service_id, "service-id", .value = "ID", .def = "cache:0", .min = 1,
		   .max = 253, .help = "name of the service at the control plane"),
	CLI_STRING(
		S, advertise_host, "advertise-host", .value = "HOST", .max = 253,
		.help = "host at which clients reach it; default is the address on which it listens"),
	CLI_DURATION_MS(S, beat_ms, "heartbeat-interval", .def = "15s", .min = 100, .max = 3600000,
			.help = "interval of the heartbeats to the control plane"),
	CLI_FLAG(S, metadata_only, "metadata-only",
		 .help = "accepted for users of DLSlimeCache; always true"),
	CLI_FLAG(S, quiet, "quiet", .help = "write no line for each request"),
	CLI_ENUM(S, log_level, "log-level", cli_log_levels, .def = "info",
		 .help = "lowest level that is logged"),
	CLI_STRING(S, log_file, "log-file", .value = "FILE",
		   .help = "log file; without it server logs to standard error"),
	CLI_END,
};

static const struct cli_setting start_options[] = {
	CLI_DURATION_MS(S, wait_ms, "wait", .def = "8s", .min = 100, .max = 600000,
			.help = "how long to wait for the server to answer"),
	CLI_STRING(
		S, health_host, "health-host", .value = "ADDRESS", .check = check_address,
		.help = "address at which the server is checked; default is the address on which it listens"),
	CLI_PORT(S, health_port, "health-port", .def = "0",
		 .help = "port at which the server is checked; 0 is the port on which it listens"),
	CLI_END,
};

static const struct cli_setting status_options[] = {
	CLI_STRING(
		S, address, "address", .value = "URL", .check = check_url,
		.help = "check the server at this address; default is the address on which it listens"),
	CLI_END,
};

static const struct cli_setting stop_options[] = {
	CLI_DURATION_MS(S, timeout_ms, "timeout", .def = "8s", .min = 0, .max = 600000,
			.help = "how long to wait for the end of the server"),
	CLI_FLAG(S, force, "force", .help = "kill the server after that time"),
	CLI_END,
};

static const struct cli_command commands[] = {
	{ .name = "start",
	  .summary = "run the directory in the background",
	  .text = "No bytes of DLSlimeCache's clients move: /peer-agent is 503.",
	  .tables = { server_options, start_options, where_options } },
	{ .name = "server",
	  .summary = "run the directory in the foreground",
	  .tables = { server_options, where_options } },
	{ .name = "status",
	  .summary = "say whether it runs, and what is wrong with it",
	  .text = "Exit status: 0 when it answers, 1 when it does not or none runs.",
	  .tables = { status_options, where_options } },
	{ .name = "stop", .summary = "end it", .tables = { stop_options, where_options } },
	{ .name = NULL },
};

const struct cli_program cache_program = {
	.name = "slime-cache",
	.summary = "the directory of DLSlimeCache: which slabs hold which bytes of which agent",
	.commands = commands,
};
