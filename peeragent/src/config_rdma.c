/* SPDX-License-Identifier: Apache-2.0 */
/* The part data.rdma of the node's file. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peeragent/src/config.h"
#include <slime/endpoint.h>
#include <slime/topo.h>

#define NAME_MAX_LEN 63
#define ALL	     "all"
#define LETTERS	     "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* In the order of enum slime_rdma_pair. */
static const char *const pair_words[] = { "position", "numa", "name", NULL };
static const char *const gid_words[] = { "auto", NULL };

/* How long the name in "mlx5_0:2" is; *port is 2, or 1 without one. 0 when it is malformed. */
static size_t split_device(const char *text, unsigned *port)
{
	size_t len = strspn(text, LETTERS "0123456789._-");
	size_t digits;

	*port = 1;
	if (!len || len > NAME_MAX_LEN || !text[len])
		return len <= NAME_MAX_LEN ? len : 0;
	digits = strspn(text + len + 1, "0123456789");
	if (text[len] != ':' || !digits || digits > 3 || text[len + 1 + digits])
		return 0;
	*port = (unsigned)strtoul(text + len + 1, NULL, 10);
	return *port >= 1 && *port <= 255 ? len : 0;
}

static const char *check_device(const char *text)
{
	unsigned port;

	return split_device(text, &port) ? NULL
					 : "an RDMA device, as mlx5_0, or a port of one, as "
					   "mlx5_0:2";
}

const struct cli_setting rdma_settings[] = {
	CLI_STRINGS(
		struct node_rdma, devices, n_devices, "devices", .check = check_device,
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

/* The library takes one text. */
static int join_devices(struct config *c)
{
	const struct node_rdma *r = &c->node.data.rdma;
	size_t len = 1;

	if (!r->n_devices)
		return 0;
	for (size_t i = 0; i < r->n_devices; i++)
		len += strlen(r->devices[i]) + 1;
	c->rdma_devices = calloc(1, len);
	if (!c->rdma_devices)
		return -ENOMEM;
	for (size_t i = 0; i < r->n_devices; i++) {
		if (i)
			strcat(c->rdma_devices, ",");
		strcat(c->rdma_devices, r->devices[i]);
	}
	return 0;
}

int config_set_rdma(struct config *c)
{
	const struct node_rdma *r = &c->node.data.rdma;
	struct slime_context_attr *to = &c->attr.data;
	int ret = join_devices(c);

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
static bool is_twice(const struct node_rdma *r, size_t i)
{
	unsigned port, other;
	size_t len = split_device(r->devices[i], &port);

	for (size_t k = 0; k < i; k++)
		if (split_device(r->devices[k], &other) == len && other == port &&
		    !memcmp(r->devices[k], r->devices[i], len))
			return true;
	return false;
}

static const struct slime_topo_device *find_device(const struct slime_topo_devices *all,
						   const char *name, size_t len)
{
	for (size_t i = 0; i < all->n_devices; i++)
		if (strlen(all->devices[i]->name) == len &&
		    !memcmp(all->devices[i]->name, name, len))
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
static void check_device_at(struct config *c, size_t i, const struct slime_topo_devices *all)
{
	const char *text = c->node.data.rdma.devices[i];
	const struct slime_topo_device *d;
	unsigned port;
	size_t len = split_device(text, &port);
	char path[48];

	snprintf(path, sizeof(path), "data.rdma.devices.%zu", i);
	d = find_device(all, text, len);
	if (is_twice(&c->node.data.rdma, i))
		cli_config_refuse(c->source, path, "expected each port once, got \"%s\" again",
				  text);
	else if (!strcmp(text, ALL))
		cli_config_refuse(c->source, path, "expected \"all\" alone");
	else if (!d)
		cli_config_refuse(
			c->source, path, "expected an RDMA device of this host, got \"%s\": %s",
			text, all->n_devices ? "slime devices lists those there are" : all->why);
	else if (!has_port(d, port))
		cli_config_refuse(c->source, path, "expected a port of %s, got %u", d->name, port);
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
	if (!n || slime_topo_devices_create(NULL, &all))
		return;
	if (is_all(&c->node.data.rdma) && !all->n_devices)
		cli_config_refuse(c->source, "data.rdma.devices.0",
				  "expected an RDMA device of this host for it: %s", all->why);
	for (size_t i = 0; i < n && !is_all(&c->node.data.rdma); i++)
		check_device_at(c, i, all);
	slime_topo_devices_destroy(all);
}

/* Whether links may use the device. */
static bool is_ours(const struct node_rdma *r, const struct slime_topo_device *d)
{
	unsigned port;

	for (size_t i = 0; i < r->n_devices; i++) {
		size_t len = split_device(r->devices[i], &port);

		if (strlen(d->name) == len && !memcmp(d->name, r->devices[i], len))
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
