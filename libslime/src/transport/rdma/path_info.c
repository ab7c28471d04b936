/* SPDX-License-Identifier: Apache-2.0 */
/* The description of a rail for people. */
#include <stdio.h>
#include <string.h>

#include "src/core/lock.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/offer.h"
#include "src/transport/rdma/pairing.h"
#include "src/transport/rdma/path.h"
#include "src/transport/rdma/wire.h"

static const enum slime_rail_state public_states[RDMA_PATH_STATES] = {
	/* Before the link is up, when no caller asks. */
	[RDMA_PATH_FALLEN] = SLIME_RAIL_RISING,
	[RDMA_PATH_RAISING] = SLIME_RAIL_RISING,
	[RDMA_PATH_SPOILED] = SLIME_RAIL_RISING,
	[RDMA_PATH_STANDING] = SLIME_RAIL_RISING,
	[RDMA_PATH_GREETING] = SLIME_RAIL_RISING,
	/* And then. */
	[RDMA_PATH_UP] = SLIME_RAIL_UP,
	[RDMA_PATH_KILLING] = SLIME_RAIL_STOPPING,
	[RDMA_PATH_DRAINING] = SLIME_RAIL_STOPPING,
	[RDMA_PATH_CLOSING] = SLIME_RAIL_STOPPING,
	[RDMA_PATH_STOPPED] = SLIME_RAIL_STOPPING,
	[RDMA_PATH_DOWN] = SLIME_RAIL_DOWN,
	[RDMA_PATH_MAKING] = SLIME_RAIL_DOWN,
	[RDMA_PATH_MADE] = SLIME_RAIL_DOWN,
	[RDMA_PATH_RISING] = SLIME_RAIL_RISING,
	[RDMA_PATH_RISEN] = SLIME_RAIL_RISING,
	[RDMA_PATH_PROVING] = SLIME_RAIL_RISING,
};

/* Under lock. */
static void tell_people(const struct rdma_path *p, struct slime_rail_info *out)
{
	const char *peer = p->c->peer.rails[p->peer_rail].device;
	uint32_t ours = p->rail->local.mbps, peers = p->c->peer.rails[p->peer_rail].mbps;

	*out = (struct slime_rail_info){
		.state = p->failed ? SLIME_RAIL_STOPPING : public_states[p->state],
	};
	snprintf(out->device, sizeof(out->device), "%.48s:%u", p->rail->nic->device.name,
		 p->rail->nic->port);
	snprintf(out->peer, sizeof(out->peer), "%.*s:%u", RDMA_NAME_LEN, peer,
		 p->c->peer.rails[p->peer_rail].port);
	out->n_qps = p->n_qps;
	out->bandwidth = UINT64_C(1000000) * (ours < peers ? ours : peers);
	out->share = p->usable ? (uint32_t)rdma_path_part(p, 1000) : 0;
	out->n_failures = p->n_failed;
	out->bytes = p->n_moved;
	memcpy(out->error, p->error, sizeof(out->error));
	memcpy(out->why, p->why, sizeof(out->why));
}

void rdma_path_explain(struct rdma_path *p)
{
	char paired[56];

	rdma_pairing_text(&p->c->pairing, p->index, paired, sizeof(paired));
	snprintf(p->why, sizeof(p->why), "%s; %s", paired, p->rail->gid_why);
}

size_t rdma_path_rails(struct sl_conn *conn, struct slime_rail_info *out, size_t cap)
{
	struct rdma_conn *c = rdma_conn_of(conn);

	sl_lock(&c->lock);
	for (unsigned i = 0; i < c->n_paths && i < cap; i++)
		tell_people(&c->paths[i], &out[i]);
	sl_unlock(&c->lock);
	return c->n_paths;
}

void rdma_path_describe(struct rdma_conn *c)
{
	const struct rdma_rail *rail = c->paths[0].rail;
	const struct rdma_rail_address *to = &c->peer.rails[c->paths[0].peer_rail];
	char gid[SLIME_GID_TEXT_MAX];

	snprintf(c->address, sizeof(c->address), "%.24s GID %u to %.16s %s", rail->nic->device.name,
		 rail->gid_index, to->device[0] ? to->device : "?", slime_gid_text(to->gid, gid));
}
