/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of an endpoint: what its connection tells goes to the layers, which are made with it and
 * told of its end.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/port_name.h"
#include "src/endpoint/connect.h"
#include "src/endpoint/endpoint.h"
#include "src/endpoint/endpoint_account.h"
#include "src/endpoint/pacer.h"
#include "src/endpoint/recv.h"
#include "src/endpoint/xfer.h"
#include "src/rpc/mailbox.h"
#include "src/transport/auth.h"

/* The layers that use the connection, and where each keeps its state. */
static const struct {
	const struct sl_layer *layer;
	size_t state;
} layers[] = {
	/* It ends the ops of the others, and so is told first. */
	{ &sl_pacer_layer, offsetof(struct slime_endpoint, pacer) },
	{ &sl_recv_layer, offsetof(struct slime_endpoint, recv) },
	{ &sl_mailbox_layer, offsetof(struct slime_endpoint, mailbox) },
};

#define N_LAYERS (sizeof(layers) / sizeof(layers[0]))

static void **layer_state(struct slime_endpoint *ep, size_t i)
{
	return (void **)(void *)((char *)ep + layers[i].state);
}

static void on_timer(struct sl_timer *t)
{
	sl_endpoint_queue(SL_CONTAINER_OF(t, struct slime_endpoint, timer));
}

/* ---- what a connection tells ---- */

static const struct sl_conn_events used_events;

/* Until the endpoint uses the connection, and after it decided not to, what the peer sends there
 * concerns no layer: they may have another connection, or none. */
static void on_ready(void *owner)
{
	struct sl_attempt *a = owner;
	struct slime_endpoint *ep = a->ep;

	if (atomic_load(&ep->state) != SLIME_ENDPOINT_CONNECTING || atomic_load(&ep->shut)) {
		a->conn->ops->close(a->conn, -ECANCELED, "the endpoint does not connect any more");
		return;
	}
	a->conn->events = &used_events;
	sl_connect_succeeded(ep, a);
}

static bool drop_msg(void *owner, const struct sl_msg *m, const uint8_t *payload)
{
	(void)owner;
	(void)m;
	(void)payload;
	return true;
}

/* One that is no request and no reply. */
static __attribute__((noinline)) bool take_rare(struct slime_endpoint *ep, const struct sl_msg *m,
						const uint8_t *payload)
{
	switch (m->kind) {
	case SL_MSG_IMM:
		return sl_xfer_on_imm(ep, m);
	case SL_MSG_SEND:
	case SL_MSG_SEND_DONE:
		return sl_recv_layer.msg(ep->recv, m, payload);
	case SL_MSG_CANCEL:
		return sl_mailbox_layer.msg(ep->mailbox, m, payload);
	default:
		return false;
	}
}

static inline bool take_msg(struct slime_endpoint *ep, const struct sl_msg *m,
			    const uint8_t *payload)
{
	if (m->kind == SL_MSG_REPLY)
		return sl_calls_reply(ep->mailbox, m, payload);
	if (m->kind == SL_MSG_REQUEST)
		return sl_requests_arrived(ep->mailbox, m, payload);
	return take_rare(ep, m, payload);
}

/* Whichever layer refuses it, the line that says why the connection is lost says what it was. */
__attribute__((cold, noinline)) static void refuse_msg(struct sl_attempt *a, const struct sl_msg *m)
{
	char why[96];

	snprintf(why, sizeof(why),
		 "the peer broke the protocol: message of kind %u, flags 0x%x, slot %u, %u bytes",
		 m->kind, m->flags, m->slot, m->len);
	a->conn->ops->close(a->conn, -EPROTO, why);
}

static bool on_msg(void *owner, const struct sl_msg *m, const uint8_t *payload)
{
	struct sl_attempt *a = owner;

	if (take_msg(a->ep, m, payload))
		return true;
	refuse_msg(a, m);
	return false;
}

/* The connection in use ended. */
static void went_down(struct slime_endpoint *ep, int cause, const char *why)
{
	enum slime_endpoint_state state = cause ? SLIME_ENDPOINT_BROKEN : SLIME_ENDPOINT_CLOSED;
	bool shut = atomic_load(&ep->shut);
	int end = shut ? -ECANCELED : -ECONNRESET; /* of pending operations, for each cause */

	/* From here on no thread enters; a thread that is inside leaves soon. */
	sl_endpoint_note_state(ep, state, cause, why);
	while (atomic_load(&ep->n_submitting))
		sched_yield();
	if (cause && !shut && ep->attr.quiet)
		sl_debug("endpoint", "%s: connection lost: %s", ep->name, why);
	else if (cause && !shut)
		sl_losses_note(ep->ctx, ep->name, why);
	sl_xfer_down(ep, end);
	for (size_t i = 0; i < N_LAYERS; i++)
		layers[i].layer->down(*layer_state(ep, i), end);
	sl_endpoint_tell_state(ep, state, cause);
}

