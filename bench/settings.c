/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/settings.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "bench/ctrl/ctrl.h"
#include "bench/agents/discovery.h"
#include "bench/page/page.h"
#include "bench/routes/routes.h"
#include "bench/service/job.h"
#include "bench/rpc/sweep.h"
#include "bench/transfer/transfer.h"
#include "peeragent/lib/control/ctrl.h"
#include "peeragent/lib/plan/topology.h"

static const char *const transports[] = { "any", "shm", "tcp", "rdma", NULL };
static const char *const pollings[] = { "adaptive", "busy", "event", NULL };
static const char *const ops[] = { "read", "write", "write_imm", NULL };

/* In the order of enum system, from the one after ourselves on. */
static const char *const baselines[] = { "ray", "pulsing", "zeromq", "grpc", NULL };

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

/* Not a wildcard: agents are told of it. */
static const char *check_address(const char *text)
{
	static const char expected[] = "a numeric address of this host, as 10.0.0.1";
	struct in6_addr in6;
	struct in_addr in;

	if (inet_pton(AF_INET, text, &in) == 1)
		return in.s_addr == htonl(INADDR_ANY) ? expected : NULL;
	if (inet_pton(AF_INET6, text, &in6) == 1)
		return IN6_IS_ADDR_UNSPECIFIED(&in6) ? expected : NULL;
	return expected;
}

/* ---- the file ---- */

static const struct cli_setting control_table[] = {
	CLI_STRINGS(struct control_settings, urls, n_urls, "urls", .def = "http://127.0.0.1:3000",
		    .check = check_url, .help = "URLs of nanoctrl's replicas, tried in turn"),
	CLI_STRING(struct control_settings, token_file, "token_file",
		   .help = "file with the bearer token for nanoctrl, readable by its owner only"),
	CLI_STRING(
		struct control_settings, discovery_addr, "discovery_addr", .check = discovery_check,
		.help = "page and transfer: find each other at this ADDRESS:PORT, without a control "
			"plane: the first page serve or transfer target runs one there, which ends with "
			"it and serves every client that reaches it"),
	CLI_END,
};

static const struct cli_setting between_table[] = {
	CLI_STRING(struct between_settings, scope, "scope", .def = "default", .check = check_scope,
		   .help = "the agents' scope"),
	CLI_STRING(struct between_settings, from, "from", .check = check_name,
		   .help = "agent that initiates, with its bench service; absent: an agent in this "
			   "process for the time of the measurement"),
	CLI_STRINGS(
		struct between_settings, peers, n_peers, "peers", .def = "", .check = check_name,
		.help = "agent at the other end; of transfer also several, measured at once, each "
			"from a process of its own"),
	CLI_ENUM(struct between_settings, transport, "transport", transports, .def = "any",
		 .help = "transport of the link between the two"),
	CLI_ENUM(struct between_settings, polling, "polling", pollings, .def = "adaptive",
		 .help = "polling of the agent in this process"),
	CLI_STRING(
		struct between_settings, tcp_bind, "tcp_bind", .def = "127.0.0.1",
		.check = check_address,
		.help = "address of this host on which the agent in this process listens for tcp"),
	CLI_STRING(
		struct between_settings, devices, "devices",
		.help = "RDMA devices of the agent in this process, as rails: mlx5_0,mlx5_1:2, or "
			"all; absent: the first that can be used"),
	CLI_INT(struct between_settings, max_channels, "max_channels", .def = "0", .min = 0,
		.max = 16,
		.help = "channels to a peer: queue pairs of a rail, at most 8, or streams of tcp; 0: 1 "
			"queue pair, 4 streams"),
	CLI_INT(struct between_settings, threads, "threads", .def = "1", .min = 1,
		.max = LOAD_THREADS_MAX, .help = "threads that initiate"),
	CLI_END,
};

