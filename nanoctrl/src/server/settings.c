/* SPDX-License-Identifier: Apache-2.0 */
#include "server/settings.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/process/logsink.h"
#include "http/host.h"
#include "nanoctrl/client/url.h"
#include "redis/url.h"

static const char *const auto_words[] = { "auto", NULL };

static const char *check_address(const char *text)
{
	unsigned char bytes[16];

	if (inet_pton(AF_INET, text, bytes) == 1 || inet_pton(AF_INET6, text, bytes) == 1)
		return NULL;
	return "an IPv4 or IPv6 address";
}

int options_address(const char *text, char out[OPTIONS_ADDRESS_MAX])
{
	int n = snprintf(out, OPTIONS_ADDRESS_MAX, "%s%s", strstr(text, "://") ? "" : "http://",
			 text);

	return n < OPTIONS_ADDRESS_MAX ? 0 : -ENAMETOOLONG;
}

static const char *check_url(const char *text)
{
	char whole[OPTIONS_ADDRESS_MAX];
	struct nc_url url;

	return options_address(text, whole) || nc_url_parse(whole, &url)
		       ? "the URL of nanoctrl, as http://127.0.0.1:3000"
		       : NULL;
}

static const char *check_absolute(const char *text)
{
	return text[0] == '/' ? NULL : "an absolute path";
}

/* As clients of DLSlime take it apart: at its only colon. */
static const char *check_host_port(const char *text)
{
	size_t host = strcspn(text, ":/@ ");
	const char *port;

	for (const char *c = text; *c; c++)
		if (*c <= ' ' || *c > '~')
			return "HOST:PORT";
	port = text[host] == ':' ? text + host + 1 : "";
	if (host && host < 254 && *port && strspn(port, "0123456789") == strlen(port) &&
	    strlen(port) <= 5 && atoi(port) >= 1 && atoi(port) <= 65535)
		return NULL;
	return "HOST:PORT";
}

static const char *check_advertise(const char *text)
{
	if (!strncmp(text, REDIS_SCHEME, strlen(REDIS_SCHEME)))
		text += strlen(REDIS_SCHEME);
	return check_host_port(text);
}

/* The names that DLSlime's own server reads, the second after it was renamed. */
#define ENV_REDIS_URL	"NANOCTRL_REDIS_URL DLSLIME_CTRL_REDIS_URL"
#define ENV_RUNTIME_DIR "NANOCTRL_RUNTIME_DIR DLSLIME_CTRL_RUNTIME_DIR"
#define ENV_SCOPE	"NANOCTRL_SCOPE DLSLIME_CTRL_SCOPE"
#define ENV_ADVERTISE	"NANOCTRL_REDIS_ADVERTISE DLSLIME_CTRL_REDIS_ADVERTISE"

#ifdef NANOCTRL_COMPAT
#define COMPAT_DEFAULT "loopback"
#else
#define COMPAT_DEFAULT "off"
#endif

static const char *const compat_words[] = {
	[COMPAT_OFF] = "off",
	[COMPAT_LOOPBACK] = "loopback",
	[COMPAT_OPEN] = "open",
	NULL,
};

