/* SPDX-License-Identifier: Apache-2.0 */
/* The part data.rdma of the node's file. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bandwidth.h"
#include "base/port_name.h"
#include "peeragent/src/config.h"
#include <slime/endpoint.h>
#include <slime/topo.h>

#define ALL "all"

/* In the order of enum slime_rdma_pair. */
static const char *const pair_words[] = { "position", "numa", "name", NULL };
static const char *const gid_words[] = { "auto", NULL };

/* A port of that name: its first one without a number. Texts are checked by the table. */
static void read_port(const char *text, struct sl_port_name *out)
{
	if (sl_port_name_parse(text, strlen(text), out))
		*out = (struct sl_port_name){ .device = "" };
	if (!out->port)
		out->port = 1;
}

const char *config_expects_port(const char *text)
{
	struct sl_port_name port;

	return sl_port_name_parse(text, strlen(text), &port)
		       ? "an RDMA device, as mlx5_0, or a port of one, as mlx5_0:2"
		       : NULL;
}

const char *config_expects_bandwidth(const char *text)
{
	uint64_t bits;

	return sl_bandwidth_parse(text, &bits) ? "a bandwidth such as 100Gbps" : NULL;
}

const struct cli_setting rdma_settings[] = {
	CLI_STRINGS(
		struct node_rdma, devices, n_devices, "devices", .check = config_expects_port,
		.help = "ports that links use, each as a rail, at most eight: mlx5_0, or mlx5_0:2 "
			"for its second port; all, alone: every usable port; absent: the first "
			"usable port"),
	CLI_ENUM(struct node_rdma, pair, "pair", pair_words, .def = "position",
		 .help = "how the ports of two ends are paired to rails; the same at both ends: "
			 "docs/rdma.md"),
	CLI_INT(struct node_rdma, gid_index, "gid_index", .words = gid_words, .def = "auto",
		.min = 0, .max = 255,
		.help = "index of the address in each port's table; docs/rdma.md describes the "
			"choice of auto"),
	CLI_INT(struct node_rdma, qps_per_rail, "qps_per_rail", .def = "1", .min = 1, .max = 8,
		.help = "queue pairs of a link on each of its rails"),
	CLI_INT(struct node_rdma, timeout, "timeout", .def = "14", .min = 1, .max = 31,
		.help = "a packet that is not acknowledged within 4.096 us * 2^timeout is sent "
			"again"),
	CLI_INT(struct node_rdma, retry_count, "retry_count", .def = "6", .min = 0, .max = 7,
		.help = "number of these retries; then the peer counts as dead"),
	CLI_INT(struct node_rdma, rnr_retry, "rnr_retry", .def = "6", .min = 0, .max = 7,
		.help = "the same for a peer without a posted receive; 7 is for ever"),
	CLI_INT(struct node_rdma, min_rnr_timer, "min_rnr_timer", .def = "12", .min = 0, .max = 31,
		.help = "time before such a retry, as a code: 12 is 0.64 ms"),
	CLI_INT(struct node_rdma, service_level, "service_level", .def = "0", .min = 0, .max = 15,
		.help = "service level of packets, on InfiniBand and in VLANs"),
	CLI_INT(struct node_rdma, traffic_class, "traffic_class", .def = "0", .min = 0, .max = 255,
		.help = "traffic class of RoCE packets: four times the DSCP value, and ECN"),
	CLI_INT(struct node_rdma, hop_limit, "hop_limit", .def = "64", .min = 1, .max = 255,
		.help = "most routers that a packet may pass"),
	CLI_INT(struct node_rdma, pkey_index, "pkey_index", .def = "0", .min = 0, .max = 65535,
		.help = "index of the partition in each port's table"),
	CLI_INT(struct node_rdma, flow_label, "flow_label", .def = "0", .min = 0, .max = 1048575,
		.help = "flow label of packets with a global route header"),
	CLI_END,
};

/* ---- from the file's words to the library's values ---- */

/* The library takes one text; NULL for an empty list. */
static int join(const char *const *list, size_t n, char **out)
{
	size_t len = 1;

	*out = NULL;
	if (!n)
		return 0;
	for (size_t i = 0; i < n; i++)
		len += strlen(list[i]) + 1;
	*out = calloc(1, len);
	if (!*out)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (i)
			strcat(*out, ",");
		strcat(*out, list[i]);
	}
	return 0;
}