static const struct cli_setting rpc_table[] = {
	CLI_SIZES(struct rpc_settings, sizes, n_sizes, "sizes",
		  .def = "1KiB,4KiB,16KiB,64KiB,256KiB,1MiB,4MiB,16MiB,64MiB", .min = 8,
		  .max = LOAD_CALL_MAX, .help = "sizes of request and reply, one row each"),
	CLI_INT(struct rpc_settings, iterations, "iterations", .def = "0", .min = 0,
		.max = LOAD_CALLS_MAX,
		.help = "measured calls for each thread and size; 0: 50 MB, at least 50 and at "
			"most 500 calls"),
	CLI_DURATION_MS(
		struct rpc_settings, duration_ms, "duration", .def = "0", .min = 0,
		.max = LOAD_DURATION_MAX_MS,
		.help = "measure each size for this time instead; with iterations, until the "
			"first limit"),
	CLI_INT(struct rpc_settings, inflight, "inflight", .def = "1", .min = 1,
		.max = LOAD_INFLIGHT_MAX, .help = "calls in flight for each thread"),
	CLI_STRING(struct rpc_settings, results, "results",
		   .help = "directory for the figures as CSV, one file for each system"),
	CLI_ENUMS(struct rpc_settings, baselines, n_baselines, "baselines", baselines, .def = "",
		  .help = "other libraries that make the same calls afterwards, into the results"),
	CLI_STRING(struct rpc_settings, programs, "programs",
		   .help = "directory of their programs, such as baseline-ray; default is that of "
			   "the build"),
	CLI_END,
};

static const struct cli_setting transfer_table[] = {
	CLI_ENUM(struct transfer_settings, op, "op", ops, .def = "read",
		 .help = "direction of the bytes"),
	CLI_STRING(struct transfer_settings, region, "region", .check = check_name,
		   .help = "the peer's region; absent: the one that its bench service offers for "
			   "this"),
	CLI_FLAG(struct transfer_settings, overwrite, "overwrite", .def = "false",
		 .help = "allow writing to a region that is not for measurements"),
	CLI_SIZES(struct transfer_settings, block_sizes, n_block_sizes, "block_sizes",
		  .def = "128KiB", .min = 8, .max = INT64_C(1) << 34,
		  .help = "bytes of a block, multiples of 8; one row each"),
	CLI_INT(struct transfer_settings, batch_size, "batch_size", .def = "32", .min = 1,
		.max = LOAD_BATCH_MAX, .help = "blocks of a trip"),
	CLI_DURATION_MS(struct transfer_settings, duration_ms, "duration", .def = "3s", .min = 1,
			.max = LOAD_DURATION_MAX_MS, .help = "duration of the measurement"),
	CLI_INT(struct transfer_settings, qps, "qps", .def = "0", .min = 0, .max = 100000000,
		.help = "trips per second (open loop: latency counts from the planned start); 0: "
			"without a pause"),
	CLI_INT(struct transfer_settings, processes, "processes", .def = "1", .min = 1, .max = 64,
		.help = "processes for each peer that measure at the same time, each with these "
			"threads; their figures are summed"),
	CLI_INT(struct transfer_settings, targets, "targets", .def = "1", .min = 1,
		.max = TRANSFER_PEERS_MAX,
		.help = "with a discovery address and no peers: targets to wait for, and to use"),
	CLI_SIZE(struct transfer_settings, size, "size", .def = "64MiB", .min = 4096,
		 .max = INT64_C(1) << 40,
		 .help = "target: bytes of each of its two regions, a multiple of 4KiB"),
	CLI_END,
};

static const struct cli_setting ctrl_table[] = {
	CLI_ENUMS(struct ctrl_settings, ops, n_ops, "ops", ctrl_op_names,
		  .def = "register,heartbeat,lookup,rendezvous,crash",
		  .help = "operations to measure; always in this order"),
	CLI_INT(struct ctrl_settings, agents, "agents", .def = "16", .min = 2,
		.max = CTRL_AGENTS_MAX, .help = "simulated agents, each with its own connections"),
	CLI_DURATION_MS(struct ctrl_settings, duration_ms, "duration", .def = "2s", .min = 1,
			.max = LOAD_DURATION_MAX_MS,
			.help = "duration of register, heartbeat, lookup and hold"),
	CLI_INT(struct ctrl_settings, rate, "rate", .def = "0", .min = 0, .max = 1000000,
		.help = "operations per second of all agents (open loop: latency counts from the "
			"planned start); 0: each agent begins one when its last one ended"),
	CLI_INT(struct ctrl_settings, killed, "kill", .def = "1", .min = 1,
		.max = CTRL_AGENTS_MAX - 1, .help = "agents that crash"),
	CLI_INT(struct ctrl_settings, regions, "regions", .def = "0", .min = 0, .max = 500,
		.help = "regions that each of those agents has published"),
	CLI_INT(struct ctrl_settings, links, "links", .def = "0", .min = 0, .max = 500,
		.help = "links that each of those agents has reported, with an offer to the "
			"peer; fewer than there are agents"),
	CLI_INT(struct ctrl_settings, inflight, "inflight", .def = "0", .min = 0, .max = 1000,
		.help = "pairs of a rendezvous in progress at once; 0: four for each agent"),
	CLI_STRING(
		struct ctrl_settings, baseline, "baseline", .check = check_url,
		.help = "URL of a server of DLSlime's NanoCtrl, or of another nanoctrl: call "
			"their common routes in turn, from --agents connections; instead of ops"),
	CLI_END,
};