static const struct cli_setting server_table[] = {
	CLI_STRING(struct server_settings, host, "host", .def = "127.0.0.1", .check = check_address,
		   .help = "address to listen on"),
	CLI_PORT(struct server_settings, port, "port", .def = "3000",
		 .help = "TCP port; 0 lets the kernel choose one, and start prints it"),
	CLI_PORT(struct server_settings, second_port, "second_port", .def = "0",
		 .help = "another TCP port of the same server, such as 4479, which DLSlime's "
			 "newer clients use; 0 is none"),
	CLI_FLAG(struct server_settings, insecure, "insecure", .def = "false",
		 .help = "listen beyond loopback, although every client that reaches the server "
			 "may do anything"),
	CLI_STRINGS(struct server_settings, names, n_names, "names", .check = host_check_name,
		    .help = "host names by which clients reach the server, besides addresses and "
			    "localhost: ctrl.example, or *.example for all names below it; other "
			    "names are 421"),
	CLI_ENUM(struct server_settings, compat, "compat", compat_words, .def = COMPAT_DEFAULT,
		 .help = "which clients may use the routes of DLSlime's NanoCtrl: none, those on "
			 "this host, or all that reach the server"),
	CLI_ENUM(struct server_settings, mooncake, "mooncake", compat_words, .def = "off",
		 .help = "which clients may use /metadata, the metadata server of Mooncake's "
			 "transfer engine; owners of its engines are probed then"),
	CLI_INT(struct server_settings, threads, "threads", .def = "auto", .min = 1, .max = 64,
		.words = auto_words,
		.help = "number of event loops; auto is one less than the number of cores, at "
			"least 1 and at most 4"),
	CLI_DURATION_NS(
		struct server_settings, busy_poll_ns, "busy_poll", .def = "100us", .min = 0,
		.max = 1000000,
		.help = "how long an event loop that is woken more than 4000 times per second "
			"polls before it sleeps; 0 is never"),
	CLI_INT(struct server_settings, max_connections, "max_connections", .def = "16384",
		.min = 1, .max = 1000000,
		.help = "most connections at one time; one more is refused with 503"),
	CLI_SIZE(struct server_settings, max_body, "max_body", .def = "2MiB", .min = 1024,
		 .max = 1073741824, .help = "longest request body"),
	CLI_SIZE(struct server_settings, max_list, "max_list", .def = "32MiB", .min = 1024,
		 .max = 67108864,
		 .help = "most bytes of entities or agents in one answer to clients of DLSlime's "
			 "NanoCtrl; more is 413"),
	CLI_SIZE(struct server_settings, max_queue, "max_queue", .def = "256KiB", .min = 16384,
		 .max = 1073741824,
		 .help = "most bytes in the queue of one session before it gets a reset"),
	CLI_DURATION_MS(struct server_settings, idle_ms, "idle_timeout", .def = "75s", .min = 100,
			.max = 86400000,
			.help = "how long a connection may be open without a request"),
	CLI_DURATION_MS(struct server_settings, request_ms, "request_timeout", .def = "30s",
			.min = 100, .max = 3600000,
			.help = "longest time from the first byte of a request to its last"),
	CLI_DURATION_MS(struct server_settings, stall_ms, "stall_timeout", .def = "10s", .min = 100,
			.max = 3600000,
			.help = "how long a client may read none of the bytes that are sent to it"),
	CLI_DURATION_MS(struct server_settings, tick_ms, "session_tick", .def = "5s", .min = 10,
			.max = 60000, .help = "how often a session gets a sign of life"),
	CLI_DURATION_MS(
		struct server_settings, session_age_ms, "session_age", .def = "1h", .min = 1000,
		.max = 864000000,
		.help = "age at which a session is asked to connect again, 20 % more or less"),
	CLI_DURATION_MS(struct server_settings, drain_accept_ms, "drain_accept", .def = "2s",
			.min = 0, .max = 600000,
			.help = "how long a stopping server still accepts"),
	CLI_DURATION_MS(struct server_settings, drain_ms, "drain", .def = "10s", .min = 0,
			.max = 600000,
			.help = "how long a stopping server finishes running requests"),
	CLI_END,
};

/* In the order of REDIS_COMPAT_OFF and REDIS_COMPAT_AUTO. */
static const char *const compat_port_words[] = { "off", "auto", NULL };

