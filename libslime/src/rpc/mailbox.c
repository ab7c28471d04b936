/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "src/progress/context.h"
#include "src/rpc/mailbox.h"
#include "src/progress/progress.h"
#include "src/rpc/rpc_request.h"
#include "src/rpc/rpc_service.h"

bool sl_mailbox_is_inside(const struct sl_mailbox *mb)
{
	return sl_workers_inside(&mb->n_running);
}

/* ---- the layer ---- */

static int create(struct slime_endpoint *ep, void **state)
{
	const struct slime_rpc_service *service = ep->attr.service;
	struct sl_mailbox *mb;
	struct sl_rpc *rpc;
	int ret = service && service->ctx != ep->ctx ? -EINVAL : sl_rpc_get(ep->ctx, &rpc);

	if (ret)
		return ret;
	mb = aligned_alloc(_Alignof(struct sl_mailbox), sizeof(*mb));
	if (!mb)
		return -ENOMEM;
	memset(mb, 0, sizeof(*mb));
	mb->ep = ep;
	mb->ctx = ep->ctx;
	mb->rpc = rpc;
	mb->service = ep->attr.service;
	sl_rpc_service_attach(mb->service);
	sl_calls_init(mb);
	sl_requests_init(mb);
	pthread_mutex_lock(&mb->rpc->lock);
	sl_list_append(&mb->rpc->mailboxes, &mb->link);
	pthread_mutex_unlock(&mb->rpc->lock);
	*state = mb;
	return 0;
}

static bool is_quiet(void *arg)
{
	return sl_requests_quiet(arg);
}

static void destroy(void *state)
{
	struct sl_mailbox *mb = state;

	pthread_mutex_lock(&mb->rpc->lock);
	sl_list_remove(&mb->link);
	pthread_mutex_unlock(&mb->rpc->lock);
	/* Handlers that run use the service, and the link's memory. */
	sl_progress_until(mb->ctx, is_quiet, mb, SL_NEVER);
	sl_requests_fini(mb);
	sl_calls_fini(mb);
	sl_rpc_service_detach(mb->service);
	free(mb);
}

static void forget(void *state)
{
	struct sl_mailbox *mb = state;

	for (unsigned i = 0; i < SL_CALL_SLOTS; i++) {
		if (mb->requests[i])
			sl_request_destroy(mb->requests[i]);
	}
	sl_pool_forget(&mb->calling);
	sl_pool_forget(&mb->serving);
	free(mb);
}

static bool msg(void *state, const struct sl_msg *m, const uint8_t *payload)
{
	struct sl_mailbox *mb = state;

	switch (m->kind) {
	case SL_MSG_REQUEST:
		return sl_requests_arrived(mb, m, payload);
	case SL_MSG_REPLY:
		return sl_calls_reply(mb, m, payload);
	case SL_MSG_CANCEL:
		return sl_requests_cancel(mb, m);
	default:
		return false;
	}
}

static void down(void *state, int cause)
{
	struct sl_mailbox *mb = state;

	/* From here on no thread rings an endpoint that may be about to be destroyed. */
	pthread_mutex_lock(&mb->rpc->lock);
	sl_list_remove(&mb->link);
	pthread_mutex_unlock(&mb->rpc->lock);
	mb->down = true;
	/* No reply comes from here on. */
	sl_progress_run_after(&mb->ctx->progress);
	sl_calls_down(mb, cause);
	sl_requests_down(mb);
}

static uint64_t progress(void *state)
{
	struct sl_mailbox *mb = state;
	uint64_t now = sl_clock_ns();
	uint64_t next = SL_NEVER;

	if (mb->down)
		return next;
	next = sl_earlier(next, sl_calls_poll(mb, now));
	next = sl_earlier(next, sl_requests_poll(mb, now));
	next = sl_earlier(next, sl_pool_trim(&mb->rpc->pool, &mb->calling, now));
	return sl_earlier(next, sl_pool_trim(&mb->rpc->pool, &mb->serving, now));
}

const struct sl_layer sl_mailbox_layer = {
	.create = create,
	.destroy = destroy,
	.forget = forget,
	.msg = msg,
	.down = down,
	.progress = progress,
};