static const struct cli_setting page_table[] = {
	CLI_ENUM(struct page_settings, op, "op", page_op_names, .def = "get",
		 .help = "operation of the batches; mixed: a tenth of them are puts"),
	CLI_ENUM(struct page_settings, layout, "layout", page_layout_names, .def = "mla",
		 .help = "mla: one object for each page; mha: two"),
	CLI_SIZE(struct page_settings, page_size, "page_size", .def = "128KiB", .min = 64,
		 .max = INT64_C(1) << 30, .help = "bytes of an object"),
	CLI_INT(struct page_settings, working_set, "working_set", .def = "4096", .min = 1,
		.max = 100000000, .help = "pages that are put first, the same for serve and drive"),
	CLI_SIZE(struct page_settings, memory, "memory", .def = "0", .min = 0,
		 .max = INT64_C(1) << 44,
		 .help = "serve: memory for pages; 0: 1.3 times the working set"),
	CLI_INT(struct page_settings, batch_size, "batch_size", .def = "32", .min = 1, .max = 65536,
		.help = "pages of a batch"),
	CLI_SIZES(struct page_settings, concurrencies, n_concurrencies, "concurrencies",
		  .def = "1,2,4", .min = 1, .max = PAGE_THREADS_MAX,
		  .help = "threads, each with a batch in flight; one row for each number"),
	CLI_DURATION_MS(struct page_settings, duration_ms, "duration", .def = "10s", .min = 1,
			.max = LOAD_DURATION_MAX_MS, .help = "duration of each measurement"),
	CLI_DURATION_MS(struct page_settings, warmup_ms, "warmup", .def = "2s", .min = 0,
			.max = LOAD_DURATION_MAX_MS, .help = "duration of its warm-up"),
	CLI_DURATION_MS(struct page_settings, dir_cache_ttl_ms, "dir_cache_ttl", .def = "1s",
			.min = 0, .max = 3600000,
			.help = "how long a reader uses a place from an owner; 0: once"),
	CLI_ENUM(struct page_settings, verify, "verify", page_verify_names, .def = "always",
		 .help = "pages whose checksums the reader computes"),
	CLI_FLAG(struct page_settings, check_all, "check_all", .def = "false",
		 .help = "compare every byte of every page with the bytes that were put, outside "
			 "the measurement"),
	CLI_INT(struct page_settings, hit_percent, "hit_rate", .def = "100", .min = 0, .max = 100,
		.help = "percentage of keys that exist"),
	CLI_INT(struct page_settings, owners, "owners", .def = "1", .min = 1, .max = 256,
		.help = "number of owners to wait for"),
	CLI_INT(struct page_settings, replicas, "replicas", .def = "1", .min = 1, .max = 8,
		.help = "number of owners that get each page"),
	CLI_INT(struct page_settings, processes, "processes", .def = "1", .min = 1, .max = 64,
		.help = "drive: processes that measure at the same time, each with these threads; their "
			"figures are summed"),
	CLI_INT(struct page_settings, readers, "readers", .def = "0", .min = 0, .max = 1024,
		.help = "drive: begin to measure when so many reading processes of all hosts are in the "
			"scope; 0: do not wait for others"),
	CLI_FLAG(
		struct page_settings, machine, "machine", .def = "false",
		.help = "drive: so many processes for each RDMA device of the host, or of devices, on the "
			"CPUs of its NUMA node; a row for each, and one for all"),
	CLI_STRING(struct page_settings, tenant, "tenant", .def = "default", .check = check_name,
		   .help = "tenant of the pages"),
	CLI_FLAG(struct page_settings, gpu, "gpu", .def = "false",
		 .help = "read into memory of a GPU"),
	CLI_END,
};