static const struct cli_setting redis_table[] = {
	CLI_STRING(
		struct redis_settings, url, "url",
		.help = "redis://[[user]:password@]host[:port][/db], "
			"redis+sentinel://[[user]:password@]host[:port],.../primary[/db] with the hosts "
			"of sentinels, redis+cluster://[[user]:password@]host[:port],... with some nodes of "
			"a Redis Cluster, or unix://[[user]:password@]/path[?db=n]; without it nanoctrl "
			"runs a private redis-server"),
	CLI_STRING(struct redis_settings, program, "program", .def = "redis-server",
		   .help = "program of the private Redis"),
	CLI_STRING(struct redis_settings, data_dir, "data_dir", .check = check_absolute,
		   .help = "data directory of the private Redis; default $STATE_DIRECTORY, else "
			   "$XDG_STATE_HOME/nanoctrl, for root /var/lib/nanoctrl"),
	CLI_STRING(struct redis_settings, advertise, "advertise", .check = check_advertise,
		   .help = "HOST:PORT at which DLSlime's agents reach this Redis, by TCP and "
			   "without a password; default is that of the URL"),
	CLI_STRING(struct redis_settings, public_address, "public_address",
		   .check = check_host_port,
		   .help = "HOST:PORT that DLSlime's agents on other hosts get, unchanged, for a "
			   "Redis that only this host reaches; default is an address of this host"),
	CLI_INT(struct redis_settings, compat_port, "compat_port", .def = "off", .min = 1,
		.max = 65535, .words = compat_port_words,
		.help = "port of 127.0.0.1 on which the private Redis serves DLSlime's agents, "
			"without a password; auto is a free one, kept in the data directory; "
			"with off they cannot register"),
	CLI_SIZE(struct redis_settings, max_memory, "max_memory", .def = "1GiB", .min = 0,
		 .max = 1LL << 46,
		 .help = "most memory for the data of the private Redis; beyond it writes are "
			 "refused; 0 is no limit"),
	CLI_DURATION_MS(
		struct redis_settings, timeout_ms, "timeout", .def = "5s", .min = 100, .max = 60000,
		.help = "longest time for an answer of Redis; then the connection is closed"),
	CLI_INT(struct redis_settings, max_inflight, "max_inflight", .def = "10000", .min = 1,
		.max = 1000000, .help = "most pending commands of one loop; one more is 503"),
	CLI_END,
};

static const struct cli_setting lease_table[] = {
	CLI_DURATION_MS(struct lease_settings, ttl_ms, "ttl", .def = "15s", .min = 100,
			.max = 3600000, .help = "how long an agent lives without a beat"),
	CLI_DURATION_MS(
		struct lease_settings, beat_ms, "beat", .def = "5s", .min = 10, .max = 3600000,
		.help = "interval of the beats that agents are asked for: at most half of ttl"),
	CLI_DURATION_MS(struct lease_settings, grace_ms, "grace", .def = "2s", .min = 10,
			.max = 3600000, .help = "length of a lease after its session broke"),
	CLI_INT(struct lease_settings, max_objects, "max_objects", .def = "4096", .min = 1,
		.max = 1000000, .help = "most regions, offers and links of one agent"),
	CLI_END,
};

static const struct cli_setting events_table[] = {
	CLI_INT(struct events_settings, keep, "keep", .def = "1000", .min = 1, .max = 1000000,
		.help = "number of events kept for each scope"),
	CLI_DURATION_MS(struct events_settings, keep_ms, "keep_for", .def = "10m", .min = 1000,
			.max = 86400000, .help = "how long events are kept"),
	CLI_END,
};

static const struct cli_setting log_table[] = {
	CLI_ENUM(struct log_settings, level, "level", cli_log_levels, .def = "info",
		 .help = "lowest level that is logged"),
	CLI_ENUM(struct log_settings, format, "format", cli_log_formats, .def = "text",
		 .help = "text lines or JSON"),
	CLI_FLAG(struct log_settings, access, "access", .def = "false",
		 .help = "one line for each request, written soon after it"),
	CLI_END,
};

const struct cli_setting settings_table[] = {
	CLI_INT(struct settings, version, "version", .def = "1", .min = 1, .max = 1,
		.help = "version of the file format"),
	CLI_MAP(struct settings, server, "server", server_table, .help = "the HTTP server"),
	CLI_MAP(struct settings, redis, "redis", redis_table, .help = "the Redis with the state"),
	CLI_MAP(struct settings, lease, "lease", lease_table, .help = "leases of agents"),
	CLI_MAP(struct settings, events, "events", events_table, .help = "events that are kept"),
	CLI_MAP(struct settings, log, "log", log_table, .help = "the log"),
	CLI_END,
};

