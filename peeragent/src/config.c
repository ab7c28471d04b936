/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/src/config.h"

#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bandwidth.h"
#include "cli/process/logsink.h"
#include "cli/options/secret.h"
#include "cli/process/manager.h"
#include "peeragent/lib/control/ctrl.h"
#include "peeragent/lib/plan/topology.h"

#define TOKEN_MAX   4096
#define ADDRESS_MAX 253

/* ---- the tables ---- */

static const char *const transport_words[] = { "shm", "rdma", "tcp", NULL };
static const enum slime_transport transport_values[] = { SLIME_TRANSPORT_SHM, SLIME_TRANSPORT_RDMA,
							 SLIME_TRANSPORT_TCP };
static const char *const polling_words[] = { "adaptive", "busy", "event", NULL };
/* In the order of enum slime_foreign. */
static const char *const foreign_words[] = { "auto", "require", "off", NULL };
static const char *const backing_words[] = { "memfd", "cuda", NULL };
static const char *const huge_words[] = { "auto", "off", "2MiB", "1GiB", NULL };
static const char *const numa_words[] = { "any", "local", NULL };
static const char *const cpu_words[] = { "any", NULL };
static const char *const access_words[] = { "read", "write", NULL };

static const char *check_listen(const char *text)
{
	char host[64];
	uint16_t port;

	return config_split_listen(text, host, sizeof(host), &port)
		       ? "ADDRESS:PORT, as 127.0.0.1:9464"
		       : NULL;
}

static const char *check_ports(const char *text)
{
	uint16_t first, last;

	return config_split_ports(text, &first, &last)
		       ? "a port from 0 to 65535, or a range as 47000-47099"
		       : NULL;
}

static const char *check_name(const char *text)
{
	return topology_is_name(text, SLIME_AGENT_NAME_MAX)
		       ? NULL
		       : "a name: 1 to 253 of letters, digits and ._:@-, not . or ..";
}

static const char *check_address(const char *text)
{
	return strlen(text) <= ADDRESS_MAX ? NULL : "at most 253 bytes";
}

static const char *check_scope(const char *text)
{
	return topology_is_scope(text)
		       ? NULL
		       : "a scope: 1 to 253 of letters, digits and ._@-, not a reserved word";
}

static const char *check_url(const char *text)
{
	return ctrl_is_url(text) ? NULL : "the URL of nanoctrl, as http://127.0.0.1:3000";
}

static const struct cli_setting agent_settings[] = {
	CLI_STRING(struct node_agent, name, "name", .check = check_name,
		   .help = "the agent's name, unique in its scope; default is the host's name"),
	CLI_STRING(struct node_agent, scope, "scope", .def = "default", .check = check_scope,
		   .help = "agents of different scopes do not see each other"),
	CLI_STRING(struct node_agent, address, "address", .check = check_address,
		   .help = "address that peers and people see; default is the host's name"),
	CLI_STRING(
		struct node_agent, state_dir, "state_dir",
		.help = "directory of the owner key, with which a restarted agent takes its name "
			"over at once; default $STATE_DIRECTORY; without it an agent that was "
			"killed waits until its former lease has ended"),
	CLI_PAIRS(struct node_agent, labels, n_labels, "labels",
		  .help = "labels that selectors of links and regions match"),
	CLI_END,
};

static const struct cli_setting control_settings[] = {
	CLI_STRING(struct node_control, url, "url", .check = check_url,
		   .help = "URL of nanoctrl, such as http://127.0.0.1:3000"),
	CLI_STRINGS(struct node_control, urls, n_urls, "urls", .check = check_url,
		    .help = "URLs of nanoctrl's replicas, tried in turn; instead of url"),
	CLI_STRING(struct node_control, token_file, "token_file",
		   .help = "file with the bearer token, readable by its owner only"),
	CLI_DURATION_MS(struct node_control, snapshots_ms, "snapshots", .def = "10s", .min = 0,
			.max = 3600000,
			.help = "interval of the snapshots that the agent sends to nanoctrl, for "
				"nanoctrl obs; 0 is never"),
	CLI_END,
};

