/* SPDX-License-Identifier: Apache-2.0 */
/* The context's struct: progress, transports, regions, endpoints. */
#ifndef SL_CONTEXT_H
#define SL_CONTEXT_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "src/core/latency.h"
#include "src/core/op.h"
#include "src/core/poller.h"
#include "src/core/rate.h"
#include "src/progress/losses.h"
#include "src/progress/progress.h"
#include "src/core/region.h"
#include "src/transport/todo.h"
#include "src/transport/transport.h"
#include <slime/context.h>

struct sl_rpc;

/* Work of a layer above, embedded in its owner. run is called once for each time that the task is
 * put on the list. [token] */
struct sl_task {
	struct sl_todo_entry todo;
	void (*run)(struct sl_task *t);
};

struct slime_context {
	struct slime_context_attr attr; /* its strings are ours */
	uint64_t id;			/* random; of this incarnation */
	struct sl_region_table regions;
	struct sl_completions completions;
	struct sl_poller poller;
	int manual_fd; /* what the program of a manual context sleeps on; -1: it has a thread */
	bool tells_of_poller; /* that descriptor; under the lock of progress */
	struct sl_progress progress;
	struct sl_losses losses; /* [token] */
	struct sl_transport_env env;
	struct sl_transport *transports[SLIME_TRANSPORT_MAX]; /* NULL: not there */

	struct sl_rate rate;  /* of all links; [token] */
	struct sl_todo tasks; /* of struct sl_task; any thread puts them, the holder of the token
				 runs them */
	/* Of the endpoints: sl_transport_env's expect. NULL: there was none yet. */
	_Atomic(sl_expect_fn *) expect;

	pthread_mutex_t lock; /* of the lists below */
	struct sl_list endpoints;
	struct sl_list mems;
	uint32_t n_endpoints;
	_Atomic uint32_t n_regions;
	_Atomic uint32_t n_listeners;
	_Atomic uint64_t next_endpoint;

	_Atomic(struct sl_rpc *) rpc;			/* what calls share, made at first use */
	void (*rpc_destroy)(struct slime_context *ctx); /* and how it goes; NULL: it was not made */
	void (*rpc_forget)(struct slime_context *ctx);	/* the same, in a child after fork */
	/* The request of an op of the queue, NULL: it was answered instead of being handed out. */
	_Atomic(struct slime_rpc_request *(*)(struct slime_op *op)) rpc_hand_out;

	/* Look again at what sl_mr_abandon() refused: a thread of a transport's. */
	_Atomic(void (*)(struct slime_context *ctx)) rpc_tidy;
	_Atomic uint32_t n_tidying; /* such threads; what they look at stays until there is none */

	const uint32_t *alive; /* a page that a fork child sees empty */
	struct sl_latencies latencies;
};

/* -EPERM in a child after fork, else 0: the first thing every public function asks. */
static inline int sl_context_check(const struct slime_context *ctx)
{
	return __builtin_expect(*ctx->alive != 0, 1) ? 0 : -EPERM;
}

#endif