static const struct cli_setting where_options[] = {
	CLI_STRING(struct options, config, "config", .letter = 'c', .value = "FILE",
		   .help = "configuration file, such as configs/nanoctrl.yaml"),
	CLI_STRING(
		struct options, runtime_dir, "runtime-dir", .value = "DIR", .check = check_absolute,
		.env = ENV_RUNTIME_DIR,
		.help = "pid file and log; default $RUNTIME_DIRECTORY, else $XDG_RUNTIME_DIR/nanoctrl, else "
			"/run/nanoctrl for root and $XDG_STATE_HOME/nanoctrl/run for others"),
	CLI_KEY("data-dir", "redis.data_dir", .value = "DIR"),
	CLI_SET,
	CLI_END,
};

static const struct cli_setting server_options[] = {
	CLI_KEY("host", "server.host", .value = "ADDRESS"),
	CLI_KEY("port", "server.port", .letter = 'p'),
	CLI_KEY("second-port", "server.second_port"),
	CLI_KEY("insecure", "server.insecure"),
	CLI_KEY("redis-url", "redis.url", .value = "URL", .env = ENV_REDIS_URL),
	CLI_KEY("redis-advertise", "redis.advertise", .value = "HOST:PORT", .env = ENV_ADVERTISE),
	CLI_KEY("redis-public-address", "redis.public_address", .value = "HOST:PORT",
		.env = "REDIS_PUBLIC_ADDRESS"),
	CLI_KEY("log-level", "log.level", .env = "NANOCTRL_LOG_LEVEL"),
	CLI_STRING(struct options, log_file, "log-file", .value = "FILE",
		   .help = "log file; without it server logs to standard error"),
	CLI_END,
};

static const struct cli_setting start_options[] = {
	CLI_DURATION_MS(struct options, wait_ms, "wait", .def = "8s", .min = 100, .max = 600000,
			.help = "how long to wait for the server to answer"),
	CLI_STRING(
		struct options, health_host, "health-host", .value = "ADDRESS",
		.check = check_address,
		.help = "address at which the server is checked; default is the address on which "
			"it listens"),
	CLI_PORT(struct options, health_port, "health-port", .def = "0",
		 .help = "port at which the server is checked; 0 is the port on which it listens"),
	CLI_END,
};

static const struct cli_setting status_options[] = {
	CLI_STRING(struct options, address, "address", .value = "URL", .check = check_url,
		   .help = "check the server at this address; default is the address on which it "
			   "listens"),
	CLI_END,
};

static const struct cli_setting stop_options[] = {
	CLI_DURATION_MS(struct options, timeout_ms, "timeout", .def = "30s", .min = 0,
			.max = 600000, .help = "how long to wait for the end of the server"),
	CLI_FLAG(struct options, force, "force", .help = "kill the server after that time"),
	CLI_END,
};

static const char *check_obs_scope(const char *text)
{
	return strlen(text) <= 253 ? NULL : "at most 253 bytes";
}

static const struct cli_setting obs_options[] = {
	CLI_STRING(struct options, runtime_dir, "runtime-dir", .value = "DIR",
		   .check = check_absolute, .env = ENV_RUNTIME_DIR,
		   .help = "runtime directory of the server to ask"),
	CLI_STRING(struct options, address, "address", .value = "URL", .check = check_url,
		   .help = "the server to ask; default is the one of the runtime directory"),
	CLI_KEY("redis-url", "redis.url", .value = "URL", .env = ENV_REDIS_URL,
		.help = "read this Redis, without a server, unless --address is given"),
	CLI_STRING(struct options, scope, "scope", .check = check_obs_scope, .env = ENV_SCOPE,
		   .help = "scope of the agents; default is the scope of agents that name none"),
	CLI_INT(struct options, stale_ms, "stale-ms", .def = "45000", .min = 0, .max = INT64_MAX,
		.help = "age in milliseconds beyond which the snapshot of an agent of DLSlime's "
			"is stale; an agent of this project is stale when its lease has ended"),
	CLI_SET,
	CLI_END,
};

static const struct cli_setting json_options[] = {
	CLI_FLAG(struct options, json, "json", .help = "print JSON"),
	CLI_END,
};