static const struct cli_setting settings_table[] = {
	CLI_INT(struct settings, version, "version", .def = "1", .min = 1, .max = 1,
		.help = "version of the file format"),
	CLI_MAP(struct settings, control, "control", control_table, .help = "the control plane"),
	CLI_MAP(struct settings, between, "between", between_table,
		.help = "the agents and their link"),
	CLI_MAP(struct settings, rpc, "rpc", rpc_table, .help = "measurements of the command rpc"),
	CLI_MAP(struct settings, transfer, "transfer", transfer_table,
		.help = "measurements of the command transfer"),
	CLI_MAP(struct settings, ctrl, "ctrl", ctrl_table,
		.help = "measurements of the command ctrl"),
	CLI_MAP(struct settings, page, "page", page_table,
		.help = "pages and measurements of the command page"),
	CLI_END,
};

/* ---- the command line ---- */

static const struct cli_setting control_options[] = {
	CLI_STRING(struct options, config, "config", .letter = 'c', .value = "FILE",
		   .help = "configuration file, such as configs/bench.yaml"),
	CLI_SET,
	CLI_KEY("ctrl", "control.urls", .value = "URL", .env = "SLIME_CTRL",
		.help = "URL of nanoctrl; repeat it for several replicas"),
	CLI_KEY("token-file", "control.token_file", .value = "FILE"),
	CLI_KEY("scope", "between.scope"),
	CLI_FLAG(struct options, json, "json", .help = "print JSON"),
	CLI_FLAG(struct options, csv, "csv", .help = "print CSV"),
	CLI_END,
};

static const struct cli_setting between_options[] = {
	CLI_KEY("peer", "between.peers", .value = "AGENT"),
	CLI_KEY("from", "between.from", .value = "AGENT"),
	CLI_KEY("transport", "between.transport"),
	CLI_KEY("polling", "between.polling"),
	CLI_KEY("tcp-bind", "between.tcp_bind", .value = "ADDRESS"),
	CLI_KEY("device", "between.devices", .value = "DEVICE,..."),
	CLI_KEY("qp", "between.max_channels"),
	CLI_KEY("threads", "between.threads"),
	CLI_END,
};

static const struct cli_setting rpc_options[] = {
	CLI_KEY("sizes", "rpc.sizes"),
	CLI_KEY("iterations", "rpc.iterations"),
	CLI_KEY("duration", "rpc.duration"),
	CLI_KEY("inflight", "rpc.inflight"),
	CLI_KEY("baseline", "rpc.baselines", .value = "NAME,..."),
	CLI_KEY("results", "rpc.results", .value = "DIR"),
	CLI_END,
};

static const struct cli_setting transfer_options[] = {
	CLI_KEY("op", "transfer.op"),
	CLI_KEY("region", "transfer.region", .value = "NAME"),
	CLI_KEY("overwrite", "transfer.overwrite"),
	CLI_KEY("block-size", "transfer.block_sizes"),
	CLI_KEY("batch-size", "transfer.batch_size"),
	CLI_KEY("duration", "transfer.duration"),
	CLI_KEY("qps", "transfer.qps"),
	CLI_KEY("processes", "transfer.processes"),
	CLI_KEY("discovery-addr", "control.discovery_addr", .value = "ADDRESS:PORT"),
	CLI_KEY("targets", "transfer.targets"),
	CLI_KEY("size", "transfer.size"),
	CLI_END,
};

static const struct cli_setting ctrl_options[] = {
	CLI_KEY("ops", "ctrl.ops"),
	CLI_KEY("agents", "ctrl.agents"),
	CLI_KEY("duration", "ctrl.duration"),
	CLI_KEY("rate", "ctrl.rate"),
	CLI_KEY("kill", "ctrl.kill"),
	CLI_KEY("regions", "ctrl.regions"),
	CLI_KEY("links", "ctrl.links"),
	CLI_KEY("inflight", "ctrl.inflight"),
	CLI_KEY("baseline", "ctrl.baseline", .value = "URL"),
	CLI_END,
};