int config_set_link(struct config *c, size_t i)
{
	const struct node_link *from = &c->node.links[i];
	struct slime_agent_link *to = &c->links[i];
	char **ports = &c->link_ports[2 * i];
	int ret = join(from->devices, from->n_devices, &ports[0]);

	if (!ret)
		ret = join(from->peer_devices, from->n_peer_devices, &ports[1]);
	to->devices = ports[0];
	to->peer_devices = ports[1];
	to->qps = from->qps < 0 ? 0 : (uint32_t)from->qps;
	to->rails = from->rails < 0 ? 0 : (uint32_t)from->rails;
	if (from->min_bandwidth)
		(void)sl_bandwidth_parse(from->min_bandwidth, &to->min_bandwidth);
	if (from->max_bandwidth)
		(void)sl_bandwidth_parse(from->max_bandwidth, &to->max_bandwidth);
	return ret;
}

int config_set_rdma(struct config *c)
{
	const struct node_rdma *r = &c->node.data.rdma;
	struct slime_context_attr *to = &c->attr.data;
	int ret = join(r->devices, r->n_devices, &c->rdma_devices);

	if (ret)
		return ret;
	to->rdma_devices = c->rdma_devices;
	to->rdma_pair = (enum slime_rdma_pair)r->pair;
	to->rdma_gid_index = (int)r->gid_index;
	to->rdma_qps = (uint32_t)r->qps_per_rail;
	to->rdma_timeout = (uint32_t)r->timeout;
	to->rdma_retry_count = (uint32_t)r->retry_count;
	to->rdma_rnr_retry = (uint32_t)r->rnr_retry;
	to->rdma_min_rnr_timer = (uint32_t)r->min_rnr_timer;
	to->rdma_service_level = (uint32_t)r->service_level;
	to->rdma_traffic_class = (uint32_t)r->traffic_class;
	to->rdma_hop_limit = (uint32_t)r->hop_limit;
	to->rdma_pkey_index = (uint32_t)r->pkey_index;
	to->rdma_flow_label = (uint32_t)r->flow_label;
	return 0;
}

bool config_same_rdma(const struct slime_context_attr *a, const struct slime_context_attr *b)
{
	const char *x = a->rdma_devices ? a->rdma_devices : "";
	const char *y = b->rdma_devices ? b->rdma_devices : "";

	return !strcmp(x, y) && a->rdma_pair == b->rdma_pair &&
	       a->rdma_gid_index == b->rdma_gid_index && a->rdma_qps == b->rdma_qps &&
	       a->rdma_timeout == b->rdma_timeout && a->rdma_retry_count == b->rdma_retry_count &&
	       a->rdma_rnr_retry == b->rdma_rnr_retry &&
	       a->rdma_min_rnr_timer == b->rdma_min_rnr_timer &&
	       a->rdma_service_level == b->rdma_service_level &&
	       a->rdma_traffic_class == b->rdma_traffic_class &&
	       a->rdma_hop_limit == b->rdma_hop_limit && a->rdma_pkey_index == b->rdma_pkey_index &&
	       a->rdma_flow_label == b->rdma_flow_label;
}

/* ---- what this machine has ---- */

/* Whether the i-th is one of those before it. */
static bool is_twice(const char *const *list, size_t i)
{
	struct sl_port_name port, other;

	read_port(list[i], &port);
	for (size_t k = 0; k < i; k++) {
		read_port(list[k], &other);
		if (port.port == other.port && !strcmp(port.device, other.device))
			return true;
	}
	return false;
}

static const struct slime_topo_device *find_device(const struct slime_topo_devices *all,
						   const char *name)
{
	for (size_t i = 0; i < all->n_devices; i++)
		if (!strcmp(all->devices[i]->name, name))
			return all->devices[i];
	return NULL;
}

static bool has_port(const struct slime_topo_device *d, unsigned port)
{
	for (size_t i = 0; i < d->n_ports; i++)
		if (d->ports[i]->num == port)
			return true;
	return false;
}

static bool is_all(const struct node_rdma *r)
{
	return r->n_devices == 1 && !strcmp(r->devices[0], ALL);
}

/* Whether a port is up, and has its addresses, is not the file's matter: it may come up later. */
static void check_port_at(struct config *c, const char *path, const char *text,
			  const struct slime_topo_devices *all)
{
	const struct slime_topo_device *d;
	struct sl_port_name port;

	read_port(text, &port);
	d = find_device(all, port.device);
	if (!d)
		cli_config_refuse(
			c->source, path, "expected an RDMA device of this host, got \"%s\": %s",
			text, all->n_devices ? "slime devices lists those there are" : all->why);
	else if (!has_port(d, port.port))
		cli_config_refuse(c->source, path, "expected a port of %s, got %u", d->name,
				  port.port);
}