static const struct cli_setting links_options[] = {
	CLI_DURATION_MS(struct options, links_wait_ms, "wait", .def = "0", .min = 0,
			.max = 86400000,
			.help = "wait until there are links and all of them are connected"),
	CLI_STRING(struct options, topology, "topology", .value = "NAME",
		   .help = "links that this topology wants; --wait waits until all of them are "
			   "connected and all expected agents are registered"),
	CLI_FLAG(struct options, rails, "rails",
		 .help = "describe the rails of links over RDMA, one line for each"),
	CLI_END,
};

static const struct cli_setting top_options[] = {
	CLI_DURATION_MS(struct options, every_ms, "every", .letter = 'd', .def = "2s", .min = 100,
			.max = 3600000, .help = "interval of the tables"),
	CLI_INT(struct options, times, "times", .letter = 'n', .def = "0", .min = 0,
		.max = 1000000000, .help = "end after this number of tables; 0 is never"),
	CLI_END,
};

static const struct cli_setting server_of_options[] = {
	CLI_STRING(struct options, runtime_dir, "runtime-dir", .value = "DIR",
		   .check = check_absolute, .env = ENV_RUNTIME_DIR,
		   .help = "runtime directory of the server to ask"),
	CLI_STRING(struct options, address, "address", .value = "URL", .check = check_url,
		   .help = "the server to ask; default is the one of the runtime directory"),
	CLI_STRING(struct options, scope, "scope", .check = check_obs_scope, .env = ENV_SCOPE,
		   .help = "scope of the agents; default is the scope of agents that name none"),
	CLI_END,
};

static const struct cli_setting file_options[] = {
	CLI_STRING(struct options, file, "file", .letter = 'f', .value = "PATH",
		   .help = "a topology, or a directory of them: *.yaml and *.yml"),
	CLI_FLAG(struct options, force, "force",
		 .help = "take over links that another topology names"),
	CLI_FLAG(struct options, prune, "prune",
		 .help = "remove wishes that the file does not have"),
	CLI_END,
};

static const struct cli_setting apply_options[] = {
	CLI_FLAG(struct options, dry_run, "dry-run",
		 .help = "print the changes, and change nothing"),
	CLI_END,
};

static const char *const output_words[] = { [OUTPUT_YAML] = "yaml",
					    [OUTPUT_JSON] = "json",
					    [OUTPUT_TABLE] = "table",
					    [OUTPUT_WIDE] = "wide",
					    NULL };

static const struct cli_setting get_options[] = {
	CLI_ENUM(
		struct options, output, "output", output_words, .letter = 'o', .def = "table",
		.help = "a table, a table with more columns, or the complete answer of the server"),
	CLI_FLAG(struct options, all_scopes, "all-scopes", .letter = 'A',
		 .help = "objects of all scopes, with the scope in each row"),
	CLI_STRING(struct options, selector, "selector", .letter = 'l', .value = "LABEL=VALUE,...",
		   .help = "only agents whose labels all match"),
	CLI_STRING(struct options, agent, "agent", .value = "NAME",
		   .help = "only rows about this agent"),
	CLI_STRING(struct options, state, "state", .value = "WORD",
		   .help = "only rows with this word in the column STATE"),
	CLI_FLAG(struct options, watch, "watch", .letter = 'w',
		 .help = "after the list, poll and print rows that are new or changed"),
	CLI_DURATION_MS(struct options, every_ms, "every", .def = "1s", .min = 100, .max = 3600000,
			.help = "interval of --watch"),
	CLI_END,
};

static const char *const describe_words[] = {
	[OUTPUT_YAML] = "yaml", [OUTPUT_JSON] = "json", NULL
};

static const struct cli_setting describe_options[] = {
	CLI_ENUM(struct options, output, "output", describe_words, .letter = 'o', .def = "yaml",
		 .help = "form of the complete answer of the server"),
	CLI_END,
};

static const struct cli_setting gc_options[] = {
	CLI_FLAG(struct options, dry_run, "dry-run", .help = "list the keys, and remove nothing"),
	CLI_KEY("redis-url", "redis.url", .value = "URL", .env = ENV_REDIS_URL,
		.help = "the Redis to read; default is the private one of --data-dir, else the "
			"one of the running server"),
	CLI_END,
};

