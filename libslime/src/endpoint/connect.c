/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "src/endpoint/connect.h"
#include "src/transport/auth.h"

/* For an attempt over rdma, when there is no deadline and something else is to be tried after it.
 */
#define RDMA_PATIENCE_NS (5 * SL_NS_PER_S)

#define BETWEEN "; " /* reasons */

static void close_others(struct slime_endpoint *ep, const struct sl_attempt *keep)
{
	for (int i = 0; i < SLIME_TRANSPORT_MAX; i++) {
		struct sl_attempt *a = &ep->attempts[i];

		if (a != keep && a->conn && !a->broken)
			a->conn->ops->close(a->conn, -ECANCELED, "another transport came up");
	}
}

static void note_reason(struct slime_endpoint *ep, enum slime_transport t, const char *why)
{
	size_t at = strlen(ep->reasons), between = at ? strlen(BETWEEN) : 0, len;

	snprintf(ep->reasons + at, sizeof(ep->reasons) - at, "%s%s: %s", at ? BETWEEN : "",
		 slime_transport_name(t), why);
	len = strlen(ep->reasons + at);
	if (len > between)
		ep->reason_of[t] =
			(struct sl_reason){ (uint16_t)(at + between), (uint16_t)(len - between) };
}

void sl_connect_passed_over(const struct slime_endpoint *ep, char out[SLIME_CAUSE_TEXT_MAX])
{
	size_t len = 0;

	out[0] = '\0';
	for (int i = 0; i < SLIME_TRANSPORT_MAX && ep->attr.transports[i] != ep->transport; i++) {
		const struct sl_reason *r = &ep->reason_of[ep->attr.transports[i]];

		if (r->len)
			len += (size_t)snprintf(out + len, SLIME_CAUSE_TEXT_MAX - len, "%s%.*s",
						len ? BETWEEN : "", (int)r->len,
						ep->reasons + r->at);
	}
}

void sl_connect_attempt_failed(struct slime_endpoint *ep, const struct sl_attempt *a, int cause,
			       const char *why)
{
	note_reason(ep, a->transport, why);
	ep->last_error = cause ? cause : -ECONNREFUSED;
}

static void finish_connect_op(struct slime_endpoint *ep, int status)
{
	struct slime_op *op;

	pthread_mutex_lock(&ep->lock);
	op = ep->connect_op;
	ep->connect_op = NULL;
	pthread_mutex_unlock(&ep->lock);
	if (op)
		sl_op_finish(op, status, 0);
}

void sl_connect_succeeded(struct slime_endpoint *ep, struct sl_attempt *a)
{
	pthread_mutex_lock(&ep->lock);
	ep->transport = a->transport;
	ep->any_region = a->conn->any_region;
	pthread_mutex_unlock(&ep->lock);
	atomic_store(&ep->conn, a->conn);
	close_others(ep, a);
	sl_connect_drop_offers(ep);
	sl_log(sl_endpoint_level(ep, SLIME_LOG_INFO), "endpoint", "%s: connected over %s", ep->name,
	       slime_transport_name(a->transport));
	sl_endpoint_set_state(ep, SLIME_ENDPOINT_CONNECTED, 0, "");
	finish_connect_op(ep, 0);
}

void sl_connect_failed(struct slime_endpoint *ep, int cause, const char *why)
{
	bool shut = atomic_load(&ep->shut);

	if (shut) {
		sl_endpoint_set_state(ep, SLIME_ENDPOINT_CLOSED, 0, why);
	} else {
		sl_log(sl_endpoint_level(ep, SLIME_LOG_WARN), "endpoint", "%s: not connected: %s",
		       ep->name, why);
		sl_endpoint_set_state(ep, SLIME_ENDPOINT_BROKEN, cause, why);
	}
	finish_connect_op(ep, shut ? -ECANCELED : cause);
}

/* The key of the link: both secrets and names, in the order both ends know. */
static int make_key(struct slime_endpoint *ep)
{
	static const char label[] = "slime link key 1";
	uint8_t text[sizeof(label) + 2 * 16 + SL_SECRET_LEN];
	struct sl_writer w = { .at = text, .room = sizeof(text) };
	struct sl_link_id peer = { ep->peer.context, ep->peer.endpoint };
	const struct sl_link_id *first = ep->initiator ? &ep->self : &peer;
	const struct sl_link_id *second = ep->initiator ? &peer : &ep->self;
	int ret;

	sl_write_bytes(&w, label, sizeof(label));
	sl_write_u64(&w, first->context);
	sl_write_u64(&w, first->endpoint);
	sl_write_u64(&w, second->context);
	sl_write_u64(&w, second->endpoint);
	sl_write_bytes(&w, ep->initiator ? ep->peer.secret : ep->secret, SL_SECRET_LEN);
	ret = sl_auth_mac(ep->initiator ? ep->secret : ep->peer.secret, text, sizeof(text),
			  ep->key);
	sl_auth_wipe(text, sizeof(text));
	return ret;
}

