/* SPDX-License-Identifier: Apache-2.0 */
#include "src/topo/topo_part.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/core/sysfs.h"
#include "src/transport/rdma/gid.h"

/* A file of the port; paths below it have no more folders than its own. */
#define PORT_DIR "class/infiniband/%s/ports/%u"

static void read_line(char *text, size_t cap, const struct sl_topo_port_of *of, uint32_t num,
		      const char *file)
{
	if (sl_sysfs_text(text, cap, of->root, PORT_DIR "/%s", of->device, num, file))
		text[0] = '\0';
}

/* ---- addresses ---- */

/* "fe80:0000:0000:0000:5054:00ff:fe12:3456". */
static bool parse_gid(const char *text, uint8_t raw[16])
{
	unsigned words[8];
	int end = 0;

	if (sscanf(text, "%4x:%4x:%4x:%4x:%4x:%4x:%4x:%4x%n", &words[0], &words[1], &words[2],
		   &words[3], &words[4], &words[5], &words[6], &words[7], &end) != 8 ||
	    text[end])
		return false;
	for (int i = 0; i < 8; i++) {
		raw[2 * i] = (uint8_t)(words[i] >> 8);
		raw[2 * i + 1] = (uint8_t)words[i];
	}
	return true;
}

/* The kernel names the first two types alike: the link layer tells them apart. */
static enum slime_gid_type gid_type(const char *text, enum slime_link_layer layer)
{
	if (!strcmp(text, "RoCE v2"))
		return SLIME_GID_ROCE_V2;
	return layer == SLIME_LINK_ETHERNET ? SLIME_GID_ROCE_V1 : SLIME_GID_IB;
}

/* -ENOENT beyond the end of the table; 1 for an entry that is not in use. */
static int read_gid(const struct sl_topo_port_of *of, const struct slime_topo_port *port,
		    uint32_t index, struct slime_gid *out)
{
	static const uint8_t zero[16];
	struct slime_gid gid = { .index = index };
	char text[64];
	int ret = sl_sysfs_text(text, sizeof(text), of->root, PORT_DIR "/gids/%u", of->device,
				port->num, index);

	if (ret == -ENOENT)
		return ret;
	if (ret || !parse_gid(text, gid.raw) || !memcmp(gid.raw, zero, sizeof(zero)))
		return 1;
	if (sl_sysfs_text(text, sizeof(text), of->root, PORT_DIR "/gid_attrs/types/%u", of->device,
			  port->num, index))
		text[0] = '\0';
	gid.type = gid_type(text, port->link_layer);
	if (sl_sysfs_text(gid.netdev, sizeof(gid.netdev), of->root, PORT_DIR "/gid_attrs/ndevs/%u",
			  of->device, port->num, index))
		gid.netdev[0] = '\0';
	*out = gid;
	return 0;
}