/* As slime_context_attr has them. */
static const char *check_users(const char *text)
{
	while (*text) {
		char *end;

		if (*text < '0' || *text > '9' || strtoull(text, &end, 10) >= UINT32_MAX ||
		    (*end && (*end != ',' || !end[1])))
			return "not numbers of users with commas between them, such as 1000,1001";
		text = *end ? end + 1 : end;
	}
	return NULL;
}

static const struct cli_setting shm_settings[] = {
	CLI_ENUM(struct node_shm, foreign_memory, "foreign_memory", foreign_words, .def = "auto",
		 .help = "access over shm to regions of services whose memory is not a memfd, "
			 "such as memory of their own allocators: auto uses it between processes "
			 "of one user if the kernel allows it; require does not use shm if it "
			 "does not work; off never uses it"),
	CLI_STRING(struct node_shm, users, "users", .check = check_users,
		   .help = "other users whose agents may be peers over shm, by number: 1000,1001; "
			   "both ends name the other's"),
	CLI_END,
};

static const struct cli_setting tcp_settings[] = {
	CLI_STRING(
		struct node_tcp, bind, "bind", .def = "127.0.0.1",
		.help = "numeric address to listen on; or an interface, such as eth0, or a "
			"network, such as 10.0.0.0/8, for the address that this host has there; "
			"\"\" for none: then a link whose other end connects first does not come "
			"up"),
	CLI_STRING(struct node_tcp, port, "port", .def = "0", .check = check_ports,
		   .help = "port to listen on, or a range such as 47000-47099, whose first free "
			   "port is used; 0 uses any free port"),
	CLI_STRING(struct node_tcp, advertise, "advertise",
		   .help = "numeric address that peers connect to; needed when bind is a wildcard"),
	CLI_INT(struct node_tcp, streams, "streams", .def = "4", .min = 1, .max = 16,
		.help = "number of streams of a link"),
	CLI_DURATION_MS(struct node_tcp, user_timeout_ms, "user_timeout", .def = "2s", .min = 100,
			.max = 600000,
			.help = "a peer that acknowledges nothing for this time is dead"),
	CLI_END,
};

static const struct cli_setting data_settings[] = {
	CLI_ENUMS(struct node_data, transports, n_transports, "transports", transport_words,
		  .def = "shm,rdma,tcp",
		  .help = "transports of links that name none, in order of preference"),
	CLI_ENUM(struct node_data, polling, "polling", polling_words, .def = "adaptive",
		 .help = "what the progress thread does without work: adaptive polls for a while "
			 "and then sleeps, busy polls, event sleeps"),
	CLI_INT(struct node_data, cpu, "cpu", .words = cpu_words, .def = "any", .min = 0,
		.max = 4095, .help = "CPU of the progress thread"),
	CLI_DURATION_MS(struct node_data, connect_timeout_ms, "connect_timeout", .def = "5s",
			.min = 100, .max = 600000,
			.help = "time for one attempt to connect a link"),
	CLI_DURATION_MS(struct node_data, retry_min_ms, "retry_min", .def = "100ms", .min = 10,
			.max = 600000, .help = "first wait before another attempt"),
	CLI_DURATION_MS(struct node_data, retry_max_ms, "retry_max", .def = "5s", .min = 10,
			.max = 600000, .help = "longest wait: the waits double up to this"),
	CLI_INT(struct node_data, max_links, "max_links", .def = "1024", .min = 1, .max = 65536,
		.help = "most links at one time, including those that peers ask for"),
	CLI_INT(struct node_data, workers, "workers", .def = "1", .min = 1, .max = 256,
		.help = "threads for RPC handlers that may block; a service such as bench adds "
			"its own threads for long work"),
	CLI_STRING(
		struct node_data, max_bandwidth, "max_bandwidth", .check = config_expects_bandwidth,
		.help = "most that the agent's own reads and writes move over all links together, "
			"such as 10Gbps; what is above waits; absent: no cap"),
	CLI_MAP(struct node_data, shm, "shm", shm_settings, .help = "the shared-memory transport"),
	CLI_MAP(struct node_data, rdma, "rdma", rdma_settings, .help = "the RDMA transport"),
	CLI_MAP(struct node_data, tcp, "tcp", tcp_settings, .help = "the TCP transport"),
	CLI_END,
};