static void on_broken(void *owner, int cause, const char *why)
{
	struct sl_attempt *a = owner;
	struct slime_endpoint *ep = a->ep;

	a->broken = true;
	if (a->conn && a->conn == atomic_load(&ep->conn)) {
		went_down(ep, cause, why);
	} else if (atomic_load(&ep->state) == SLIME_ENDPOINT_CONNECTING) {
		sl_connect_attempt_failed(ep, a, cause, why);
	}
	sl_endpoint_queue(ep);
}

static const struct sl_conn_events unused_events = {
	.ready = on_ready,
	.msg = drop_msg,
	.broken = on_broken,
};

static const struct sl_conn_events used_events = {
	.ready = on_ready,
	.msg = on_msg,
	.broken = on_broken,
};

/* ---- the end ---- */

static void close_step(struct slime_endpoint *ep)
{
	enum slime_endpoint_state state = atomic_load(&ep->state);

	for (int i = 0; i < SLIME_TRANSPORT_MAX; i++) {
		struct sl_attempt *a = &ep->attempts[i];

		if (a->conn && !a->broken)
			a->conn->ops->close(a->conn, 0, "closed");
	}
	if (sl_connect_has_attempt(ep))
		return;
	if (state == SLIME_ENDPOINT_CONNECTING)
		sl_connect_failed(ep, -ECANCELED, "closed");
	else if (state == SLIME_ENDPOINT_IDLE)
		sl_endpoint_set_state(ep, SLIME_ENDPOINT_CLOSED, 0, "");
}

static void run_layers(struct slime_endpoint *ep)
{
	uint64_t next = SL_NEVER;
	uint64_t now;

	/* A request from here on is asked again below; an earlier one is seen: the asking thread
	 * publishes it first, and then reads the time. */
	atomic_store(&ep->wake_ns, SL_NEVER);
	atomic_thread_fence(memory_order_seq_cst);
	for (size_t i = 0; i < N_LAYERS; i++) {
		uint64_t when;

		if (!layers[i].layer->progress)
			continue;
		when = layers[i].layer->progress(*layer_state(ep, i));
		if (when < next)
			next = when;
	}
	now = atomic_load(&ep->wake_ns);
	while (next < now && !atomic_compare_exchange_weak(&ep->wake_ns, &now, next))
		;
	sl_timer_set(&ep->ctx->poller, &ep->timer, next < now ? next : now);
}

static void run_endpoint(struct sl_task *task)
{
	struct slime_endpoint *ep = SL_CONTAINER_OF(task, struct slime_endpoint, task);

	sl_connect_destroy_broken(ep);
	run_layers(ep);
	if (atomic_load(&ep->shut))
		close_step(ep);
	else if (atomic_load(&ep->state) == SLIME_ENDPOINT_CONNECTING)
		sl_connect_step(ep, &unused_events);
	if (atomic_load(&ep->shut) && !sl_connect_has_attempt(ep)) {
		sl_timer_cancel(&ep->ctx->poller, &ep->timer);
		atomic_store(&ep->ended, true);
	}
}

void slime_endpoint_close(struct slime_endpoint *ep)
{
	if (sl_context_check(ep->ctx) || atomic_exchange(&ep->shut, true))
		return;
	sl_endpoint_ring(ep);
}

static bool has_ended(void *arg)
{
	struct slime_endpoint *ep = arg;

	return atomic_load(&ep->ended) && !atomic_load(&ep->n_submitting);
}

static void free_ports(struct slime_endpoint *ep)
{
	free((void *)(uintptr_t)ep->attr.rdma_devices);
	free((void *)(uintptr_t)ep->attr.rdma_peer_devices);
}

static void free_endpoint(struct slime_endpoint *ep)
{
	sl_connect_drop_offers(ep);
	for (size_t i = 0; i < N_LAYERS; i++) {
		if (*layer_state(ep, i))
			layers[i].layer->destroy(*layer_state(ep, i));
	}
	pthread_mutex_destroy(&ep->offer_lock);
	pthread_mutex_destroy(&ep->imm_lock);
	pthread_mutex_destroy(&ep->lock);
	free_ports(ep);
	sl_auth_wipe(ep, sizeof(*ep));
	free(ep);
}

/* In a child after fork. */
static void forget_endpoint(struct slime_endpoint *ep)
{
	for (size_t i = 0; i < N_LAYERS; i++)
		layers[i].layer->forget(*layer_state(ep, i));
	for (int i = 0; i < SLIME_TRANSPORT_MAX; i++) {
		struct sl_conn *conn = ep->attempts[i].conn;

		if (conn)
			conn->ops->forget(conn);
	}
	free_ports(ep);
	sl_auth_wipe(ep, sizeof(*ep));
	free(ep);
}