static const struct sl_candidate *peer_candidate(const struct slime_endpoint *ep,
						 enum slime_transport t)
{
	for (unsigned i = 0; i < ep->peer.n; i++) {
		if (ep->peer.candidates[i].transport == t)
			return &ep->peer.candidates[i];
	}
	return NULL;
}

/* ---- offers ---- */

/* Ask each transport of the endpoint once. Under offer_lock. */
static void make_offer(struct slime_endpoint *ep, enum slime_transport t)
{
	struct sl_transport *transport = ep->ctx->transports[t];
	struct sl_offered *o = &ep->offered[t];
	struct sl_writer w = { .at = o->candidate.bytes, .room = sizeof(o->candidate.bytes) };

	o->asked = true;
	o->status = transport->ops->offer(transport, &ep->self, &ep->attr, &w, &o->offer, &o->why);
	if (!o->status && w.failed) {
		snprintf(o->why.text, sizeof(o->why.text), "its descriptor is too long");
		o->status = -EMSGSIZE;
	}
	o->candidate.transport = t;
	o->candidate.len = (uint16_t)(sizeof(o->candidate.bytes) - w.room);
}

static void make_offers(struct slime_endpoint *ep)
{
	pthread_mutex_lock(&ep->offer_lock);
	for (int i = 0; i < SLIME_TRANSPORT_MAX && ep->attr.transports[i] != SLIME_TRANSPORT_NONE;
	     i++) {
		if (!ep->offered[ep->attr.transports[i]].asked)
			make_offer(ep, ep->attr.transports[i]);
	}
	pthread_mutex_unlock(&ep->offer_lock);
	atomic_store(&ep->offers_made, true);
}

/* What is read here does not change after the offers were made. */
void sl_connect_no_transport(const struct slime_endpoint *ep, char out[SLIME_CAUSE_TEXT_MAX])
{
	size_t len = 0;

	out[0] = '\0';
	if (!atomic_load(&ep->offers_made))
		return;
	for (int i = 0; i < SLIME_TRANSPORT_MAX && ep->attr.transports[i] != SLIME_TRANSPORT_NONE &&
			len < SLIME_CAUSE_TEXT_MAX;
	     i++) {
		enum slime_transport t = ep->attr.transports[i];

		if (!ep->offered[t].status) {
			out[0] = '\0';
			return;
		}
		len += (size_t)snprintf(out + len, SLIME_CAUSE_TEXT_MAX - len, "%s%s: %s",
					len ? BETWEEN : "", slime_transport_name(t),
					ep->offered[t].why.text);
	}
}

void sl_connect_drop_offers(struct slime_endpoint *ep)
{
	pthread_mutex_lock(&ep->offer_lock);
	for (int t = 0; t < SLIME_TRANSPORT_MAX; t++) {
		struct sl_transport *transport = ep->ctx->transports[t];

		if (ep->offered[t].offer)
			transport->ops->drop_offer(transport, ep->offered[t].offer);
		ep->offered[t].offer = NULL;
	}
	pthread_mutex_unlock(&ep->offer_lock);
}

/* ---- attempts ---- */

/* The connection takes what was offered over. */
static int create_conn(struct slime_endpoint *ep, struct sl_transport *transport,
		       struct sl_conn_attr *attr, struct sl_attempt *a)
{
	struct sl_offered *o = &ep->offered[a->transport];
	struct sl_why why = { "" };
	int ret;

	pthread_mutex_lock(&ep->offer_lock);
	attr->offer = o->offer;
	attr->why = &why;
	ret = transport->ops->conn_create(transport, attr, &a->conn);
	attr->why = NULL;
	if (ret)
		note_reason(ep, a->transport,
			    o->status	? o->why.text
			    : *why.text ? why.text
					: strerror(-ret));
	else
		o->offer = NULL;
	pthread_mutex_unlock(&ep->offer_lock);
	return ret;
}

/*
 * Two fabrics that do not reach each other look like a peer that is late: an initiator that may
 * also take another transport leaves time for that one.
 */
static uint64_t attempt_deadline(const struct slime_endpoint *ep, enum slime_transport t)
{
	unsigned next = ep->next_candidate;
	uint64_t now;

	if (!ep->initiator || t != SLIME_TRANSPORT_RDMA || next >= SLIME_TRANSPORT_MAX ||
	    !peer_candidate(ep, ep->attr.transports[next]))
		return ep->deadline_ns;
	now = sl_clock_ns();
	if (ep->deadline_ns == SL_NEVER)
		return now + RDMA_PATIENCE_NS;
	return ep->deadline_ns <= now ? now : now + (ep->deadline_ns - now) / 2;
}

