/* SPDX-License-Identifier: Apache-2.0 */
/* The peer's regions, and ours that it has. */
#ifndef SL_RDMA_KEY_H
#define SL_RDMA_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "src/transport/rdma/wire.h"
#include "src/transport/transport.h"

struct rdma_conn;

enum rdma_key_state {
	RDMA_KEY_NEW,
	RDMA_KEY_ASKED,
	RDMA_KEY_READY,
	RDMA_KEY_REFUSED,
	RDMA_KEY_STALE, /* withdrawn, or never there */
};

/* A region of the peer's. Under the connection's lock. */
struct rdma_key {
	struct rdma_key *next; /* of its bucket */
	uint32_t id;
	enum rdma_key_state state;
	uint64_t generation;
	int status;
	uint32_t access;
	uint32_t n_inflight;
	bool tell; /* its withdrawal is acknowledged once nothing is in flight */
	uint64_t addr;
	uint64_t len;
	/* Its chunks, as at the owner: struct rdma_mr. */
	unsigned shift;
	unsigned n_chunks;
	unsigned n_asked;
	uint64_t asked, known; /* chunks */
	uint32_t *rkeys;       /* by chunk, RDMA_RAILS_MAX of each; NULL: not even one is known */
	uint32_t few[RDMA_RAILS_MAX];
};

#define RDMA_BUCKETS 64

/* a request of the peer that waits for a worker. [token] */
struct rdma_open {
	uint32_t id;
	uint64_t generation;
	uint64_t offset;
	struct sl_region *region; /* held */
};

/* Keys of a chunk that came before the rest: RDMA_KEYS. [token] */
struct rdma_more_keys {
	bool there;
	uint32_t id;
	uint64_t generation;
	uint16_t chunk;
	uint32_t rkeys[RDMA_RAILS_MAX - RDMA_KEYS_OPENED];
};

/* A region of ours that the peer was told is withdrawn. [token] */
struct rdma_told {
	uint32_t id;
	uint64_t generation; /* 0: none */
	uint64_t until_ns;   /* when the peer must have acknowledged it */
};

/* The key for r among a connection's, where that is the first of its bucket and READY, as nearly
 * all are; NULL: as rdma_key_get() says. Under lock. */
static inline struct rdma_key *rdma_key_at_hand(struct rdma_key *const keys[RDMA_BUCKETS],
						const struct slime_remote_mr *r)
{
	struct rdma_key *k = keys[r->id % RDMA_BUCKETS];

	return k && k->id == r->id && k->generation == r->generation && k->state == RDMA_KEY_READY
		       ? k
		       : NULL;
}

/* The key for r: 0, -EINPROGRESS (not there yet; to be asked for), or what was answered. Under
 * lock.
 */
int rdma_key_get(struct rdma_conn *c, const struct slime_remote_mr *r, struct rdma_key **out);
/* Ask for its keys of len bytes at offset, as far as they were not asked for and not too many are;
 * works are pumped when an answer comes. It sends: no chain is being built. Under lock. */
void rdma_key_ask(struct rdma_conn *c, const struct slime_remote_mr *r, uint64_t offset,
		  uint64_t len);

/* Where the keys are for the bytes at that address of the peer, in the region of k, which is READY:
 * NULL: to be asked for. */
static inline const uint32_t *rdma_key_at(const struct rdma_key *k, uint64_t addr)
{
	uint64_t chunk = (addr >> k->shift) - (k->addr >> k->shift);

	return k->known >> chunk & 1 ? &k->rkeys[chunk * RDMA_RAILS_MAX] : NULL;
}
/* Its withdrawal was asked for, and nothing is in flight any more. Under lock. */
void rdma_key_tell(struct rdma_conn *c, struct rdma_key *k);

/* One request less. Under lock. */
static inline void rdma_key_put(struct rdma_conn *c, struct rdma_key *k)
{
	if (!--k->n_inflight && k->tell)
		rdma_key_tell(c, k);
}

bool rdma_key_is_stale(struct sl_conn *conn, const struct slime_remote_mr *r);
/* OPENED arrived: false: broken protocol. *divided: the region turned out to have several chunks,
 * and what was looked ahead at knew of one. Under lock. [token] */
bool rdma_key_opened(struct rdma_conn *c, const struct sl_msg *m, bool *divided);
/* KEYS arrived: false: broken protocol. [token] */
bool rdma_key_more(struct rdma_conn *c, const struct sl_msg *m);
/* OPEN, WITHDRAW or WITHDRAWN arrived: false: broken protocol. [token] */
bool rdma_key_received(struct rdma_conn *c, const struct sl_msg *m);
void rdma_key_run(struct rdma_conn *c); /* answer what can be answered. [token] */
/* Whether the peer cannot reach r (any more); it is told. [token] */
bool rdma_key_withdraw(struct rdma_conn *c, const struct sl_region *r);
void rdma_key_end(struct rdma_conn *c); /* regions that are held for answers. [token] */
void rdma_key_free(struct rdma_conn *c);

#endif
