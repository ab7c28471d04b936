/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "tool/devices.h"

/* Every function here returns NULL without memory, and takes NULL for that. */

static json_t *json_gid(const struct slime_gid *g)
{
	char text[SLIME_GID_TEXT_MAX];

	return json_pack("{s:i, s:s, s:s, s:s}", "index", (int)g->index, "type",
			 slime_gid_type_name(g->type), "gid", slime_gid_text(g->raw, text),
			 "netdev", g->netdev);
}

static json_t *json_gids(const struct slime_topo_port *p)
{
	json_t *all = json_array();

	for (size_t i = 0; all && i < p->n_gids; i++) {
		if (json_array_append_new(all, json_gid(&p->gids[i]))) {
			json_decref(all);
			return NULL;
		}
	}
	return all;
}

/* A soft device has no limit of its own and says 2^64 - 1, which is no integer of JSON here. */
static json_int_t size_of(uint64_t n)
{
	return n > INT64_MAX ? INT64_MAX : (json_int_t)n;
}

/* null for what is not known */
static json_t *known(int64_t n, int64_t least)
{
	return n < least ? json_null() : json_integer(n);
}

static json_t *json_port(const struct slime_topo_port *p)
{
	return json_pack("{s:i, s:s, s:s, s:s, s:i, s:o, s:o, s:i, s:b, s:o, s:s, s:o}", "port",
			 (int)p->num, "state", p->state, "link_layer",
			 slime_link_layer_name(p->link_layer), "netdev", p->netdev, "mbps",
			 (int)p->mbps, "mtu", known(p->mtu, 1), "netdev_mtu",
			 known(p->netdev_mtu, 1), "lid", (int)p->lid, "usable", p->usable,
			 "gid_index", known(p->gid_index, 0), "why", p->why, "gids", json_gids(p));
}

static json_t *json_ports(const struct slime_topo_device *d)
{
	json_t *all = json_array();

	for (size_t i = 0; all && i < d->n_ports; i++) {
		if (json_array_append_new(all, json_port(d->ports[i]))) {
			json_decref(all);
			return NULL;
		}
	}
	return all;
}

static json_t *json_gpu(const struct slime_topo_gpu *g)
{
	char vendor[8], device[8];

	snprintf(vendor, sizeof(vendor), "0x%04x", g->vendor);
	snprintf(device, sizeof(device), "0x%04x", g->device);
	return json_pack("{s:s, s:s, s:s, s:o, s:s, s:o}", "pci", g->pci, "vendor", vendor,
			 "device", device, "numa_node", known(g->numa_node, 0), "distance",
			 slime_distance_name(g->distance), "hops", known(g->hops, 1));
}

static json_t *json_gpus(const struct slime_topo_device *d)
{
	json_t *all = json_array();

	for (size_t i = 0; all && i < d->n_gpus; i++) {
		if (json_array_append_new(all, json_gpu(d->gpus[i]))) {
			json_decref(all);
			return NULL;
		}
	}
	return all;
}

static json_t *json_limits(const struct slime_topo_limits *l)
{
	if (!l)
		return json_null();
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "max_qp",
			 (json_int_t)l->max_qp, "max_qp_wr", (json_int_t)l->max_qp_wr, "max_sge",
			 (json_int_t)l->max_sge, "max_cq", (json_int_t)l->max_cq, "max_cqe",
			 (json_int_t)l->max_cqe, "max_rd_atomic", (json_int_t)l->max_rd_atomic,
			 "max_dest_rd_atomic", (json_int_t)l->max_dest_rd_atomic, "max_mr",
			 (json_int_t)l->max_mr, "max_mr_size", size_of(l->max_mr_size),
			 "max_msg_size", size_of(l->max_msg_size), "on_demand_paging",
			 l->on_demand_paging);
}

static json_t *json_device(const struct slime_topo_device *d)
{
	char guid[24];

	snprintf(guid, sizeof(guid), "0x%016llx", (unsigned long long)d->node_guid);
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:s, s:s, s:o, s:o, s:o}", "name", d->name,
			 "driver", d->driver, "firmware", d->firmware, "board", d->board, "pci",
			 d->pci, "numa_node", known(d->numa_node, 0), "node_guid", guid, "why",
			 d->why, "limits", json_limits(d->limits), "ports", json_ports(d), "gpus",
			 json_gpus(d));
}

json_t *devices_json(const struct slime_topo_devices *d)
{
	json_t *all = json_array();

	for (size_t i = 0; all && i < d->n_devices; i++) {
		if (json_array_append_new(all, json_device(d->devices[i]))) {
			json_decref(all);
			return NULL;
		}
	}
	return all;
}

int devices_print_json(const struct slime_topo_devices *d, FILE *to)
{
	json_t *all =
		json_pack("{s:s, s:i, s:s, s:o}", "slime", "devices", "usable_ports",
			  (int)devices_n_usable(d), "why", d->why, "devices", devices_json(d));
	int ret = 0;

	if (!all)
		return -ENOMEM;
	if (json_dumpf(all, to, JSON_INDENT(2)) || fputc('\n', to) == EOF || fflush(to))
		ret = -EIO;
	json_decref(all);
	return ret;
}