/* A table has a few entries in use, of up to a thousand. */
static int append(struct sl_topo_port *port, const struct slime_gid *gid)
{
	struct slime_gid *grown = realloc(port->gids, (port->pub.n_gids + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	grown[port->pub.n_gids++] = *gid;
	port->gids = grown;
	port->pub.gids = grown;
	return 0;
}

static int read_gids(const struct sl_topo_port_of *of, struct sl_topo_port *port)
{
	struct slime_gid gid;
	int ret = 0;

	for (uint32_t i = 0; i < SL_TOPO_GIDS_MAX && ret >= 0; i++) {
		ret = read_gid(of, &port->pub, i, &gid);
		if (!ret)
			ret = append(port, &gid);
	}
	return ret == -ENOMEM ? ret : 0;
}

/* ---- the interface ---- */

/* Every address of the port has it; a software device without an address names its parent. */
static void read_netdev(const struct sl_topo_port_of *of, struct sl_topo_port *port)
{
	int64_t mtu;

	for (size_t i = 0; i < port->pub.n_gids && !port->netdev[0]; i++)
		memcpy(port->netdev, port->pub.gids[i].netdev, sizeof(port->netdev));
	if (!port->netdev[0] && sl_sysfs_text(port->netdev, sizeof(port->netdev), of->root,
					      "class/infiniband/%s/parent", of->device))
		port->netdev[0] = '\0';
	if (port->netdev[0] && !sl_sysfs_number(&mtu, of->root, "class/net/%s/mtu", port->netdev) &&
	    mtu > 0)
		port->pub.netdev_mtu = (uint32_t)mtu;
}

/* ---- what can be said of it ---- */

static enum slime_link_layer link_layer(const struct sl_topo_port_of *of, uint32_t num)
{
	char text[32];

	read_line(text, sizeof(text), of, num, "link_layer");
	if (!of->speaks_ib)
		return SLIME_LINK_UNKNOWN;
	return !strcmp(text, "Ethernet")     ? SLIME_LINK_ETHERNET
	       : !strcmp(text, "InfiniBand") ? SLIME_LINK_INFINIBAND
					     : SLIME_LINK_UNKNOWN;
}

/* "4: ACTIVE" */
static enum ibv_port_state read_state(const struct sl_topo_port_of *of, struct sl_topo_port *port)
{
	char text[64];
	const char *name;

	read_line(text, sizeof(text), of, port->pub.num, "state");
	name = strchr(text, ' ');
	snprintf(port->state, sizeof(port->state), "%s", name ? name + 1 : "unknown");
	return (enum ibv_port_state)strtoul(text, NULL, 10);
}

/* "2.5 Gb/sec (1X SDR)"; the point is one in every locale. */
static uint32_t read_mbps(const struct sl_topo_port_of *of, uint32_t num)
{
	char text[64], *end;
	unsigned long gbps;
	uint32_t tenth = 0;

	read_line(text, sizeof(text), of, num, "rate");
	gbps = strtoul(text, &end, 10);
	if (end[0] == '.' && end[1] >= '0' && end[1] <= '9')
		tenth = (uint32_t)(end[1] - '0');
	return gbps < 1000000 ? (uint32_t)gbps * 1000 + tenth * 100 : 0;
}

static uint16_t read_lid(const struct sl_topo_port_of *of, uint32_t num)
{
	char text[32];

	read_line(text, sizeof(text), of, num, "lid");
	return (uint16_t)strtoul(text, NULL, 16);
}

static void read_mtu(const struct sl_topo_port_of *of, struct slime_topo_port *port)
{
	struct ibv_port_attr attr;

	if (of->verbs && !ibv_query_port(of->verbs->ibv, (uint8_t)port->num, &attr))
		port->mtu = sl_mtu_bytes(attr.active_mtu);
}

static int check(const struct sl_topo_port_of *of, const struct slime_topo_port *port,
		 enum ibv_port_state state, struct sl_device_why *why, struct sl_gid_choice *choice)
{
	struct sl_port p = {
		.num = (uint8_t)port->num,
		.link_layer = port->link_layer,
		.attr.state = state,
	};
	int ret = sl_port_check(&p, why);

	if (!ret) {
		ret = sl_gid_choose(port->gids, port->n_gids, port->link_layer, SL_GID_AUTO,
				    choice);
		snprintf(why->text, sizeof(why->text), "%s", choice->why);
	}
	if (of->why_not[0]) {
		snprintf(why->text, sizeof(why->text), "%s", of->why_not);
		ret = -ENODEV;
	}
	return ret;
}

static void judge(const struct sl_topo_port_of *of, struct sl_topo_port *port,
		  enum ibv_port_state state)
{
	struct sl_gid_choice choice = { .gid.index = 0 };
	struct sl_device_why why;

	port->pub.usable = !check(of, &port->pub, state, &why, &choice);
	port->pub.gid_index = port->pub.usable ? (int)choice.gid.index : -1;
	memcpy(port->why, why.text, sizeof(port->why));
}

int sl_topo_port_create(const struct sl_topo_port_of *of, uint32_t num, struct sl_topo_port **out)
{
	struct sl_topo_port *port = calloc(1, sizeof(*port));
	enum ibv_port_state state;
	int ret;

	if (!port)
		return -ENOMEM;
	port->pub.num = num;
	port->pub.state = port->state;
	port->pub.netdev = port->netdev;
	port->pub.why = port->why;
	port->pub.link_layer = link_layer(of, num);
	ret = read_gids(of, port);
	if (ret) {
		sl_topo_port_destroy(port);
		return ret;
	}
	state = read_state(of, port);
	port->pub.mbps = read_mbps(of, num);
	port->pub.lid = read_lid(of, num);
	read_netdev(of, port);
	read_mtu(of, &port->pub);
	judge(of, port, state);
	*out = port;
	return 0;
}

void sl_topo_port_destroy(struct sl_topo_port *port)
{
	if (!port)
		return;
	free(port->gids);
	free(port);
}