static const struct cli_setting region_settings[] = {
	CLI_STRING(struct node_region, name, "name", .required = true,
		   .help = "name of the region"),
	CLI_SIZE(struct node_region, size, "size", .required = true, .min = 1,
		 .max = INT64_C(1) << 46, .help = "length of the region"),
	CLI_ENUM(struct node_region, backing, "backing", backing_words, .def = "memfd",
		 .help = "kind of the memory: memfd is memory of this host, cuda is memory of a "
			 "GPU, which moves over rdma only"),
	CLI_STRING(struct node_region, gpu, "gpu",
		   .help = "with cuda: PCI address of the GPU, as slime devices shows it: "
			   "0000:17:00.0"),
	CLI_FLAG(struct node_region, on_demand, "on_demand", .def = "false",
		 .help = "do not lock the pages: the RDMA devices ask for each page, and have to "
			 "support this"),
	CLI_ENUM(struct node_region, huge_pages, "huge_pages", huge_words, .def = "auto",
		 .help = "auto uses huge pages if there are enough, a size requires them"),
	CLI_INT(struct node_region, numa, "numa", .words = numa_words, .def = "any", .min = 0,
		.max = 1023,
		.help = "NUMA node of the memory; local is the node of the CPU at the start"),
	CLI_ENUMS(struct node_region, access, n_access, "access", access_words, .def = "read",
		  .help = "access of peers"),
	CLI_STRINGS(
		struct node_region, allow, n_allow, "allow",
		.help = "peers that may use it: label=value or name=AGENT, one match is enough; "
			"absent: every agent of the scope; [] is refused"),
	CLI_END,
};

static const char *const qps_words[] = { "auto", NULL };
static const char *const rails_words[] = { "all", NULL };

static const struct cli_setting link_settings[] = {
	CLI_STRING(struct node_link, to, "to", .required = true,
		   .help = "an agent's name, or labels that all match, such as role=decode"),
	CLI_STRING(struct node_link, profile, "profile", .def = "default",
		   .help = "distinguishes links between the same two agents"),
	CLI_ENUMS(struct node_link, transports, n_transports, "transports", transport_words,
		  .help = "allowed transports in order of preference; absent: data.transports"),
	CLI_INT(struct node_link, qps, "qps", .words = qps_words, .def = "auto", .min = 1, .max = 8,
		.help = "over rdma, queue pairs of each rail: of two agents the smaller number "
			"counts; auto: data.rdma.qps_per_rail"),
	CLI_INT(struct node_link, rails, "rails", .words = rails_words, .def = "all", .min = 1,
		.max = SLIME_RAILS_MAX,
		.help = "over rdma, at most so many rails: of two agents the smaller number "
			"counts"),
	CLI_STRINGS(struct node_link, devices, n_devices, "devices", .check = config_expects_port,
		    .help = "over rdma, the ports of data.rdma.devices that this link uses; "
			    "absent: any"),
	CLI_STRINGS(struct node_link, peer_devices, n_peer_devices, "peer_devices",
		    .check = config_expects_port,
		    .help = "the same of the peer, by its own names; the first of devices goes "
			    "with the first of these, and so on"),
	CLI_STRING(
		struct node_link, max_bandwidth, "max_bandwidth", .check = config_expects_bandwidth,
		.help = "most that the agent's own reads and writes move over this link, such as "
			"10Gbps, over every transport; what is above waits; absent: no cap"),
	CLI_STRING(struct node_link, min_bandwidth, "min_bandwidth",
		   .check = config_expects_bandwidth,
		   .help = "over rdma, the least sum of the link speeds of all rails, such as "
			   "100Gbps; with less another transport is used, or there is no link"),
	CLI_END,
};

static const struct cli_setting service_settings[] = {
	CLI_STRING(struct node_service, name, "name",
		   .help = "a service of the program: echo, bench"),
	CLI_STRING(struct node_service, plugin, "plugin",
		   .help = "path of a shared object, instead of a name"),
	CLI_PAIRS(struct node_service, options, n_options, "options",
		  .help = "options of the service; echo: max_message (256MiB), the longest "
			  "request; bench: size (64MiB) of each of its regions"),
	CLI_END,
};

