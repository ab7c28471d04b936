/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for long messages: chunks of a power of two, cut from arenas that are regions. An account
 * is one side of one endpoint; its arenas are its own, because what a peer was once shown it may
 * look at for as long as the region lives. Memory stays with the account, since registering and
 * populating it is what costs; memory that was unused for a while is given back to the kernel.
 *
 * Any thread; the pool has a lock of its own, held for list work, and while regions are abandoned,
 * which takes the locks of regions and transports behind it.
 */
#ifndef SL_RPC_POOL_H
#define SL_RPC_POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include <slime/mr.h>

struct slime_context;

#define SL_CHUNK_MIN_SHIFT 14 /* 16 KiB */
#define SL_CHUNK_CLASSES   34 /* up to 128 TiB: the kernel refuses before we do */

/*
 * Bytes admitted for requests (other uses are bounded by those), of one account and of all that are
 * exposed, or are not. One that is larger is admitted when there is no other. What calls lend comes
 * back when the peer has read it: if its reading waited for calls of its own, two peers that call
 * each other could wait for ever.
 */
#define SL_ACCOUNT_ADMIT (UINT64_C(256) << 20)
#define SL_POOL_ADMIT	 (UINT64_C(1) << 30)

/* How long memory stays ours unused. */
#define SL_POOL_IDLE_MS 1000

struct sl_arena;

struct sl_chunk {
	struct sl_list link; /* among the free ones of its class */
	struct sl_arena *arena;
	uint8_t *addr;
	uint64_t offset;   /* of addr in its region */
	uint64_t admitted; /* bytes it counts for */
};

struct sl_account {
	bool exposed; /* the peer reads and writes its memory, which is mapped by peers on this host
		       */
	uint64_t admitted;
	bool has_idle; /* something that sl_pool_trim() could give back */
	uint64_t last_put_ns;
	struct sl_list arenas;
	struct sl_list free[SL_CHUNK_CLASSES];
};

struct sl_pool {
	struct slime_context *ctx;
	pthread_mutex_t lock;
	uint64_t admitted[2]; /* to accounts that are not exposed, and that are */
	struct sl_list stuck; /* arenas that go when no peer and no device reaches them */
};

void sl_pool_init(struct sl_pool *pool, struct slime_context *ctx);
void sl_pool_fini(struct sl_pool *pool); /* it is tidy */

/* Unmap memory of ended accounts that no peer and no device reaches any more. True: none is left.
 */
bool sl_pool_tidy(struct sl_pool *pool);

void sl_account_init(struct sl_account *a, bool exposed);

/*
 * A chunk of at least len bytes; admit: counted, and refused with -EAGAIN while too much is
 * admitted for others. beside: a chunk that is held for the same purpose, which waits for no other;
 * NULL: none. -ENOMEM; -ENOSPC no region is left.
 */
int sl_pool_get(struct sl_pool *pool, struct sl_account *a, uint64_t len, bool admit,
		const struct sl_chunk *beside, struct sl_chunk **out);

/* Whether chunks of so many bytes would be admitted at this moment. */
bool sl_pool_would_admit(struct sl_pool *pool, const struct sl_account *a, uint64_t bytes);

/* Says whether the account has idle memory now, and had none before. */
bool sl_pool_put(struct sl_pool *pool, struct sl_chunk *chunk);

/* The region the chunk lies in. */
struct slime_mr *sl_chunk_mr(const struct sl_chunk *chunk);

/* Give idle memory back to the kernel, some of it at a time. Returns when to come again, SL_NEVER
 * when nothing is left to do. */
uint64_t sl_pool_trim(struct sl_pool *pool, struct sl_account *a, uint64_t now_ns);

/* The account's connection has ended, and so does the account: its memory goes, and chunks that are
 * still out take theirs along later. */
void sl_pool_drop(struct sl_pool *pool, struct sl_account *a);

/* In a child after fork: all of the account's memory goes, and what no account has any more. */
void sl_pool_forget(struct sl_account *a);
void sl_pool_forget_stuck(struct sl_pool *pool);

#endif