static void check_device_at(struct config *c, size_t i, const struct slime_topo_devices *all)
{
	const struct node_rdma *r = &c->node.data.rdma;
	char path[48];

	snprintf(path, sizeof(path), "data.rdma.devices.%zu", i);
	if (is_twice(r->devices, i))
		cli_config_refuse(c->source, path, "expected each port once, got \"%s\" again",
				  r->devices[i]);
	else if (!strcmp(r->devices[i], ALL))
		cli_config_refuse(c->source, path, "expected \"all\" alone");
	else
		check_port_at(c, path, r->devices[i], all);
}

/* Whether links of the agent use the port at all. */
static bool is_configured(const struct node_rdma *r, const char *text)
{
	struct sl_port_name port, other;

	if (sl_port_name_parse(text, strlen(text), &port))
		return false;
	for (size_t i = 0; i < r->n_devices; i++) {
		read_port(r->devices[i], &other);
		if (sl_port_name_is(&port, other.device, sizeof(other.device), other.port))
			return true;
	}
	return !r->n_devices || is_all(r);
}

static void check_link_ports(struct config *c, size_t i, const struct slime_topo_devices *all)
{
	const struct node_link *l = &c->node.links[i];
	char path[64];

	for (size_t k = 0; k < l->n_devices; k++) {
		snprintf(path, sizeof(path), "links.%zu.devices.%zu", i, k);
		if (is_configured(&c->node.data.rdma, l->devices[k]))
			check_port_at(c, path, l->devices[k], all);
		else
			cli_config_refuse(c->source, path,
					  "expected one of data.rdma.devices, got \"%s\"",
					  l->devices[k]);
	}
}

static bool names_ports(const struct config *c)
{
	bool any = c->node.data.rdma.n_devices > 0;

	for (size_t i = 0; i < c->node.n_links; i++)
		any |= c->node.links[i].n_devices > 0;
	return any;
}

void config_check_rdma(struct config *c)
{
	size_t n = c->node.data.rdma.n_devices;
	struct slime_topo_devices *all;

	if (n > SLIME_RAILS_MAX) {
		cli_config_refuse(c->source, "data.rdma.devices", "expected at most %d",
				  SLIME_RAILS_MAX);
		return;
	}
	if (!names_ports(c) || slime_topo_devices_create(NULL, &all))
		return;
	if (is_all(&c->node.data.rdma) && !all->n_devices)
		cli_config_refuse(c->source, "data.rdma.devices.0",
				  "expected an RDMA device of this host for it: %s", all->why);
	for (size_t i = 0; i < n && !is_all(&c->node.data.rdma); i++)
		check_device_at(c, i, all);
	for (size_t i = 0; i < c->node.n_links; i++)
		check_link_ports(c, i, all);
	slime_topo_devices_destroy(all);
}

/* Whether links may use the device. */
static bool is_ours(const struct node_rdma *r, const struct slime_topo_device *d)
{
	struct sl_port_name port;

	for (size_t i = 0; i < r->n_devices; i++) {
		read_port(r->devices[i], &port);
		if (!strcmp(d->name, port.device))
			return true;
	}
	return !r->n_devices || is_all(r);
}

/* A region is registered with each device that is named; without names, with one. */
static void check_paging(struct config *c, const char *path, const struct slime_topo_devices *all)
{
	const struct node_rdma *r = &c->node.data.rdma;
	const struct slime_topo_device *without = NULL;

	for (size_t i = 0; i < all->n_devices; i++) {
		const struct slime_topo_device *d = all->devices[i];

		if (!is_ours(r, d) || !d->limits)
			continue;
		if (d->limits->on_demand_paging && !r->n_devices)
			return;
		if (!d->limits->on_demand_paging)
			without = d;
	}
	if (without)
		cli_config_refuse(c->source, path,
				  "expected an RDMA device with on-demand paging, and %s has none",
				  without->name);
}

void config_check_device(struct config *c, const char *path, bool paging)
{
	struct slime_topo_devices *all;

	if (slime_topo_devices_create(NULL, &all))
		return;
	if (!all->n_devices)
		cli_config_refuse(c->source, path,
				  "expected an RDMA device of this host for it: %s", all->why);
	else if (paging)
		check_paging(c, path, all);
	slime_topo_devices_destroy(all);
}
