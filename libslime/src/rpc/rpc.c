/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "src/progress/context.h"
#include "src/rpc/mailbox.h"
#include "src/rpc/rpc.h"

static struct sl_rpc *create(struct slime_context *ctx)
{
	struct sl_rpc *rpc = calloc(1, sizeof(*rpc));

	if (!rpc)
		return NULL;
	rpc->ctx = ctx;
	sl_pool_init(&rpc->pool, ctx);
	sl_workers_init(&rpc->workers);
	pthread_mutex_init(&rpc->lock, NULL);
	sl_list_init(&rpc->mailboxes);
	pthread_mutex_init(&rpc->detached_lock, NULL);
	sl_list_init(&rpc->detached);
	return rpc;
}

static void destroy(struct sl_rpc *rpc)
{
	sl_workers_fini(&rpc->workers);
	sl_pool_fini(&rpc->pool);
	pthread_mutex_destroy(&rpc->detached_lock);
	pthread_mutex_destroy(&rpc->lock);
	free(rpc);
}

/* A thread of a transport's. */
static void tidy_with(struct slime_context *ctx)
{
	struct sl_rpc *rpc = atomic_load(&ctx->rpc);

	if (rpc)
		(void)sl_pool_tidy(&rpc->pool);
}

/* No thread is in tidy_with() any more, either, and a thread that comes to it now finds nothing
 * there. */
static bool is_tidy(void *arg)
{
	struct sl_rpc *rpc = arg;

	return sl_pool_tidy(&rpc->pool) && !atomic_load(&rpc->ctx->n_tidying);
}

/* Memory that a device still reaches is waited for; if that takes too long the context stays, and
 * so does this. */
static void destroy_with(struct slime_context *ctx)
{
	struct sl_rpc *rpc = atomic_exchange(&ctx->rpc, NULL);
	uint64_t deadline_ns = sl_deadline_ns((int64_t)ctx->attr.tcp_user_timeout_ms);

	if (!rpc)
		return;
	if (sl_progress_until(ctx, is_tidy, rpc, deadline_ns))
		atomic_store(&ctx->rpc, rpc);
	else
		destroy(rpc);
}

static void forget_with(struct slime_context *ctx)
{
	struct sl_rpc *rpc = atomic_load(&ctx->rpc);

	if (!rpc)
		return;
	sl_pool_forget_stuck(&rpc->pool);
	free(rpc->workers.threads);
	free(rpc);
}

int sl_rpc_get(struct slime_context *ctx, struct sl_rpc **out)
{
	struct sl_rpc *rpc = atomic_load_explicit(&ctx->rpc, memory_order_acquire);
	struct sl_rpc *fresh;

	if (!rpc) {
		fresh = create(ctx);
		if (!fresh)
			return -ENOMEM;
		if (atomic_compare_exchange_strong(&ctx->rpc, &rpc, fresh)) {
			ctx->rpc_forget = forget_with;
			ctx->rpc_destroy = destroy_with;
			atomic_store(&ctx->rpc_tidy, tidy_with);
			rpc = fresh;
		} else {
			destroy(fresh);
		}
	}
	*out = rpc;
	return 0;
}

void sl_rpc_add_child(struct slime_context *ctx)
{
	atomic_fetch_add(&ctx->completions.n_ops, 1);
}

void sl_rpc_remove_child(struct slime_context *ctx)
{
	atomic_fetch_sub(&ctx->completions.n_ops, 1);
}

int sl_rpc_start_workers(struct sl_rpc *rpc)
{
	uint32_t n = rpc->ctx->attr.rpc_workers;
	int ret;

	pthread_mutex_lock(&rpc->lock);
	ret = sl_workers_start(&rpc->workers, n ? n : 1);
	pthread_mutex_unlock(&rpc->lock);
	return ret;
}

void sl_rpc_ring(struct sl_rpc *rpc)
{
	struct sl_list *e;

	pthread_mutex_lock(&rpc->lock);
	sl_list_for_each (e, &rpc->mailboxes) {
		struct sl_mailbox *mb = SL_CONTAINER_OF(e, struct sl_mailbox, link);

		/* One that is on its end leaves the list before it is destroyed. */
		if (atomic_load(&mb->ep->state) == SLIME_ENDPOINT_CONNECTED)
			sl_endpoint_ring(mb->ep);
	}
	pthread_mutex_unlock(&rpc->lock);
}

void sl_rpc_put_chunk(struct sl_rpc *rpc, struct sl_chunk *chunk)
{
	bool idle = sl_pool_put(&rpc->pool, chunk);

	/* Calls that wait for memory, or the timer that gives it back. */
	if (idle || atomic_load(&rpc->n_starved))
		sl_rpc_ring(rpc);
}