int slime_endpoint_destroy(struct slime_endpoint *ep)
{
	struct slime_context *ctx;
	int ret;

	if (!ep)
		return 0;
	ctx = ep->ctx;
	if (sl_context_check(ctx)) {
		forget_endpoint(ep);
		return 0;
	}
	if (sl_progress_in_callback() || sl_mailbox_is_inside(ep->mailbox))
		return -EDEADLK;
	slime_endpoint_close(ep);
	ret = sl_progress_until(ctx, has_ended, ep, SL_NEVER);
	if (ret)
		return ret;

	/* With the token no other thread uses it; after this no thread finds it. */
	sl_progress_enter(ctx);
	pthread_mutex_lock(&ctx->lock);
	sl_list_remove(&ep->link);
	ctx->n_endpoints--;
	pthread_mutex_unlock(&ctx->lock);
	sl_todo_forget(&ctx->tasks, &ep->task.todo);
	sl_timer_cancel(&ctx->poller, &ep->timer);
	sl_progress_leave(ctx);
	free_endpoint(ep);
	return 0;
}

/* ---- creation ---- */

static int copy_transports(struct slime_endpoint *ep, const struct slime_endpoint_attr *attr)
{
	static const enum slime_transport defaults[] = { SLIME_TRANSPORT_SHM, SLIME_TRANSPORT_RDMA,
							 SLIME_TRANSPORT_TCP };
	bool seen[SLIME_TRANSPORT_MAX] = { false };

	if (attr->transports[0] == SLIME_TRANSPORT_NONE) {
		unsigned n = 0;

		for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++) {
			if (ep->ctx->transports[defaults[i]])
				ep->attr.transports[n++] = defaults[i];
		}
		return 0;
	}
	for (int i = 0; i < SLIME_TRANSPORT_MAX && attr->transports[i] != SLIME_TRANSPORT_NONE;
	     i++) {
		enum slime_transport t = attr->transports[i];

		if ((unsigned)t >= SLIME_TRANSPORT_MAX || seen[t])
			return -EINVAL;
		if (!ep->ctx->transports[t])
			return -ENOTSUP;
		seen[t] = true;
	}
	return 0;
}

static int copy_ports(const char *list, const char **out)
{
	struct sl_port_name ports[SLIME_RAILS_MAX];
	size_t n;

	*out = NULL;
	if (!list)
		return 0;
	if (sl_port_names_parse(list, ports, SLIME_RAILS_MAX, &n))
		return -EINVAL;
	*out = strdup(list);
	return *out ? 0 : -ENOMEM;
}

/* Memory that is to be freed is ours from here on, also on an error. */
static int copy_attr(struct slime_endpoint *ep, const struct slime_endpoint_attr *attr)
{
	int ret;

	ep->attr = *attr;
	ep->attr.name = ep->name;
	ep->attr.rdma_peer_devices = NULL;
	ret = copy_ports(attr->rdma_devices, &ep->attr.rdma_devices);
	if (!ret)
		ret = copy_ports(attr->rdma_peer_devices, &ep->attr.rdma_peer_devices);
	if (ret)
		return ret;
	if (attr->rdma_qps > SL_RDMA_QPS_MAX || attr->rdma_rails > SLIME_RAILS_MAX)
		return -EINVAL;
	return copy_transports(ep, attr);
}

static int init_endpoint(struct slime_endpoint *ep, const struct slime_endpoint_attr *attr)
{
	int ret;

	ret = copy_attr(ep, attr);
	if (ret)
		return ret;
	ret = sl_auth_random(ep->secret, sizeof(ep->secret));
	if (ret)
		return ret;
	ep->self.context = ep->ctx->id;
	ep->self.endpoint = atomic_fetch_add(&ep->ctx->next_endpoint, 1);
	if (attr->name)
		snprintf(ep->name, sizeof(ep->name), "%s", attr->name);
	else
		snprintf(ep->name, sizeof(ep->name), "endpoint %llu",
			 (unsigned long long)ep->self.endpoint);
	for (size_t i = 0; i < N_LAYERS; i++) {
		ret = layers[i].layer->create(ep, layer_state(ep, i));
		if (ret)
			return ret;
	}
	return 0;
}

void slime_endpoint_attr_init(struct slime_endpoint_attr *attr)
{
	*attr = (struct slime_endpoint_attr)SLIME_ENDPOINT_ATTR_INIT;
}

int slime_endpoint_create(struct slime_context *ctx, const struct slime_endpoint_attr *attr,
			  struct slime_endpoint **out)
{
	static const struct slime_endpoint_attr defaults = SLIME_ENDPOINT_ATTR_INIT;
	struct slime_endpoint *ep;
	int ret = sl_context_check(ctx);

