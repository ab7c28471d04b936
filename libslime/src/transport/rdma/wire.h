/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of the rdma transport: docs/wire.md. A candidate in an endpoint's descriptor, the frame
 * that every message is, and the proof in the first of them. Readers take hostile bytes.
 */
#ifndef SL_RDMA_WIRE_H
#define SL_RDMA_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <slime/context.h>

#include "base/wire.h"
#include "src/transport/auth.h"
#include "src/transport/transport.h"

#define RDMA_WIRE_VERSION 5

/* Features of rdma, as those of a greeting (hello.h): the same rules. */
#define RDMA_FEATURES	       UINT32_C(0)
#define RDMA_FEATURES_REQUIRED UINT32_C(0xffff0000)

#define RDMA_RAILS_MAX 8
#define RDMA_QPS_MAX   SL_RDMA_QPS_MAX
#define RDMA_NAME_LEN  16

#define RDMA_CHUNKS_MAX	     64 /* of a region */
#define RDMA_CHUNK_SHIFT_MIN 12

#define RDMA_FRAME_LEN	 56
#define RDMA_FRAME_PITCH 64 /* a cache line each */

/* Kinds of frames beside those of messages. */
enum rdma_kind {
	RDMA_READY = 128, /* w[0..3]: proof; the first frame */
	RDMA_OPEN,	/* len: id of a region, w[0]: generation, w[1], w[3]: secret, w[2]: offset:
			 * its key there is wanted */
	RDMA_OPENED,	/* the answer; w[1]: enum rdma_answer, and from bit 8 the shift of the
			 * region's chunks, 0: it is in one; slot: the chunk; flags: access, w[2]:
			 * address, w[3]: length, w[4..5]: keys of the first rails */
	RDMA_WITHDRAW,	/* len, w[0] as of OPEN: no new access */
	RDMA_WITHDRAWN, /* and none is under way any more */
	RDMA_CREDIT,	/* w[0]: immediates taken, ever */
	RDMA_BYE,	/* the link is closed in order; the last frame */
	RDMA_STOPPED,	/* slot: a rail, w[0]: its life: its queue pairs here are no more; w[1]:
			 * messages that were seen over it */
	RDMA_RAIL,	/* slot, w[0] as of STOPPED: a new queue pair of it, flags: its number,
			 * w[1..5]: where it is */
	RDMA_RISEN,	/* slot, w[0]: all of them can receive */
	RDMA_KEYS,	/* right before OPENED of one that offers more than RDMA_KEYS_OPENED rails:
			 * len, slot, w[0] as there, w[1..2]: keys of the other rails */
};

#define RDMA_KEYS_OPENED 4 /* rails whose keys are in OPENED */

enum rdma_answer {
	RDMA_ANSWER_OK,
	RDMA_ANSWER_STALE,
	RDMA_ANSWER_ACCESS,
	RDMA_ANSWER_MEMORY, /* it cannot be registered */
	RDMA_ANSWERS,
};

/* A slot's number in the immediate data of the write that fills it. */
#define RDMA_IMM_SLOT(area, slot) ((uint32_t)(area) << 16 | (slot))

struct rdma_qp_address {
	uint32_t qpn;
	uint32_t psn;
};

struct rdma_rail_address {
	uint8_t link_layer; /* enum slime_link_layer */
	bool grh_required;  /* the port takes no packet without a global route header */
	uint8_t port;
	uint8_t mtu; /* enum ibv_mtu */
	uint8_t max_rd_atomic;
	uint8_t max_dest_rd_atomic;
	uint8_t position; /* of the port among those that are configured */
	uint16_t lid;
	uint32_t mbps; /* link speed; 0: unknown */
	uint8_t gid[16];
	uint32_t slots_key;
	char device[RDMA_NAME_LEN]; /* may lack its terminator */
	int16_t numa_node;	    /* -1: unknown */
	struct rdma_qp_address qps[RDMA_QPS_MAX];
};

/* A port of the peer, by the peer's name for it. */
struct rdma_port_name {
	char device[RDMA_NAME_LEN]; /* may lack its terminator */
	uint8_t port;		    /* 0: each of the device */
};

struct rdma_candidate {
	unsigned n_rails;
	unsigned n_qps; /* of a rail */
	enum slime_rdma_pair pair;
	uint32_t features;
	uint64_t slots;
	uint64_t min_bandwidth; /* bits per second, of all rails of the link */
	unsigned most_rails;
	unsigned n_named; /* ports of the peer, and no others; 0: any */
	struct rdma_rail_address rails[RDMA_RAILS_MAX];
	struct rdma_port_name named[RDMA_RAILS_MAX];
};

void rdma_candidate_write(const struct rdma_candidate *c, struct sl_writer *w);
/* -EINVAL malformed, -EPROTONOSUPPORT another version, or it requires a feature that we do not
 * know. */
int rdma_candidate_read(struct rdma_candidate *c, const uint8_t *bytes, size_t len);

static inline void rdma_frame_write(const struct sl_msg *m, uint8_t out[RDMA_FRAME_LEN])
{
	struct sl_writer w = { .at = out, .room = RDMA_FRAME_LEN };

	sl_write_u8(&w, m->kind);
	sl_write_u8(&w, m->flags);
	sl_write_u16(&w, m->slot);
	sl_write_u32(&w, m->len);
	for (unsigned i = 0; i < sizeof(m->w) / sizeof(m->w[0]); i++)
		sl_write_u64(&w, m->w[i]);
}

static inline void rdma_frame_read(struct sl_msg *m, const uint8_t in[RDMA_FRAME_LEN])
{
	uint8_t bytes[RDMA_FRAME_LEN];
	struct sl_reader r = { .at = bytes, .left = sizeof(bytes) };

	/* The peer can write to slots at any time: what is decided on is a copy. */
	memcpy(bytes, in, sizeof(bytes));
	m->kind = sl_read_u8(&r);
	m->flags = sl_read_u8(&r);
	m->slot = sl_read_u16(&r);
	m->len = sl_read_u32(&r);
	for (unsigned i = 0; i < sizeof(m->w) / sizeof(m->w[0]); i++)
		m->w[i] = sl_read_u64(&r);
}

/* The port of a rail and one of its queue pairs, in the words of RAIL. */
void rdma_rail_write(const struct rdma_rail_address *a, unsigned qp, struct sl_msg *m);
/* -EINVAL malformed, or not a queue pair that there is; *a is untouched then. */
int rdma_rail_read(struct rdma_rail_address *a, unsigned n_qps, const struct sl_msg *m);

/* One end's word for it that it holds the link's key, and means these two candidates. */
struct rdma_proof {
	bool initiator; /* the end that made the proof */
	struct sl_link_id initiator_id, acceptor_id;
	const uint8_t *initiator_bytes, *acceptor_bytes; /* candidates */
	size_t initiator_len, acceptor_len;
};

/* 0 or -ENOMEM. */
SLIME_CHECKED int rdma_proof_make(const struct rdma_proof *p, const uint8_t key[SL_AUTH_KEY_LEN],
				  uint8_t out[SL_AUTH_MAC_LEN]);

#endif
