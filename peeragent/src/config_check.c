/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that the tables cannot do: whether the file's values fit together, and to this machine. */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/loopback.h"
#include "peeragent/lib/agent/identity.h"
#include "peeragent/lib/agent/settings.h"
#include "peeragent/lib/control/ctrl.h"
#include "peeragent/src/config.h"

#define SERVICES_MAX 64

static void check_control(struct config *c)
{
	const struct node_control *n = &c->node.control;

	if (!n->url && !n->n_urls)
		cli_config_refuse(c->source, "control.url",
				  "expected the URL of nanoctrl, as http://127.0.0.1:3000");
	else if (n->url && n->n_urls)
		cli_config_refuse(c->source, "control.urls", "expected url or urls, not both");
	else if (n->n_urls > SETTINGS_MAX_URLS)
		cli_config_refuse(c->source, "control.urls", "expected at most %d",
				  SETTINGS_MAX_URLS);
}

static void check_services(struct config *c)
{
	if (c->node.n_services > SERVICES_MAX)
		cli_config_refuse(c->source, "services", "expected at most %d", SERVICES_MAX);
	for (size_t i = 0; i < c->node.n_services; i++) {
		const struct node_service *s = &c->node.services[i];
		char path[32];

		snprintf(path, sizeof(path), "services.%zu", i);
		if (!s->name == !s->plugin)
			cli_config_refuse(c->source, path,
					  "expected name or plugin, one of the two");
	}
}

static void check_retries(struct config *c)
{
	if (c->node.data.retry_max_ms < c->node.data.retry_min_ms)
		cli_config_refuse(c->source, "data.retry_max", "expected at least data.retry_min");
}

/* ---- where it listens ---- */

/* Whether this host has the address: 0, or a text for people. */
static const char *try_bind(const char *host)
{
	const struct addrinfo hints = { .ai_flags = AI_PASSIVE | AI_NUMERICHOST,
					.ai_socktype = SOCK_STREAM };
	struct addrinfo *list;
	int ret = getaddrinfo(host, "0", &hints, &list);
	int fd;

	if (ret)
		return gai_strerror(ret);
	fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ret = fd < 0 || bind(fd, list->ai_addr, list->ai_addrlen) ? errno : 0;
	if (fd >= 0)
		close(fd);
	freeaddrinfo(list);
	return ret ? strerror(ret) : NULL;
}

/* Numeric; *any says whether it stands for every address of the host. */
static bool is_address(const char *text, bool *any)
{
	struct in6_addr in6;
	struct in_addr in;

	*any = false;
	if (inet_pton(AF_INET, text, &in) == 1)
		*any = in.s_addr == htonl(INADDR_ANY);
	else if (inet_pton(AF_INET6, text, &in6) == 1)
		*any = IN6_IS_ADDR_UNSPECIFIED(&in6);
	else
		return false;
	return true;
}

static void check_bind(struct config *c, const char *address)
{
	const char *trouble;
	bool any;

	if (!is_address(address, &any)) /* it was refused */
		return;
	if (any && !c->node.data.tcp.advertise)
		cli_config_refuse(c->source, "data.tcp.bind",
				  "expected one address, or data.tcp.advertise beside %s", address);
	trouble = try_bind(address);
	if (trouble)
		cli_config_refuse(c->source, "data.tcp.bind",
				  "expected an address of this host, got \"%s\": %s", address,
				  trouble);
}

static void check_tcp(struct config *c)
{
	const struct node_tcp *tcp = &c->node.data.tcp;
	bool any;

	if (tcp->bind[0])
		check_bind(c, c->attr.data.tcp_bind);
	if (tcp->advertise && (!is_address(tcp->advertise, &any) || any))
		cli_config_refuse(c->source, "data.tcp.advertise",
				  "expected a numeric address that peers can reach, got \"%s\"",
				  tcp->advertise);
}

/* To look a name up may take its time, also at a reload. */
static void check_metrics(struct config *c)
{
	const char *listen = c->node.metrics.listen, *trouble;
	char host[64];
	uint16_t port;
	bool any;

	if (!listen || config_split_listen(listen, host, sizeof(host), &port))
		return;
	if (!is_address(host, &any)) {
		cli_config_refuse(c->source, "metrics.listen",
				  "expected a numeric address, as 127.0.0.1:9464, got \"%s\"",
				  listen);
		return;
	}
	trouble = try_bind(host);
	if (trouble)
		cli_config_refuse(c->source, "metrics.listen",
				  "expected an address of this host, got \"%s\": %s", listen,
				  trouble);
}

/* ---- what this machine has ---- */