	if (ret)
		return ret;
	if (!attr)
		attr = &defaults;
	if (!attr->max_pending_ops)
		return -EINVAL;
	ep = calloc(1, sizeof(*ep));
	if (!ep)
		return -ENOMEM;
	ep->ctx = ctx;
	sl_list_init(&ep->link);
	sl_todo_entry_init(&ep->task.todo);
	ep->task.run = run_endpoint;
	sl_list_init(&ep->imm_ops);
	sl_timer_init(&ep->timer, on_timer);
	atomic_store(&ep->wake_ns, SL_NEVER);
	pthread_mutex_init(&ep->lock, NULL);
	pthread_mutex_init(&ep->imm_lock, NULL);
	pthread_mutex_init(&ep->offer_lock, NULL);
	ret = init_endpoint(ep, attr);
	if (ret)
		goto free_ep;

	atomic_store(&ctx->expect, sl_connect_expect);
	pthread_mutex_lock(&ctx->lock);
	if (ctx->n_endpoints < ctx->attr.max_endpoints) {
		ctx->n_endpoints++;
		sl_list_append(&ctx->endpoints, &ep->link);
	} else {
		ret = -ENOSPC;
	}
	pthread_mutex_unlock(&ctx->lock);
	if (ret)
		goto free_ep;
	*out = ep;
	return 0;

free_ep:
	free_endpoint(ep);
	return ret;
}

/* ---- what is seen of it ---- */

static void add_up_rails(struct sl_conn *conn, struct slime_endpoint_info *out)
{
	struct slime_rail_info rails[SLIME_RAILS_MAX];

	out->n_rails = (uint32_t)conn->ops->rails(conn, rails, SLIME_RAILS_MAX);
	for (uint32_t i = 0; i < out->n_rails; i++)
		out->bandwidth += rails[i].bandwidth;
	out->n_qps = rails[0].n_qps;
}

void slime_endpoint_info(const struct slime_endpoint *const_ep, struct slime_endpoint_info *out)
{
	struct slime_endpoint *ep = (struct slime_endpoint *)(uintptr_t)const_ep;
	struct sl_conn *conn;

	memset(out, 0, sizeof(*out));
	/* In a child after fork the lock may be another thread's, which is not there. */
	if (sl_context_check(ep->ctx))
		return;
	pthread_mutex_lock(&ep->lock);
	out->state = atomic_load(&ep->state);
	out->cause = ep->cause;
	memcpy(out->cause_text, ep->cause_text, sizeof(out->cause_text));
	out->transport = ep->transport;
	out->peer = ep->peer.context;
	if (ep->transport != SLIME_TRANSPORT_NONE)
		out->epoch = ep->initiator ? ep->self.endpoint << 32 | (uint32_t)ep->peer.endpoint
					   : ep->peer.endpoint << 32 | (uint32_t)ep->self.endpoint;
	if (out->state == SLIME_ENDPOINT_CONNECTED) {
		out->own_order = ep->initiator;
		sl_connect_passed_over(ep, out->passed_over);
	}
	pthread_mutex_unlock(&ep->lock);
	out->pending_ops = sl_endpoint_n_pending(ep);
	out->max_bandwidth = sl_pacer_cap(ep);
	sl_connect_no_transport(ep, out->no_transport);
	if (sl_endpoint_enter(ep, &conn) == 0) {
		conn->ops->address(conn, out->address, sizeof(out->address));
		out->foreign_memory = !conn->no_foreign;
		if (conn->no_foreign)
			snprintf(out->no_foreign_memory, sizeof(out->no_foreign_memory), "%s",
				 conn->no_foreign);
		if (conn->ops->rails)
			add_up_rails(conn, out);
		sl_endpoint_leave(ep);
	}
}

static const char *const rail_state_names[] = {
	[SLIME_RAIL_UP] = "up",
	[SLIME_RAIL_STOPPING] = "stopping",
	[SLIME_RAIL_DOWN] = "down",
	[SLIME_RAIL_RISING] = "rising",
};

const char *slime_rail_state_name(enum slime_rail_state state)
{
	return (unsigned)state <= SLIME_RAIL_RISING ? rail_state_names[state] : "unknown";
}

size_t slime_endpoint_rails(const struct slime_endpoint *const_ep, struct slime_rail_info *out,
			    size_t cap)
{
	struct slime_endpoint *ep = (struct slime_endpoint *)(uintptr_t)const_ep;
	struct sl_conn *conn;
	size_t n = 0;

	if (sl_context_check(ep->ctx) || sl_endpoint_enter(ep, &conn))
		return 0;
	if (conn->ops->rails)
		n = conn->ops->rails(conn, out, cap);
	sl_endpoint_leave(ep);
	return n;
}