static const struct cli_setting metrics_settings[] = {
	CLI_STRING(struct node_metrics, listen, "listen", .check = check_listen,
		   .help = "numeric ADDRESS:PORT of GET /metrics; port 0 uses a free one; absent: "
			   "no metrics"),
	CLI_END,
};

static const struct cli_setting log_settings[] = {
	CLI_STRING(struct node_log, file, "file",
		   .help = "the log file; default peeragent.log in $LOGS_DIRECTORY, else standard "
			   "error"),
	CLI_ENUM(struct node_log, format, "format", cli_log_formats, .def = "text",
		 .help = "text lines or JSON"),
	CLI_ENUM(struct node_log, level, "level", cli_log_levels, .def = "info",
		 .help = "lowest level that is logged"),
	CLI_END,
};

const struct cli_setting node_settings[] = {
	CLI_INT(struct node, version, "version", .required = true, .min = 1, .max = 1,
		.help = "version of the file format"),
	CLI_MAP(struct node, agent, "agent", agent_settings, .help = "the agent's identity"),
	CLI_MAP(struct node, control, "control", control_settings, .help = "the control plane"),
	CLI_MAP(struct node, data, "data", data_settings, .help = "the transports of data"),
	CLI_LIST(struct node, regions, n_regions, "regions", region_settings, .unique = "name",
		 .help = "memory that peers may reach"),
	CLI_LIST(struct node, links, n_links, "links", link_settings,
		 .help = "agents with which links are wanted"),
	CLI_LIST(struct node, services, n_services, "services", service_settings,
		 .help = "RPC services for peers"),
	CLI_MAP(struct node, metrics, "metrics", metrics_settings,
		.help = "the metrics page for Prometheus"),
	CLI_MAP(struct node, log, "log", log_settings, .help = "the program's log"),
	CLI_END,
};

/* ---- from the file's words to the library's values ---- */

static void set_transports(enum slime_transport *to, const int *words, size_t n)
{
	memset(to, 0, SLIME_TRANSPORT_MAX * sizeof(*to));
	for (size_t i = 0; i < n; i++)
		to[i] = transport_values[words[i]];
}

/* Of the CPU that asked first: a file that is read again means the same node, wherever it is read.
 */
static int local_node(void)
{
	static int node = SLIME_NUMA_ANY;
	static bool known;
	unsigned cpu, of_cpu;

	if (!known && !getcpu(&cpu, &of_cpu))
		node = (int)of_cpu;
	known = true;
	return node;
}

static int numa_of(int64_t numa)
{
	if (numa >= 0)
		return (int)numa;
	return numa == -1 ? SLIME_NUMA_ANY : local_node();
}

static uint32_t access_of(const struct node_region *r)
{
	uint32_t access = 0;

	for (size_t i = 0; i < r->n_access; i++)
		access |= r->access[i] ? SLIME_ACCESS_REMOTE_WRITE : SLIME_ACCESS_REMOTE_READ;
	return access;
}

static void set_regions(struct config *c)
{
	static const enum slime_huge_pages huge[] = { SLIME_HUGE_AUTO, SLIME_HUGE_OFF,
						      SLIME_HUGE_2M, SLIME_HUGE_1G };

	for (size_t i = 0; i < c->node.n_regions; i++) {
		const struct node_region *r = &c->node.regions[i];

		c->regions[i] = (struct slime_agent_region){
			.name = r->name,
			.size = r->size,
			.huge = huge[r->huge_pages],
			.numa_node = numa_of(r->numa),
			.access = access_of(r),
			.allow = r->n_allow ? r->allow : NULL,
			.n_allow = r->n_allow,
			.on_demand = r->on_demand,
			.gpu = r->gpu,
		};
	}
}

static int set_links(struct config *c)
{
	int ret = 0;

	for (size_t i = 0; i < c->node.n_links && !ret; i++) {
		const struct node_link *l = &c->node.links[i];

		c->links[i] = (struct slime_agent_link){ .to = l->to, .profile = l->profile };
		set_transports(c->links[i].transports, l->transports, l->n_transports);
		ret = config_set_link(c, i);
	}
	return ret;
}