/* 0, and the attempt will tell how it went. */
static int try_transport(struct slime_endpoint *ep, enum slime_transport t,
			 const struct sl_conn_events *events)
{
	const struct sl_candidate *c = peer_candidate(ep, t);
	struct sl_transport *transport = ep->ctx->transports[t];
	struct sl_attempt *a = &ep->attempts[t];
	struct sl_conn_attr attr = {
		.events = events,
		.owner = a,
		.self = ep->self,
		.peer = { ep->peer.context, ep->peer.endpoint },
		.initiator = ep->initiator,
		.deadline_ns = attempt_deadline(ep, t),
		.name = ep->name,
	};
	int ret;

	if (!c) {
		const struct sl_offered *o = &ep->offered[t];

		note_reason(ep, t, o->status ? o->why.text : "the peer does not offer it");
		return -ECONNREFUSED;
	}
	attr.candidate = c->bytes;
	attr.candidate_len = c->len;
	memcpy(attr.key, ep->key, sizeof(attr.key));
	*a = (struct sl_attempt){ .ep = ep, .transport = t };
	ret = create_conn(ep, transport, &attr, a);
	sl_auth_wipe(attr.key, sizeof(attr.key));
	return ret;
}

/* The initiator tries one after the other, in its own order. */
static void try_next(struct slime_endpoint *ep, const struct sl_conn_events *events)
{
	while (ep->next_candidate < SLIME_TRANSPORT_MAX) {
		enum slime_transport t = ep->attr.transports[ep->next_candidate++];

		if (t == SLIME_TRANSPORT_NONE)
			break;
		if (try_transport(ep, t, events) == 0)
			return;
	}
	ep->next_candidate = SLIME_TRANSPORT_MAX;
	sl_connect_failed(ep, ep->last_error ? ep->last_error : -ECONNREFUSED, ep->reasons);
}

/* The acceptor waits on all transports that both ends allow. */
static void wait_on_all(struct slime_endpoint *ep, const struct sl_conn_events *events)
{
	unsigned n = 0;

	for (int i = 0; i < SLIME_TRANSPORT_MAX && ep->attr.transports[i] != SLIME_TRANSPORT_NONE;
	     i++)
		n += try_transport(ep, ep->attr.transports[i], events) == 0;
	if (!n)
		sl_connect_failed(ep, -ECONNREFUSED, ep->reasons);
}

bool sl_connect_has_attempt(const struct slime_endpoint *ep)
{
	for (int i = 0; i < SLIME_TRANSPORT_MAX; i++) {
		if (ep->attempts[i].conn)
			return true;
	}
	return false;
}

void sl_connect_step(struct slime_endpoint *ep, const struct sl_conn_events *events)
{
	if (!ep->started) {
		int ret = make_key(ep);

		ep->started = true;
		if (ret)
			sl_connect_failed(ep, ret, "no memory for the link's key");
		else if (ep->initiator)
			try_next(ep, events);
		else
			wait_on_all(ep, events);
		return;
	}
	if (sl_connect_has_attempt(ep))
		return;
	/* When the time is over it is so for all of them alike. */
	if (ep->initiator && sl_clock_ns() < ep->deadline_ns)
		try_next(ep, events);
	else
		sl_connect_failed(ep, ep->last_error ? ep->last_error : -ECONNREFUSED, ep->reasons);
}

/* Whether an initiator waits for the peer that is to greet it: if the peer has not tried the
 * transport yet, or its attempt failed. */
static int expects_as_initiator(const struct slime_endpoint *ep, enum slime_transport transport)
{
	const struct sl_attempt *a = &ep->attempts[transport];

	if (a->conn && !a->broken)
		return a->conn->ops->gave_way ? a->conn->ops->gave_way(a->conn) : -ENOENT;
	for (unsigned i = ep->next_candidate; i < SLIME_TRANSPORT_MAX; i++) {
		if (ep->attr.transports[i] == transport)
			return -EAGAIN;
	}
	return -ENOENT;
}

int sl_connect_expect(void *arg, enum slime_transport transport, uint64_t endpoint,
		      struct sl_expected *out)
{
	struct slime_context *ctx = arg;
	struct slime_endpoint *ep = NULL;
	struct sl_attempt *a;
	struct sl_list *e;
	enum slime_endpoint_state state;
	bool called;
	int ret;

