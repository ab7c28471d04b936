/* SPDX-License-Identifier: Apache-2.0 */
/* What all calls of a context share: memory for long messages, workers, and the mailboxes to ring.
 */
#ifndef SL_RPC_H
#define SL_RPC_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/list.h"
#include "src/rpc/rpc_pool.h"
#include "src/core/worker.h"

struct slime_context;

/* Requests whose caller was answered while the handler still has them, of all links, and of one:
 * beyond this, a caller that gives up waits for its handler. */
#define SL_DETACHED_MAX	  1024
#define SL_DETACHED_SHARE 128

struct sl_rpc {
	struct slime_context *ctx;
	struct sl_pool pool;
	struct sl_workers workers;
	pthread_mutex_t lock; /* of mailboxes, and of starting workers */
	struct sl_list mailboxes;
	pthread_mutex_t detached_lock; /* of the next two, and of each mailbox's count */
	struct sl_list detached;       /* requests */
	uint32_t n_detached;
	_Atomic uint32_t n_starved; /* calls and requests that wait for memory of the pool */
	_Atomic uint64_t n_cancels; /* ever; before the mailboxes are rung for it */
};

/* The context's, made by who asks first; it goes with the context. -ENOMEM. */
int sl_rpc_get(struct slime_context *ctx, struct sl_rpc **out);

/* What keeps its context from being destroyed: services, calls, requests that outlived their link.
 */
void sl_rpc_add_child(struct slime_context *ctx);
void sl_rpc_remove_child(struct slime_context *ctx);

int sl_rpc_start_workers(struct sl_rpc *rpc);

/* Every mailbox looks after its calls: a call was cancelled, or memory came back. Any thread. */
void sl_rpc_ring(struct sl_rpc *rpc);

/* Give a chunk back, and tell those who wait for memory. */
void sl_rpc_put_chunk(struct sl_rpc *rpc, struct sl_chunk *chunk);

#endif