static int set_topology(struct config *c)
{
	const struct node *n = &c->node;

	c->labels = calloc(n->agent.n_labels + 1, sizeof(*c->labels));
	c->regions = calloc(n->n_regions + 1, sizeof(*c->regions));
	c->links = calloc(n->n_links + 1, sizeof(*c->links));
	c->link_ports = calloc(2 * n->n_links + 1, sizeof(*c->link_ports));
	if (!c->labels || !c->regions || !c->links || !c->link_ports)
		return -ENOMEM;
	for (size_t i = 0; i < n->agent.n_labels; i++)
		c->labels[i] =
			(struct slime_label){ n->agent.labels[i].key, n->agent.labels[i].value };
	set_regions(c);
	c->attr.topology = (struct slime_topology){
		.labels = c->labels,
		.n_labels = n->agent.n_labels,
		.regions = c->regions,
		.n_regions = n->n_regions,
		.links = c->links,
		.n_links = n->n_links,
	};
	return set_links(c);
}

static void set_data(struct config *c)
{
	static const enum slime_polling polling[] = { SLIME_POLLING_ADAPTIVE, SLIME_POLLING_BUSY,
						      SLIME_POLLING_EVENT };
	const struct node_data *d = &c->node.data;
	struct slime_context_attr *to = &c->attr.data;

	to->polling = polling[d->polling];
	to->cpu = (int)d->cpu;
	to->max_endpoints = (uint32_t)d->max_links;
	to->rpc_workers = (uint32_t)d->workers;
	if (d->max_bandwidth)
		(void)sl_bandwidth_parse(d->max_bandwidth, &to->max_bandwidth);
	to->foreign_memory = (enum slime_foreign)d->shm.foreign_memory;
	to->shm_users = d->shm.users;
	config_set_bind(c);
	/* It was checked. */
	(void)config_split_ports(d->tcp.port, &to->tcp_port, &to->tcp_port_last);
	to->tcp_advertise = d->tcp.advertise;
	to->tcp_streams = (uint32_t)d->tcp.streams;
	to->tcp_user_timeout_ms = (uint32_t)d->tcp.user_timeout_ms;
	set_transports(c->attr.transports, d->transports, d->n_transports);
	c->attr.connect_timeout_ms = (uint32_t)d->connect_timeout_ms;
	c->attr.retry_min_ms = (uint32_t)d->retry_min_ms;
	c->attr.retry_max_ms = (uint32_t)d->retry_max_ms;
	c->attr.snapshot_ms = (uint32_t)c->node.control.snapshots_ms;
}

/* One file serves many hosts: without a name an agent is called as its host. */
static void take_name(struct config *c)
{
	if (c->node.agent.name)
		return;
	if (gethostname(c->host, sizeof(c->host) - 1))
		c->host[0] = '\0';
	c->node.agent.name = c->host;
	if (check_name(c->host))
		cli_config_refuse(
			c->source, "agent.name",
			"expected a name: without one the agent is called as its host, whose "
			"name, \"%s\", is not %s",
			c->host, check_name(c->host));
}

/* Where the file names none: the directories that a service manager made for us. */
static int take_directories(struct config *c)
{
	char logs[PATH_MAX];
	int ret;

	if (!c->node.agent.state_dir) {
		ret = cli_manager_directory("STATE_DIRECTORY", c->state_dir, sizeof(c->state_dir));
		if (!ret)
			c->node.agent.state_dir = c->state_dir;
		else if (ret != -ENOENT)
			return ret;
	}
	if (!c->node.log.file) {
		ret = cli_manager_directory("LOGS_DIRECTORY", logs, sizeof(logs));
		if (ret)
			return ret == -ENOENT ? 0 : ret;
		if (snprintf(c->log_file, sizeof(c->log_file), "%s/peeragent.log", logs) >=
		    (int)sizeof(c->log_file))
			return -ENAMETOOLONG;
		c->node.log.file = c->log_file;
	}
	return 0;
}

static void set_identity(struct config *c)
{
	const struct node *n = &c->node;

	c->attr.name = n->agent.name;
	c->attr.scope = n->agent.scope;
	c->attr.address = n->agent.address;
	c->attr.state_dir = n->agent.state_dir;
	c->attr.token = c->token;
	c->url = n->control.url;
	c->attr.urls = n->control.n_urls ? n->control.urls : &c->url;
	c->attr.n_urls = n->control.n_urls ? n->control.n_urls : 1;
}