	pthread_mutex_lock(&ctx->lock);
	sl_list_for_each (e, &ctx->endpoints) {
		ep = SL_CONTAINER_OF(e, struct slime_endpoint, link);
		if (ep->self.endpoint == endpoint)
			break;
		ep = NULL;
	}
	pthread_mutex_unlock(&ctx->lock);
	/* [token]: it stays, since it must see its end before it is destroyed. */
	if (!ep || atomic_load(&ep->shut))
		return -ENOENT;
	pthread_mutex_lock(&ep->lock);
	called = ep->connect_called;
	pthread_mutex_unlock(&ep->lock);
	if (!called || !ep->started)
		return -EAGAIN;
	a = &ep->attempts[transport];
	state = atomic_load(&ep->state);
	if (state == SLIME_ENDPOINT_CONNECTING || state == SLIME_ENDPOINT_CONNECTED)
		out->peer = (struct sl_link_id){ ep->peer.context, ep->peer.endpoint };
	if (state != SLIME_ENDPOINT_CONNECTING)
		return -ENOENT;
	if (ep->initiator)
		ret = expects_as_initiator(ep, transport);
	else
		ret = a->conn && !a->broken ? 0 : -ENOENT;
	if (ret)
		return ret;
	memcpy(out->key, ep->key, sizeof(out->key));
	out->conn = a->conn;
	return 0;
}

void sl_connect_destroy_broken(struct slime_endpoint *ep)
{
	for (int i = 0; i < SLIME_TRANSPORT_MAX; i++) {
		struct sl_attempt *a = &ep->attempts[i];
		struct sl_conn *conn;

		if (!a->conn || !a->broken)
			continue;
		conn = a->conn;
		/* First, so that a fork meanwhile finds nothing that is free already. */
		a->conn = NULL;
		a->broken = false;
		conn->ops->destroy(conn);
	}
}

/* ---- descriptors ---- */

int slime_endpoint_export(struct slime_endpoint *ep, void *buf, size_t cap)
{
	struct sl_endpoint_desc d = { .context = ep->self.context, .endpoint = ep->self.endpoint };
	int ret = sl_context_check(ep->ctx);

	if (ret)
		return ret;
	memcpy(d.secret, ep->secret, sizeof(d.secret));
	make_offers(ep);
	pthread_mutex_lock(&ep->offer_lock);
	for (int i = 0; i < SLIME_TRANSPORT_MAX && ep->attr.transports[i] != SLIME_TRANSPORT_NONE;
	     i++) {
		const struct sl_offered *o = &ep->offered[ep->attr.transports[i]];

		/* A transport by which the peer cannot reach us is not offered. */
		if (!o->status)
			d.candidates[d.n++] = o->candidate;
	}
	pthread_mutex_unlock(&ep->offer_lock);
	ret = sl_desc_write_endpoint(&d, buf, cap);
	sl_auth_wipe(&d, sizeof(d));
	return ret;
}

/* The lower id initiates: both ends agree without asking. */
static bool goes_first(const struct sl_link_id *a, const struct sl_link_id *b)
{
	return a->context != b->context ? a->context < b->context : a->endpoint < b->endpoint;
}

/* The peer is known from here on, and the op is ours. */
static int begin_connect(struct slime_endpoint *ep, const struct sl_endpoint_desc *peer,
			 int64_t timeout_ms, struct slime_op *op)
{
	struct sl_link_id peer_id = { peer->context, peer->endpoint };
	int ret = 0;

	pthread_mutex_lock(&ep->lock);
	if (ep->connect_called || atomic_load(&ep->shut)) {
		ret = ep->connect_called ? -EALREADY : -ENOTCONN;
	} else {
		ep->peer = *peer;
		ep->initiator = goes_first(&ep->self, &peer_id);
		ep->deadline_ns = sl_deadline_ns(timeout_ms);
		ep->connect_op = op;
		ep->connect_called = true;
		atomic_store(&ep->state, SLIME_ENDPOINT_CONNECTING);
	}
	pthread_mutex_unlock(&ep->lock);
	return ret;
}

static int connect_to(struct slime_endpoint *ep, const struct sl_endpoint_desc *peer,
		      int64_t timeout_ms, struct slime_op *op)
{
	int ret;

	if (op->ctx != ep->ctx ||
	    (peer->context == ep->self.context && peer->endpoint == ep->self.endpoint))
		return -EINVAL;
	ret = sl_op_begin(op);
	if (ret)
		return ret;
	make_offers(ep);
	ret = begin_connect(ep, peer, timeout_ms, op);
	if (ret)
		sl_op_abort(op);
	else
		sl_endpoint_ring(ep);
	return ret;
}

int slime_endpoint_connect(struct slime_endpoint *ep, const void *desc, size_t len,
			   int64_t timeout_ms, struct slime_op *op)
{
	struct sl_endpoint_desc peer;
	int ret = sl_context_check(ep->ctx);

	if (ret)
		return ret;
	ret = sl_desc_read_endpoint(&peer, desc, len) ? -EINVAL
						      : connect_to(ep, &peer, timeout_ms, op);
	/* Its secret is in there, also when the rest of it is no good. */
	sl_auth_wipe(&peer, sizeof(peer));
	return ret;
}
