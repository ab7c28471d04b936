/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of a context's regions: what every transport checks a peer's access against. A slot's
 * generation is never used again, so that an old descriptor never reaches new memory.
 */
#ifndef SL_REGION_H
#define SL_REGION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include <slime/mr.h>

enum sl_region_kind {
	SL_REGION_FOREIGN, /* the user's own memory */
	SL_REGION_MEMFD,   /* within a slime_mem: peers on this host map it */
	SL_REGION_DEVICE,  /* no CPU may touch it */
};

enum sl_region_state {
	SL_REGION_FREE,
	SL_REGION_LIVE,
	SL_REGION_CLOSING,   /* no new op of ours; withdrawn if there is none, else live again */
	SL_REGION_WITHDRAWN, /* no new access; the slot is not free until the last user left */
};

struct sl_region {
	_Atomic uint32_t state;	  /* enum sl_region_state */
	_Atomic uint32_t n_users; /* accesses by peers under way (sl_region_acquire) */
	_Atomic uint32_t n_ops;	  /* own ops pending on it */
	_Atomic bool pinned; /* a device reaches the pages it has now, until the slot is free */
	uint32_t id;
	uint32_t access;
	uint64_t secret[2]; /* in its descriptor: a link shows it before it is used */
	uint64_t loan_to;   /* an endpoint, whose peer alone reaches it, and shows no secret; 0 */
	bool restricted;    /* see struct slime_mr_attr */
	enum sl_region_kind kind;
	uint64_t generation;
	uint8_t *base;
	uint64_t len;
	int memfd; /* kind MEMFD: borrowed from the slime_mem */
	uint64_t memfd_offset;
	uint64_t memfd_len; /* of the whole file */
	bool on_demand;	    /* see struct slime_mr_attr */
	bool has_address;   /* kind DEVICE: base is one of this process */
	int dmabuf_fd;	    /* kind DEVICE: the handle's; -1: none */
	uint64_t dmabuf_offset;
	struct slime_mr *handle; /* also where its user has forgotten one that a peer reaches */
	struct sl_list link;	 /* among the table's free ones */
};

struct sl_region_table {
	pthread_mutex_t lock; /* of allocation and release */
	uint64_t owner;	      /* the context's id, in every descriptor */
	uint64_t next_generation;
	uint32_t n;
	struct sl_region *slots;
	_Atomic bool on_demand; /* there was one whose pages are not locked */
	struct sl_list free; /* the one that was given back last is first, so that ids stay small */
};

int sl_region_table_init(struct sl_region_table *t, uint64_t owner, uint32_t n);
void sl_region_table_fini(struct sl_region_table *t);

/* A free slot, filled and live: -ENOSPC when there is none. */
int sl_region_add(struct sl_region_table *t, const struct sl_region *what, struct sl_region **out);

/* No access begins after this returns. */
void sl_region_withdraw(struct sl_region *r);

/* Give the slot back; it is withdrawn and has no users. */
void sl_region_remove(struct sl_region_table *t, struct sl_region *r);

#define SL_WRONG_SECRETS 3 /* of a peer: its link ends */

/*
 * A peer shows the secret of a region: 0, -ESTALE no such region, or another generation, or one
 * that has no secret, -EACCES another secret. Any thread.
 */
int sl_region_check_secret(struct sl_region_table *t, uint32_t id, uint64_t generation,
			   const uint64_t secret[2]);

/* The link for which an access is asked. */
struct sl_region_user {
	uint64_t endpoint; /* ours, of the link */
	bool shown;	   /* its peer has shown the secret of this generation */
};

/*
 * Begin an access to len bytes at offset by a peer: *ptr is valid until sl_region_release(). access
 * is one of enum slime_access. -ESTALE  no such region for this peer, or another generation
 * -ERANGE  outside     -EACCES  not granted
 */
int sl_region_acquire(struct sl_region_table *t, struct sl_region_user user, uint32_t id,
		      uint64_t generation, uint64_t offset, uint64_t len, uint32_t access,
		      struct sl_region **out, uint8_t **ptr);
void sl_region_release(struct sl_region *r);

/* A user's handle is its slot. */
struct slime_mr {
	struct sl_region *region;
	struct slime_context *ctx;
	struct slime_mem *mem; /* NULL: the user's own memory */
};

#endif
