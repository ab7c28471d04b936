/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wire.h"
#include "src/core/desc.h"
#include "src/transport/rdma/device.h"
#include "src/transport/rdma/wire.h"

#include <errno.h>
#include <string.h>

#include <infiniband/verbs.h>

#include <slime/topo.h>

#define NUMBER_MAX   0xffffffu /* of queue pairs and packets: 24 bits */
#define NUMA_UNKNOWN 0xffffu

#define LAYER_GRH 0x80u /* beside the link layer */

static uint8_t layer_of(const struct rdma_rail_address *a)
{
	return (uint8_t)(a->link_layer | (a->grh_required ? LAYER_GRH : 0));
}

static void take_layer(struct rdma_rail_address *a, uint8_t layer)
{
	a->link_layer = (uint8_t)(layer & ~LAYER_GRH);
	a->grh_required = layer & LAYER_GRH;
}

/* ---- candidates ---- */

static void write_rail(const struct rdma_rail_address *a, const struct rdma_candidate *c,
		       struct sl_writer *w)
{
	sl_write_u8(w, layer_of(a));
	sl_write_u8(w, a->port);
	sl_write_u8(w, a->mtu);
	sl_write_u8(w, a->max_rd_atomic);
	sl_write_u8(w, a->max_dest_rd_atomic);
	sl_write_u8(w, a->position);
	sl_write_u16(w, a->lid);
	sl_write_bytes(w, a->gid, sizeof(a->gid));
	sl_write_u32(w, a->slots_key);
	sl_write_bytes(w, a->device, sizeof(a->device));
	sl_write_u16(w, a->numa_node < 0 ? NUMA_UNKNOWN : (uint16_t)a->numa_node);
	sl_write_u32(w, a->mbps);
	for (unsigned i = 0; i < c->n_qps; i++) {
		sl_write_u32(w, a->qps[i].qpn);
		sl_write_u32(w, a->qps[i].psn);
	}
}

void rdma_candidate_write(const struct rdma_candidate *c, struct sl_writer *w)
{
	sl_write_u8(w, RDMA_WIRE_VERSION);
	sl_write_u8(w, (uint8_t)c->n_rails);
	sl_write_u8(w, (uint8_t)c->n_qps);
	sl_write_u8(w, (uint8_t)c->pair);
	sl_write_u32(w, c->features);
	sl_write_u64(w, c->slots);
	sl_write_u64(w, c->min_bandwidth);
	sl_write_u8(w, (uint8_t)c->most_rails);
	sl_write_u8(w, (uint8_t)c->n_named);
	for (unsigned i = 0; i < c->n_rails; i++)
		write_rail(&c->rails[i], c, w);
	for (unsigned i = 0; i < c->n_named; i++) {
		sl_write_bytes(w, c->named[i].device, sizeof(c->named[i].device));
		sl_write_u8(w, c->named[i].port);
	}
}

/* It is shown to people. */
static bool is_name(const char *name)
{
	for (size_t i = 0; i < RDMA_NAME_LEN && name[i]; i++) {
		if (name[i] < '!' || name[i] > '~')
			return false;
	}
	return true;
}

static bool rail_is_sane(const struct rdma_rail_address *a, unsigned n_qps)
{
	if (a->link_layer != SLIME_LINK_INFINIBAND && a->link_layer != SLIME_LINK_ETHERNET)
		return false;
	if (!a->port || a->mtu < IBV_MTU_256 || a->mtu > IBV_MTU_4096 || !a->max_rd_atomic ||
	    !a->max_dest_rd_atomic || a->position >= RDMA_RAILS_MAX || !is_name(a->device))
		return false;
	for (unsigned i = 0; i < n_qps; i++) {
		if (a->qps[i].qpn > NUMBER_MAX || a->qps[i].psn > NUMBER_MAX)
			return false;
	}
	return true;
}

/* Words of RAIL: GID (2), then as follows, numbers of the queue pair and its first packet, rkey. */
enum { MTU_SHIFT = 16, LAYER_SHIFT = 24, READS_SHIFT = 32, ANSWERS_SHIFT = 40, PORT_SHIFT = 48 };

void rdma_rail_write(const struct rdma_rail_address *a, unsigned qp, struct sl_msg *m)
{
	m->flags = (uint8_t)qp;
	m->w[1] = sl_get_le64(a->gid);
	m->w[2] = sl_get_le64(a->gid + 8);
	m->w[3] = a->lid | (uint64_t)a->mtu << MTU_SHIFT | (uint64_t)layer_of(a) << LAYER_SHIFT |
		  (uint64_t)a->max_rd_atomic << READS_SHIFT |
		  (uint64_t)a->max_dest_rd_atomic << ANSWERS_SHIFT |
		  (uint64_t)a->port << PORT_SHIFT;
	m->w[4] = a->qps[qp].qpn | (uint64_t)a->qps[qp].psn << 32;
	m->w[5] = a->slots_key;
}