static const struct cli_setting page_options[] = {
	CLI_KEY("transport", "between.transport"),
	CLI_KEY("polling", "between.polling"),
	CLI_KEY("tcp-bind", "between.tcp_bind", .value = "ADDRESS"),
	CLI_KEY("devices", "between.devices", .value = "DEVICE,..."),
	CLI_KEY("max-channels", "between.max_channels"),
	CLI_KEY("processes", "page.processes"),
	CLI_KEY("readers", "page.readers"),
	CLI_KEY("machine", "page.machine"),
	CLI_KEY("discovery-addr", "control.discovery_addr", .value = "ADDRESS:PORT"),
	CLI_KEY("op", "page.op"),
	CLI_KEY("layout", "page.layout"),
	CLI_KEY("page-size", "page.page_size"),
	CLI_KEY("working-set", "page.working_set"),
	CLI_KEY("memory", "page.memory"),
	CLI_KEY("batch-size", "page.batch_size"),
	CLI_KEY("concurrencies", "page.concurrencies"),
	CLI_KEY("duration", "page.duration"),
	CLI_KEY("warmup", "page.warmup"),
	CLI_KEY("dir-cache-ttl", "page.dir_cache_ttl"),
	CLI_KEY("verify", "page.verify"),
	CLI_KEY("check-all", "page.check_all"),
	CLI_KEY("hit-rate", "page.hit_rate"),
	CLI_KEY("owners", "page.owners"),
	CLI_KEY("replicas", "page.replicas"),
	CLI_KEY("tenant", "page.tenant"),
	CLI_KEY("gpu", "page.gpu"),
	CLI_END,
};

static const struct cli_setting compare_options[] = {
	CLI_FLAG(struct options, csv, "csv", .help = "print CSV"),
	CLI_END,
};

static const struct cli_setting plot_options[] = { CLI_END };

static const struct cli_setting rnr_options[] = {
	CLI_FLAG(struct options, watch, "watch",
		 .help = "print the counters that grew, every INTERVAL, until COUNT samples or "
			 "Ctrl-C"),
	CLI_FLAG(struct options, json, "json", .help = "print JSON, a line for each sample"),
	CLI_STRING(struct options, sysfs, "sysfs", .value = "DIR",
		   .help = "read counters from this directory instead of /sys: for tests"),
	CLI_END,
};

static const struct cli_command commands[] = {
	{
		.name = "rpc",
		.summary = "echo calls of growing size",
		.text = "Every reply is compared with its request. Closed loop: a call begins when the one before it "
			"ended, so latencies tell nothing of queueing.",
		.tables = { control_options, between_options, rpc_options },
	},
	{
		.name = "transfer",
		.summary = "one-sided reads or writes",
		.text = "Trips walk over the whole region, so its bytes come from memory when it is larger than the "
			"caches. The bytes of the first places are checked after the measurement. With several "
			"--peer there is a row for each, and one for all. transfer target is an agent to "
			"measure with: with --discovery-addr it takes no control plane.",
		.operands = "[target]",
		.max_operands = 1,
		.tables = { control_options, between_options, transfer_options },
	},
	{
		.name = "ctrl",
		.summary =
			"the control plane: registrations, heartbeats, lookups, rendezvous, a crash",
		.text = "Simulated agents, named bench-HOST-PID-TAG-N, over HTTP to nanoctrl; the data path has no part. "
			"rendezvous: every two agents exchange what a connection needs, each told by an event of "
			"the other's offer; event: from such a post to its event. hold: agents in sessions live on "
			"and beat, for whoever watches nanoctrl meanwhile; thousands by several of these at once, each "
			"with a --scope. crash: some agents die, and the others hear of it when the leases end. All "
			"leave at the end, and on Ctrl-C.",
		.tables = { control_options, ctrl_options },
	},
	{
		.name = "page",
		.summary =
			"a store of pages: serve is an owner, drive its readers, judge looks for wrong bytes",
		.text = "drive puts the working set at the owners that it finds (slime-bench page serve, and agents with "
			"the service pages), then reads batches of it. Latencies are of a batch. Every page that "
			"comes is looked at, at both ends, and one of each batch wholly. judge starts --owners owners "
			"by itself, with memory for half of the working set, rewrites and deletes pages beside the "
			"readers (as many as the last of --concurrencies), compares every byte, and after a third of "
			"the time begins to kill owners; its exit status is 1 when a page was wrong.",
		.operands = "serve|drive|judge",
		.min_operands = 1,
		.max_operands = 1,
		.tables = { control_options, page_options },
	},
	{
		.name = "compare",
		.summary = "print the figures of --results side by side",
		.text = "S/Ray and the like are theirs divided by ours, for bandwidth ours by theirs: above 1 we win.",
		.operands = "DIR",
		.min_operands = 1,
		.max_operands = 1,
		.tables = { compare_options },
	},
	{
		.name = "plot",
		.summary = "draw the figures of --results",
		.text = "Into rpc.png and rpc.svg of that directory: latency and bandwidth against size, of what rpc --results left. Into page.png and page.svg: threads, page sizes and latencies, of page*.json, which page drive --json printed. Needs gnuplot.",
		.operands = "DIR",
		.min_operands = 1,
		.max_operands = 1,
		.tables = { plot_options },
	},
	{
		.name = "rnr",
		.summary = "counters of trouble that RDMA ports keep",
		.text = "Receivers that were not ready, packets sent again, congestion, errors: what devices repair "
			"by themselves, and only costs time. INTERVAL, as 500ms, is a second when absent.",
		.operands = "[INTERVAL [COUNT]]",
		.max_operands = 2,
		.tables = { rnr_options },
	},
	{ .name = NULL },
};