/* A thread may run there, on whichever CPUs we run now; only trying tells. */
static bool has_cpu(int64_t cpu)
{
	cpu_set_t ours, wanted;
	bool may;

	if (cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof(ours), &ours))
		return false;
	CPU_ZERO(&wanted);
	CPU_SET((unsigned)cpu, &wanted);
	may = !sched_setaffinity(0, sizeof(wanted), &wanted);
	sched_setaffinity(0, sizeof(ours), &ours);
	return may;
}

static void check_cpu(struct config *c)
{
	int64_t cpu = c->node.data.cpu;

	if (cpu >= 0 && !has_cpu(cpu))
		cli_config_refuse(c->source, "data.cpu",
				  "expected a CPU that this process may use, or any, got %lld",
				  (long long)cpu);
}

/* ---- files ---- */

/*
 * Why path cannot be a file (or a directory) that is there or can be made; NULL when it can. Who
 * may write there is not asked: the file may be checked by another user than the agent's.
 */
static const char *place_trouble(const char *path, bool directory)
{
	size_t len = strlen(path);
	char parent[PATH_MAX];
	char *slash;
	struct stat st;

	if (!len)
		return "it is empty";
	if (!stat(path, &st)) {
		if (S_ISDIR(st.st_mode) == directory)
			return NULL;
		return directory ? "it is no directory" : "it is a directory";
	}
	if (errno != ENOENT || len >= sizeof(parent))
		return strerror(errno == ENOENT ? ENAMETOOLONG : errno);
	while (len && path[len - 1] == '/')
		len--;
	snprintf(parent, sizeof(parent), "%.*s", (int)len, path);
	slash = strrchr(parent, '/');
	if (slash)
		slash[1] = '\0';
	if (!stat(slash ? parent : ".", &st))
		return NULL;
	return errno == ENOENT ? "what it would be in is not there" : strerror(errno);
}

static void check_place(struct config *c, const char *key, const char *path, bool directory)
{
	const char *trouble = path ? place_trouble(path, directory) : NULL;

	if (trouble)
		cli_config_refuse(c->source, key, "expected a %s, got \"%s\": %s",
				  directory ? "directory" : "file", path, trouble);
}

static void check_state_dir(struct config *c)
{
	const struct node_agent *a = &c->node.agent;

	check_place(c, "agent.state_dir", a->state_dir, true);
	if (a->state_dir && strlen(a->scope) + strlen(a->name) > IDENTITY_NAMES_MAX)
		cli_config_refuse(c->source, "agent.state_dir",
				  "expected agent.scope and agent.name of at most %d bytes "
				  "together, which name a file there",
				  IDENTITY_NAMES_MAX);
}

/* ---- links, regions and labels ---- */

static void check_topology(struct config *c)
{
	struct slime_topology_fault fault;
	char path[sizeof(fault.path) + sizeof("agent.")];

	if (!slime_topology_check(&c->attr.topology, c->attr.name, &fault))
		return;
	/* The topology's labels are the agent's; the rest stands in the file as it does there. */
	snprintf(path, sizeof(path), "%s%s", strncmp(fault.path, "labels", 6) ? "" : "agent.",
		 fault.path);
	cli_config_refuse(c->source, path, "%s", fault.expected);
}

/* ---- what is allowed, and hardly meant ---- */

static const char *remote_url(const struct config *c)
{
	for (size_t i = 0; i < c->attr.n_urls; i++) {
		if (ctrl_url_is_remote(c->attr.urls[i]))
			return c->attr.urls[i];
	}
	return NULL;
}

static bool binds_loopback(const struct config *c)
{
	const char *bind = c->attr.data.tcp_bind;

	return !c->node.data.tcp.advertise && sl_is_loopback_address(bind);
}

void config_warn(const struct config *c, config_say_fn *say)
{
	const char *url = remote_url(c);
	char line[512];

	if (!url || !binds_loopback(c) || !config_uses(c, SLIME_TRANSPORT_TCP))
		return;
	snprintf(line, sizeof(line),
		 "data.tcp.bind is %s, which is loopback, while nanoctrl is at %.256s: agents on "
		 "other hosts cannot connect to this one over tcp; set an address of this host",
		 c->attr.data.tcp_bind, url);
	say(line);
}

void config_check(struct config *c)
{
	check_control(c);
	check_services(c);
	check_retries(c);
	check_tcp(c);
	config_check_rdma(c);
	check_metrics(c);
	check_cpu(c);
	config_check_regions(c);
	check_state_dir(c);
	check_place(c, "log.file", c->node.log.file, false);
	check_topology(c);
}