int rdma_rail_read(struct rdma_rail_address *a, unsigned n_qps, const struct sl_msg *m)
{
	struct rdma_rail_address got = *a;

	if (m->flags >= n_qps)
		return -EINVAL;
	sl_put_le64(got.gid, m->w[1]);
	sl_put_le64(got.gid + 8, m->w[2]);
	got.lid = (uint16_t)m->w[3];
	got.mtu = (uint8_t)(m->w[3] >> MTU_SHIFT);
	take_layer(&got, (uint8_t)(m->w[3] >> LAYER_SHIFT));
	got.max_rd_atomic = (uint8_t)(m->w[3] >> READS_SHIFT);
	got.max_dest_rd_atomic = (uint8_t)(m->w[3] >> ANSWERS_SHIFT);
	got.port = (uint8_t)(m->w[3] >> PORT_SHIFT);
	got.qps[m->flags].qpn = (uint32_t)m->w[4];
	got.qps[m->flags].psn = (uint32_t)(m->w[4] >> 32);
	got.slots_key = (uint32_t)m->w[5];
	if (!rail_is_sane(&got, n_qps) || got.link_layer != a->link_layer)
		return -EINVAL;
	*a = got;
	return 0;
}

static bool read_numa_node(struct rdma_rail_address *a, struct sl_reader *r)
{
	uint16_t node = sl_read_u16(r);

	a->numa_node = node == NUMA_UNKNOWN ? -1 : (int16_t)node;
	return node == NUMA_UNKNOWN || node <= SL_DEVICE_NUMA_MAX;
}

static bool read_rail(struct rdma_rail_address *a, const struct rdma_candidate *c,
		      struct sl_reader *r)
{
	take_layer(a, sl_read_u8(r));
	a->port = sl_read_u8(r);
	a->mtu = sl_read_u8(r);
	a->max_rd_atomic = sl_read_u8(r);
	a->max_dest_rd_atomic = sl_read_u8(r);
	a->position = sl_read_u8(r);
	a->lid = sl_read_u16(r);
	sl_read_bytes(r, a->gid, sizeof(a->gid));
	a->slots_key = sl_read_u32(r);
	sl_read_bytes(r, a->device, sizeof(a->device));
	if (!read_numa_node(a, r))
		return false;
	a->mbps = sl_read_u32(r);
	for (unsigned i = 0; i < c->n_qps; i++) {
		a->qps[i].qpn = sl_read_u32(r);
		a->qps[i].psn = sl_read_u32(r);
	}
	return !r->failed && rail_is_sane(a, c->n_qps);
}

/* No position twice. */
static bool read_rails(struct rdma_candidate *c, struct sl_reader *r)
{
	unsigned seen = 0;

	for (unsigned i = 0; i < c->n_rails; i++) {
		if (!read_rail(&c->rails[i], c, r) || seen & 1u << c->rails[i].position)
			return false;
		seen |= 1u << c->rails[i].position;
	}
	return true;
}

static bool read_named(struct rdma_candidate *c, struct sl_reader *r)
{
	for (unsigned i = 0; i < c->n_named; i++) {
		sl_read_bytes(r, c->named[i].device, sizeof(c->named[i].device));
		c->named[i].port = sl_read_u8(r);
		if (r->failed || !c->named[i].device[0] || !is_name(c->named[i].device))
			return false;
	}
	return true;
}

int rdma_candidate_read(struct rdma_candidate *c, const uint8_t *bytes, size_t len)
{
	struct sl_reader r = { .at = bytes, .left = len };
	struct rdma_candidate got = { 0 };
	uint8_t version = sl_read_u8(&r);
	uint8_t pair;

	if (!r.failed && version != RDMA_WIRE_VERSION)
		return -EPROTONOSUPPORT;
	got.n_rails = sl_read_u8(&r);
	got.n_qps = sl_read_u8(&r);
	pair = sl_read_u8(&r);
	got.features = sl_read_u32(&r);
	if (!r.failed && got.features & RDMA_FEATURES_REQUIRED & ~RDMA_FEATURES)
		return -EPROTONOSUPPORT;
	got.slots = sl_read_u64(&r);
	got.min_bandwidth = sl_read_u64(&r);
	got.most_rails = sl_read_u8(&r);
	got.n_named = sl_read_u8(&r);
	got.pair = (enum slime_rdma_pair)pair;
	if (r.failed || pair > SLIME_RDMA_PAIR_NAME || !got.n_rails ||
	    got.n_rails > RDMA_RAILS_MAX || !got.n_qps || got.n_qps > RDMA_QPS_MAX ||
	    !got.most_rails || got.most_rails > RDMA_RAILS_MAX || got.n_named > RDMA_RAILS_MAX)
		return -EINVAL;
	if (!read_rails(&got, &r) || !read_named(&got, &r) || r.left)
		return -EINVAL;
	*c = got;
	return 0;
}

/* ---- proofs ---- */

static void write_id(struct sl_writer *w, struct sl_link_id id)
{
	sl_write_u64(w, id.context);
	sl_write_u64(w, id.endpoint);
}

int rdma_proof_make(const struct rdma_proof *p, const uint8_t key[SL_AUTH_KEY_LEN],
		    uint8_t out[SL_AUTH_MAC_LEN])
{
	static const char label[] = "slime-rdma-ready-1";
	uint8_t said[sizeof(label) + 1 + 2 * 16 + 2 * (2 + SL_CANDIDATE_MAX)];
	struct sl_writer w = { .at = said, .room = sizeof(said) };

	sl_write_bytes(&w, label, sizeof(label) - 1);
	sl_write_u8(&w, p->initiator);
	write_id(&w, p->initiator_id);
	write_id(&w, p->acceptor_id);
	sl_write_u16(&w, (uint16_t)p->initiator_len);
	sl_write_bytes(&w, p->initiator_bytes, p->initiator_len);
	sl_write_u16(&w, (uint16_t)p->acceptor_len);
	sl_write_bytes(&w, p->acceptor_bytes, p->acceptor_len);
	return w.failed ? -EINVAL : sl_auth_mac(key, said, sizeof(said) - w.room, out);
}