const struct cli_program bench_program = {
	.name = "slime-bench",
	.summary = "measures calls and transfers between agents",
	.commands = commands,
	.settings = settings_table,
};

/* ---- what the tables cannot say ---- */

static void check_between(struct cli_config *config, const struct between_settings *b)
{
	for (size_t i = 0; i < b->n_peers; i++) {
		if (b->from && !strcmp(b->from, b->peers[i]))
			cli_config_refuse(config, "between.from",
					  "expected another agent than the peer");
		for (size_t k = 0; k < i; k++)
			if (!strcmp(b->peers[i], b->peers[k]))
				cli_config_refuse(config, "between.peers",
						  "expected each agent once");
	}
}

/* What is compared is one call at a time, so many of them. */
static void check_rpc(struct cli_config *config, const struct settings *s)
{
	const struct rpc_settings *r = &s->rpc;

	if (!r->n_sizes)
		cli_config_refuse(config, "rpc.sizes", "expected at least one size");
	if (r->results && r->n_sizes > SWEEP_MAX_POINTS)
		cli_config_refuse(config, "rpc.sizes", "expected at most %d sizes with --results",
				  SWEEP_MAX_POINTS);
	for (size_t i = 1; i < r->n_sizes && r->results; i++) {
		if (r->sizes[i] <= r->sizes[i - 1]) {
			cli_config_refuse(config, "rpc.sizes",
					  "expected growing sizes with --results");
			break;
		}
	}
	if (!r->n_baselines)
		return;
	if (!r->results)
		cli_config_refuse(config, "rpc.baselines",
				  "expected a directory for the figures, too: --results DIR");
	if (r->duration_ms)
		cli_config_refuse(config, "rpc.duration",
				  "expected none: baselines are measured by --iterations");
	if (r->inflight != 1)
		cli_config_refuse(config, "rpc.inflight",
				  "expected 1: baselines have one call in flight");
	if (s->between.threads != 1)
		cli_config_refuse(config, "between.threads",
				  "expected 1: baselines have one call in flight");
}

static void check_transfer(struct cli_config *config, const struct settings *s)
{
	const struct transfer_settings *t = &s->transfer;

	if (!t->n_block_sizes || t->n_block_sizes > TRANSFER_SIZES_MAX)
		cli_config_refuse(config, "transfer.block_sizes", "expected 1 to %d sizes",
				  TRANSFER_SIZES_MAX);
	for (size_t i = 0; i < t->n_block_sizes; i++) {
		if (t->block_sizes[i] % 8) {
			cli_config_refuse(config, "transfer.block_sizes",
					  "expected multiples of 8");
			break;
		}
	}
	if (t->size % 4096)
		cli_config_refuse(config, "transfer.size", "expected a multiple of 4KiB");
	if (s->between.n_peers > TRANSFER_PEERS_MAX)
		cli_config_refuse(config, "between.peers", "expected at most %d agents",
				  TRANSFER_PEERS_MAX);
	if (s->between.from && (s->between.n_peers > 1 || t->processes > 1))
		cli_config_refuse(config, "between.from",
				  "expected none with several peers or processes: they initiate");
	if (t->op != LOAD_READ && t->region && !t->overwrite)
		cli_config_refuse(
			config, "transfer.region",
			"writing to region %s destroys what it holds: say --overwrite to allow it",
			t->region);
	if (t->op != LOAD_READ && !t->region && t->processes > 1)
		cli_config_refuse(config, "transfer.processes",
				  "expected 1 to write: one agent at a time writes to the bench "
				  "region of a peer");
}

