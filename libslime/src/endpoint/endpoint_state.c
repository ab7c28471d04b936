/* SPDX-License-Identifier: Apache-2.0 */
/* The state of an endpoint, and its place on its context's list of tasks. */
#include <stdio.h>

#include "src/endpoint/endpoint.h"

static const char *const state_names[] = {
	[SLIME_ENDPOINT_IDLE] = "idle",		  [SLIME_ENDPOINT_CONNECTING] = "connecting",
	[SLIME_ENDPOINT_CONNECTED] = "connected", [SLIME_ENDPOINT_BROKEN] = "broken",
	[SLIME_ENDPOINT_CLOSED] = "closed",
};

const char *slime_endpoint_state_name(enum slime_endpoint_state state)
{
	return (unsigned)state <= SLIME_ENDPOINT_CLOSED ? state_names[state] : "unknown";
}

void sl_endpoint_queue(struct slime_endpoint *ep)
{
	sl_todo_put(&ep->ctx->tasks, &ep->task.todo);
}

void sl_endpoint_ring(struct slime_endpoint *ep)
{
	sl_endpoint_queue(ep);
	sl_progress_kick(ep->ctx);
}

void sl_endpoint_wake_at(struct slime_endpoint *ep, uint64_t when_ns)
{
	uint64_t now = atomic_load_explicit(&ep->wake_ns, memory_order_relaxed);

	while (when_ns < now) {
		if (atomic_compare_exchange_weak(&ep->wake_ns, &now, when_ns)) {
			sl_endpoint_ring(ep);
			return;
		}
	}
}

void sl_endpoint_note_state(struct slime_endpoint *ep, enum slime_endpoint_state state, int cause,
			    const char *why)
{
	pthread_mutex_lock(&ep->lock);
	ep->cause = cause;
	snprintf(ep->cause_text, sizeof(ep->cause_text), "%s", why);
	atomic_store(&ep->state, state);
	pthread_mutex_unlock(&ep->lock);
}

void sl_endpoint_tell_state(struct slime_endpoint *ep, enum slime_endpoint_state state, int cause)
{
	if (ep->attr.on_state)
		ep->attr.on_state(ep->attr.arg, ep, state, cause);
}

void sl_endpoint_set_state(struct slime_endpoint *ep, enum slime_endpoint_state state, int cause,
			   const char *why)
{
	sl_endpoint_note_state(ep, state, cause, why);
	sl_endpoint_tell_state(ep, state, cause);
}

void sl_endpoint_fail(struct slime_endpoint *ep, int cause, const char *why)
{
	struct sl_conn *conn;

	if (sl_endpoint_enter(ep, &conn))
		return;
	conn->ops->close(conn, cause, why);
	sl_endpoint_leave(ep);
}