/* ---- what the tables cannot say ---- */

/* It goes into a header of HTTP. */
static bool is_token(const char *text)
{
	for (; *text; text++) {
		if (!isgraph((unsigned char)*text))
			return false;
	}
	return true;
}

static int read_token(struct config *c)
{
	const char *path = c->node.control.token_file;
	char text[TOKEN_MAX + 1];
	int ret;

	if (!path)
		return 0;
	ret = cli_secret_read(path, text, sizeof(text));
	if (ret) {
		cli_config_refuse(c->source, "control.token_file", "%s: %s", path,
				  cli_secret_error(ret));
		return 0;
	}
	if (!is_token(text))
		cli_config_refuse(c->source, "control.token_file",
				  "%s: expected a token of visible ASCII characters", path);
	c->token = strdup(text);
	explicit_bzero(text, sizeof(text));
	return c->token ? 0 : -ENOMEM;
}

static bool names(const enum slime_transport *list, enum slime_transport transport)
{
	for (size_t i = 0; i < SLIME_TRANSPORT_MAX; i++) {
		if (list[i] == transport)
			return true;
	}
	return false;
}

bool config_uses(const struct config *c, enum slime_transport transport)
{
	bool found = names(c->attr.transports, transport);

	for (size_t i = 0; i < c->node.n_links; i++)
		found |= names(c->links[i].transports, transport);
	return found;
}

int config_errors(const struct config *c)
{
	size_t n = cli_config_n_errors(c->source), i;
	const char *line;
	char more[40];

	for (i = 0; (line = cli_config_error(c->source, i)); i++)
		c->say(line);
	if (i < n) {
		snprintf(more, sizeof(more), "and %zu more", n - i);
		c->say(more);
	}
	return n ? -EINVAL : 0;
}

/* -EINVAL is remembered in the source, and found there. */
static int read_source(struct config *c, const char *file, const struct cli_args *args)
{
	int ret = cli_config_load(c->source, file);

	if (ret)
		return ret == -ENOMEM ? ret : config_errors(c);
	if (cli_config_apply(c->source, args) == -ENOMEM ||
	    cli_config_read(c->source, node_settings, &c->node) == -ENOMEM)
		return -ENOMEM;
	return config_errors(c);
}

static int convert(struct config *c)
{
	int ret = take_directories(c);

	take_name(c);
	if (!ret)
		ret = read_token(c);
	if (ret)
		return ret;
	c->attr = (struct slime_agent_attr)SLIME_AGENT_ATTR_INIT;
	set_identity(c);
	set_data(c);
	ret = config_set_rdma(c);
	if (!ret)
		ret = set_topology(c);
	if (ret)
		return ret;
	config_check(c);
	return config_errors(c);
}

int config_create(const char *file, const struct cli_args *args, config_say_fn *say,
		  struct config **out)
{
	struct config *c = calloc(1, sizeof(*c));
	int ret;

	if (!c)
		return -ENOMEM;
	c->say = say;
	ret = cli_config_create(&c->source);
	if (!ret)
		ret = read_source(c, file, args);
	if (!ret)
		ret = convert(c);
	if (ret)
		config_destroy(c);
	else
		*out = c;
	return ret;
}

void config_destroy(struct config *c)
{
	if (!c)
		return;
	free(c->labels);
	free(c->regions);
	free(c->links);
	free(c->token);
	free(c->rdma_devices);
	for (size_t i = 0; c->link_ports && i < 2 * c->node.n_links; i++)
		free(c->link_ports[i]);
	free(c->link_ports);
	cli_config_destroy(c->source);
	free(c);
}