static void check_ctrl(struct cli_config *config, const struct ctrl_settings *c)
{
	if (!c->n_ops)
		cli_config_refuse(config, "ctrl.ops", "expected at least one");
	if (c->baseline) {
		if (c->agents > ROUTES_CALLERS_MAX)
			cli_config_refuse(config, "ctrl.agents",
					  "expected at most %d agents with a baseline",
					  ROUTES_CALLERS_MAX);
		return;
	}
	for (size_t i = 0; i < c->n_ops; i++) {
		if ((c->ops[i] == CTRL_RENDEZVOUS || c->ops[i] == CTRL_TOPOLOGY) &&
		    c->agents > CTRL_MESH_MAX)
			cli_config_refuse(config, "ctrl.agents",
					  "expected at most %d agents for a rendezvous",
					  CTRL_MESH_MAX);
		if (c->ops[i] == CTRL_CRASH && c->killed >= c->agents)
			cli_config_refuse(config, "ctrl.kill",
					  "expected fewer than there are agents");
	}
	if (c->links >= c->agents)
		cli_config_refuse(config, "ctrl.links", "expected fewer than there are agents");
}

static void check_page(struct cli_config *config, const struct page_settings *p)
{
	if (!p->n_concurrencies || p->n_concurrencies > PAGE_RUNGS_MAX)
		cli_config_refuse(config, "page.concurrencies", "expected 1 to %d numbers",
				  PAGE_RUNGS_MAX);
	if (p->page_size % 8)
		cli_config_refuse(config, "page.page_size", "expected a multiple of 8");
	if (p->gpu)
		cli_config_refuse(
			config, "page.gpu",
			"reading into a GPU's memory needs an RDMA device and a GPU that it reaches: "
			"this build reads into memory of the host alone");
}

static void check_for(struct cli_config *config, const char *command, const struct settings *s)
{
	if (!strcmp(command, "page")) {
		check_page(config, &s->page);
		return;
	}
	if (!strcmp(command, "ctrl")) {
		check_ctrl(config, &s->ctrl);
		return;
	}
	check_between(config, &s->between);
	if (!strcmp(command, "transfer"))
		check_transfer(config, s);
	else
		check_rpc(config, s);
}

/* Whether it is said with whom the command measures. */
static bool check_peers(const struct cli_args *args, const struct settings *s)
{
	bool calls = !strcmp(args->command->name, "rpc");
	bool finds = !strcmp(args->command->name, "transfer") &&
		     (args->n_operands || s->control.discovery_addr);

	if (calls && s->between.n_peers > 1)
		cli_usage_error(&bench_program, "rpc: expected one --peer");
	else if ((calls || !strcmp(args->command->name, "transfer")) && !s->between.n_peers &&
		 !finds)
		cli_usage_error(&bench_program,
				"expected the agent at the other end: --peer, or between.peers");
	else
		return true;
	return false;
}

int settings_read(struct cli_config *config, const struct options *options,
		  const struct cli_args *args, struct settings *out)
{
	int ret = options->config ? cli_config_load(config, options->config) : 0;

	if (ret != -ENOMEM)
		ret = cli_config_apply(config, args);
	if (ret != -ENOMEM)
		ret = cli_config_read(config, settings_table, out);
	if (ret == -ENOMEM)
		return ret;
	if (!cli_config_n_errors(config) && !check_peers(args, out))
		return -EINVAL;
	if (!cli_config_n_errors(config))
		check_for(config, args->command->name, out);
	if (!cli_config_n_errors(config))
		return 0;
	cli_config_print_errors(config, stderr);
	return -EINVAL;
}