static const struct cli_command commands[] = {
	{ .name = "start",
	  .summary = "run the server in the background",
	  .text = "Without --redis-url a private redis-server is run beside it, and ended by stop.",
	  .tables = { server_options, start_options, where_options } },
	{ .name = "server",
	  .summary = "run the server in the foreground",
	  .tables = { server_options, where_options } },
	{ .name = "status",
	  .summary = "say whether a server runs, and what is wrong with it",
	  .text = "Exit status: 0 when it can do its work; 1 when none runs, or it does not answer; 4 "
		  "when it runs and is not ready, as without its Redis.",
	  .tables = { status_options, where_options } },
	{ .name = "stop",
	  .summary = "end the server, and the private Redis with it",
	  .tables = { stop_options, where_options } },
	{ .name = "gc",
	  .summary = "list what agents of DLSlime's NanoCtrl left in Redis",
	  .text = "Keys of memory regions, exchanges, targets, streams and inboxes whose agent is not "
		  "registered, one a line. It looks at every key, and changes nothing.",
	  .tables = { gc_options, where_options } },
	{ .name = "apply",
	  .summary = "apply topologies: files that say how the agents of a scope are linked",
	  .text = "All files of a scope are applied, or none. A file's own scope goes before --scope.",
	  .tables = { server_of_options, file_options, apply_options } },
	{ .name = "diff",
	  .summary = "say what apply would change",
	  .text = "Exit status: 0 when nothing would change, 3 when something would, 1 on an error.",
	  .tables = { server_of_options, file_options } },
	{ .name = "get",
	  .summary = "list what there is of a kind",
	  .text = "Of the kinds that have them: --selector goes by the labels of agents, --agent by "
		  "the names of agents in a row, --state by the column STATE.",
	  .operands = "topologies|agents|links|regions|services|events|scopes",
	  .min_operands = 1,
	  .max_operands = 1,
	  .tables = { server_of_options, get_options } },
	{ .name = "describe",
	  .summary = "show all that is known of one object, and what belongs to it",
	  .text = "NAME is AGENT/REGION of a region, AGENT/PEER or AGENT/PEER/PROFILE of a link, and "
		  "SERVICE or SERVICE/AGENT of a service. Exit status: 1 when there is none.",
	  .operands = "topology|agent|link|region|service|scope NAME",
	  .min_operands = 2,
	  .max_operands = 2,
	  .tables = { server_of_options, describe_options } },
	{ .name = "delete topology",
	  .summary = "delete a topology: its links go",
	  .operands = "NAME",
	  .min_operands = 1,
	  .max_operands = 1,
	  .tables = { server_of_options } },
	{ .name = "obs status",
	  .summary = "show how many agents are alive, and what all of them moved",
	  .tables = { obs_options, json_options } },
	{ .name = "obs peers",
	  .summary = "show what each agent says of what it does",
	  .tables = { obs_options, json_options } },
	{ .name = "obs nics",
	  .summary = "show the same for each of their NICs",
	  .tables = { obs_options, json_options } },
	{ .name = "obs links",
	  .summary = "show the links that agents report, and those that topologies want",
	  .text = "Exit status with --wait: 0 when all links are connected, 1 when time ran out.",
	  .tables = { obs_options, json_options, links_options } },
	{ .name = "explain",
	  .summary = "say of an agent and its links why they are as they are",
	  .text = "Or of its links to PEER alone: the state that each end has, since when, which "
		  "transports it allows, which was taken and why none before, what it broke with "
		  "last, and each rail of an RDMA link.",
	  .operands = "AGENT [PEER]",
	  .min_operands = 1,
	  .max_operands = 2,
	  .tables = { obs_options, json_options } },
	{ .name = "top",
	  .summary = "show what agents do, again and again",
	  .text = "On a terminal in place, until q or Ctrl-C; else one look after the other.",
	  .tables = { obs_options, top_options } },
	{ .name = NULL },
};

const struct cli_program nanoctrl_program = {
	.name = "nanoctrl",
	.summary =
		"the control plane: which agents are alive, what they offer, how they are connected",
	.commands = commands,
	.settings = settings_table,
};
