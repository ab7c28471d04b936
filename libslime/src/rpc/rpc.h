/* SPDX-License-Identifier: Apache-2.0 */
/* State that all calls of a context share: memory for long messages, workers, and mailboxes. */
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

/* The one of the context; the first call makes it, and it goes with the context. -ENOMEM. */
int sl_rpc_get(struct slime_context *ctx, struct sl_rpc **out);

/* Count a child, which keeps the context from being destroyed: a service, a call, or a request
 * that outlived its link. */
void sl_rpc_add_child(struct slime_context *ctx);
void sl_rpc_remove_child(struct slime_context *ctx);

int sl_rpc_start_workers(struct sl_rpc *rpc);

/* Every mailbox looks after its calls: a call was cancelled, or memory came back. Any thread. */
void sl_rpc_ring(struct sl_rpc *rpc);

/* Give a chunk back, and run the mailboxes that wait for memory. */
void sl_rpc_put_chunk(struct sl_rpc *rpc, struct sl_chunk *chunk);

#endif