/* ---- reload ---- */

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static bool same_data(const struct slime_agent_attr *a, const struct slime_agent_attr *b)
{
	const struct slime_context_attr *x = &a->data, *y = &b->data;

	return x->polling == y->polling && x->cpu == y->cpu &&
	       x->max_endpoints == y->max_endpoints && x->rpc_workers == y->rpc_workers &&
	       x->foreign_memory == y->foreign_memory && same_text(x->shm_users, y->shm_users) &&
	       same_text(x->tcp_bind, y->tcp_bind) && x->tcp_port == y->tcp_port &&
	       x->tcp_port_last == y->tcp_port_last &&
	       same_text(x->tcp_advertise, y->tcp_advertise) && x->tcp_streams == y->tcp_streams &&
	       x->tcp_user_timeout_ms == y->tcp_user_timeout_ms &&
	       x->max_bandwidth == y->max_bandwidth && config_same_rdma(x, y) &&
	       a->connect_timeout_ms == b->connect_timeout_ms &&
	       a->retry_min_ms == b->retry_min_ms && a->retry_max_ms == b->retry_max_ms &&
	       !memcmp(a->transports, b->transports, sizeof(a->transports));
}

static bool same_service(const struct node_service *a, const struct node_service *b)
{
	if (!same_text(a->name, b->name) || !same_text(a->plugin, b->plugin) ||
	    a->n_options != b->n_options)
		return false;
	for (size_t i = 0; i < a->n_options; i++) {
		if (!same_text(a->options[i].key, b->options[i].key) ||
		    !same_text(a->options[i].value, b->options[i].value))
			return false;
	}
	return true;
}

static bool same_services(const struct node *a, const struct node *b)
{
	if (a->n_services != b->n_services)
		return false;
	for (size_t i = 0; i < a->n_services; i++) {
		if (!same_service(&a->services[i], &b->services[i]))
			return false;
	}
	return true;
}

const char *config_needs_restart(const struct config *have, const struct config *want)
{
	const struct slime_agent_attr *a = &have->attr, *b = &want->attr;

	if (!same_text(a->name, b->name))
		return "agent.name";
	if (!same_text(a->scope, b->scope))
		return "agent.scope";
	if (!same_text(a->address, b->address))
		return "agent.address";
	if (!same_text(a->state_dir, b->state_dir))
		return "agent.state_dir";
	if (!same_text(a->token, b->token))
		return "control.token_file";
	if (a->snapshot_ms != b->snapshot_ms)
		return "control.snapshots";
	if (!same_data(a, b))
		return "data";
	if (!same_services(&have->node, &want->node))
		return "services";
	if (!same_text(have->node.metrics.listen, want->node.metrics.listen))
		return "metrics";
	if (!same_text(have->node.log.file, want->node.log.file) ||
	    have->node.log.format != want->node.log.format ||
	    have->node.log.level != want->node.log.level)
		return "log";
	return NULL;
}

/* A decimal number up to 65535 that ends at end; -EINVAL. */
static int read_port(const char *text, const char *end, uint16_t *out)
{
	unsigned long value = 0;

	if (text == end || end - text > 5)
		return -EINVAL;
	for (; text < end; text++) {
		if (*text < '0' || *text > '9')
			return -EINVAL;
		value = value * 10 + (unsigned long)(*text - '0');
	}
	*out = (uint16_t)value;
	return value <= UINT16_MAX ? 0 : -EINVAL;
}

int config_split_ports(const char *text, uint16_t *first, uint16_t *last)
{
	const char *end = text + strlen(text), *dash = strchr(text, '-');
	int ret = read_port(text, dash ? dash : end, first);

	*last = 0;
	if (ret || !dash)
		return ret;
	ret = read_port(dash + 1, end, last);
	return ret || !*first || *last < *first ? -EINVAL : 0;
}

int config_split_listen(const char *listen, char *host, size_t host_len, uint16_t *port)
{
	const char *colon = strrchr(listen, ':');
	size_t len = colon ? (size_t)(colon - listen) : 0;
	char *end;
	unsigned long value;

	if (!len || colon[1] < '0' || colon[1] > '9')
		return -EINVAL;
	value = strtoul(colon + 1, &end, 10);
	if (*end || value > UINT16_MAX)
		return -EINVAL;
	if (listen[0] == '[' && listen[len - 1] == ']') {
		listen++;
		len -= 2;
	}
	if (!len || len >= host_len)
		return -EINVAL;
	snprintf(host, host_len, "%.*s", (int)len, listen);
	*port = (uint16_t)value;
	return 0;
}
