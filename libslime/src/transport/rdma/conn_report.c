/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports of its parts and of other threads to a connection. They note it, and have the holder of
 * the token run rdma_conn_run(), which decides what follows.
 */
#include <stdio.h>

#include "src/core/lock.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/transport.h"

void rdma_conn_set_state(struct rdma_conn *c, enum rdma_conn_state state)
{
	sl_lock(&c->lock);
	atomic_store_explicit(&c->state, state, memory_order_release);
	sl_unlock(&c->lock);
}

void rdma_conn_call(struct rdma_conn *c)
{
	const struct sl_transport_env *env = c->t->base.env;

	sl_todo_put(&c->t->todo, &c->todo);
	env->kick(env->arg);
}

void rdma_conn_end_because(struct rdma_conn *c, int cause, const char *why, bool local,
			   bool flushed)
{
	if (rdma_state(c) == RDMA_CONN_LEAVING) {
		atomic_store(&c->left, true);
	} else if (!atomic_load(&c->ending) || (c->end_flushed && !flushed)) {
		c->end_cause = cause;
		c->end_local = local;
		c->end_flushed = flushed;
		snprintf(c->end_why, sizeof(c->end_why), "%s", why);
		atomic_store(&c->ending, true);
	}
	rdma_conn_call(c);
}

void rdma_conn_fail_locked(struct rdma_conn *c, int cause, const char *why)
{
	rdma_conn_end_because(c, cause, why, false, false);
}

void rdma_conn_fail(struct rdma_conn *c, int cause, const char *why)
{
	sl_lock(&c->lock);
	rdma_conn_end_because(c, cause, why, false, false);
	sl_unlock(&c->lock);
}
