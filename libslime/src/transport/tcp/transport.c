/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "src/transport/link_listener.h"
#include "src/transport/tcp/tcp.h"

/* Passes between two attempts to send on a stream that is blocked; the poller sees it, too. */
#define BLOCKED_PASSES 16
/* A turn of bulk takes as long as so many passes: the poller is looked at after it. */
#define PASSES_OF_TURN 4

static struct tcp_transport *tcp_of(struct sl_transport *t)
{
	return SL_CONTAINER_OF(t, struct tcp_transport, transport);
}

/* ---- the listener ---- */

static int refuse(const char *what, const char *text)
{
	sl_error("tcp", "%s: %s", text, what);
	return -EINVAL;
}

/* Where to listen, and what to tell peers; the port of the second is not known yet. */
static int parse_addresses(const struct slime_context_attr *attr, struct sockaddr_storage *bind_to,
			   struct sockaddr_storage *advertised)
{
	const char *text = attr->tcp_bind ? attr->tcp_bind : "127.0.0.1";
	int ret = tcp_parse_address(text, attr->tcp_port, bind_to);

	if (ret)
		return refuse("tcp_bind is no numeric address", text);
	if (!attr->tcp_advertise) {
		if (tcp_is_wildcard(bind_to))
			return refuse("tcp_bind is a wildcard and needs tcp_advertise", text);
		return tcp_parse_address(text, 0, advertised);
	}
	ret = tcp_parse_address(attr->tcp_advertise, 0, advertised);
	if (ret || tcp_is_wildcard(advertised))
		return refuse("tcp_advertise is no numeric address of a host", attr->tcp_advertise);
	return 0;
}

static uint16_t get_port(const struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET ? ((const struct sockaddr_in *)a)->sin_port
				       : ((const struct sockaddr_in6 *)a)->sin6_port;
}

static void set_port(struct sockaddr_storage *a, uint16_t port)
{
	if (a->ss_family == AF_INET)
		((struct sockaddr_in *)a)->sin_port = port;
	else
		((struct sockaddr_in6 *)a)->sin6_port = port;
}

/* At the first port of the attributes' range that is free; *at is then what the kernel made of it.
 */
static int listen_in_range(const struct slime_context_attr *attr, struct sockaddr_storage *at,
			   int *fd)
{
	unsigned last = attr->tcp_port_last ? attr->tcp_port_last : attr->tcp_port;
	int ret = -EADDRINUSE;

	for (unsigned port = attr->tcp_port; port <= last && ret == -EADDRINUSE; port++) {
		set_port(at, htons((uint16_t)port));
		ret = tcp_listen(at, fd);
	}
	return ret;
}

static int start_listening(struct tcp_transport *t)
{
	const struct slime_context_attr *attr = t->transport.env->attr;
	struct sockaddr_storage bind_to;
	char text[80];
	int fd, ret = parse_addresses(attr, &bind_to, &t->advertised);

	if (ret)
		return ret;
	tcp_format_address(&bind_to, text, sizeof(text));
	ret = listen_in_range(attr, &bind_to, &fd);
	if (ret) {
		if (attr->tcp_port_last)
			sl_error("tcp", "cannot listen at %s, or at a port up to %u: %s", text,
				 attr->tcp_port_last, strerror(-ret));
		else
			sl_error("tcp", "cannot listen at %s: %s", text, strerror(-ret));
		return ret;
	}
	set_port(&t->advertised, get_port(&bind_to));
	ret = sl_link_listener_create(&t->transport, fd, tcp_conn_adopt, &t->listener);
	if (ret)
		return ret;
	t->listens = true;
	tcp_format_address(&bind_to, text, sizeof(text));
	sl_info("tcp", "listening at %s", text);
	return 0;
}

static int create(const struct sl_transport_env *env, struct sl_transport **out)
{
	struct tcp_transport *t = calloc(1, sizeof(*t));
	int ret = 0;

	if (!t)
		return -ENOMEM;
	t->transport = (struct sl_transport){ .ops = &sl_tcp_transport, .env = env };
	t->polls = env->attr->polling != SLIME_POLLING_EVENT;
	sl_list_init(&t->conns);
	sl_list_init(&t->active);
	sl_list_init(&t->bulk);
	t->transport.watched[0] = &t->active;
	t->transport.watched[1] = &t->bulk;
	t->transport.todo = &t->todo;
	sl_list_init(&t->lingering);
	tcp_pools_init(t);
	tcp_watch_init(t);
	sl_todo_init(&t->todo);
	if (!env->attr->tcp_bind || *env->attr->tcp_bind)
		ret = start_listening(t);
	if (ret) {
		tcp_pools_fini(t);
		sl_todo_fini(&t->todo);
		free(t);
		return ret;
	}
	*out = &t->transport;
	return 0;
}

static void destroy(struct sl_transport *transport)
{
	struct tcp_transport *t = tcp_of(transport);

	sl_link_listener_destroy(t->listener);
	tcp_lingering_end_all(t);
	tcp_watch_stop(t);
	tcp_pools_fini(t);
	sl_todo_fini(&t->todo);
	free(t);
}

static void forget(struct sl_transport *transport)
{
	struct tcp_transport *t = tcp_of(transport);

	sl_link_listener_forget(t->listener);
	tcp_lingering_forget_all(t);
	tcp_pools_forget(t);
	free(t);
}

static int offer(struct sl_transport *transport, const struct sl_link_id *self,
		 const struct slime_endpoint_attr *attr, struct sl_writer *w, struct sl_offer **out,
		 struct sl_why *why)
{
	struct tcp_transport *t = tcp_of(transport);

	(void)self;
	(void)attr;
	*out = NULL;
	if (!t->listens) {
		snprintf(why->text, sizeof(why->text), "we do not listen");
		return -EOPNOTSUPP;
	}
	tcp_write_candidate(&t->advertised, w);
	return 0;
}

/* ---- progress ---- */

static unsigned run_todo(struct tcp_transport *t)
{
	unsigned passes = sl_todo_count(&t->todo);
	unsigned n = 0;
	struct sl_todo_entry *e;

	/* Connections that come in meanwhile have their turn in the next pass. */
	while (passes-- && (e = sl_todo_take(&t->todo)))
		n += tcp_conn_run(SL_CONTAINER_OF(e, struct tcp_conn, todo));
	return n;
}

/* Receive on it: a vain system call is one. */
static unsigned poll_stream(struct tcp_stream *s)
{
	unsigned n = tcp_rx_run(s);

	if (!n) {
		*s->conn->t->transport.env->vain_calls += 1;
		s->hot -= s->hot > 0;
	}
	return n;
}

/* Its messages; what else it has is for a turn. */
static unsigned look_at(struct tcp_transport *t, struct tcp_conn *c)
{
	uint32_t idle = atomic_fetch_add_explicit(&c->idle_passes, 1, memory_order_relaxed);
	bool retry = idle % BLOCKED_PASSES == 0 &&
		     atomic_load_explicit(&c->n_blocked, memory_order_relaxed);
	unsigned n = t->crowd ? 0 : poll_stream(c->streams[0]);

	if (retry)
		tcp_tx_unblock(c->streams[0]);
	for (unsigned i = 1; i < c->n_streams && !t->crowd; i++) {
		struct tcp_stream *s = c->streams[i];

		if (retry || atomic_load_explicit(&s->n_requests, memory_order_relaxed))
			tcp_bulk_add(s, retry);
	}
	if (n)
		atomic_store_explicit(&c->idle_passes, 0, memory_order_relaxed);
	else if (idle > TCP_HOT_PASSES)
		tcp_conn_rest(t, c);
	return n;
}

static void count_turn(struct tcp_transport *t)
{
	unsigned turns = atomic_load_explicit(&t->turns, memory_order_relaxed);

	if (turns < TCP_TURNS_ALONE)
		atomic_store_explicit(&t->turns, turns + 1, memory_order_relaxed);
}

/* Some bytes each way, for which messages of all connections wait. */
static unsigned bulk_turn(struct tcp_stream *s)
{
	struct tcp_transport *t = s->conn->t;
	bool tx = s->tx_due;
	unsigned n;

	s->tx_due = false;
	if (tx)
		tcp_tx_unblock(s);
	n = s->tx_due && ++s->n_turns % 4 ? 1 : poll_stream(s) + s->tx_due;
	if (n) {
		atomic_store_explicit(&s->conn->idle_passes, 0, memory_order_relaxed);
		*t->transport.env->passes += PASSES_OF_TURN;
		count_turn(t);
	}
	if (n || (t->polls && s->hot))
		tcp_bulk_add(s, false);
	return n;
}

/* A turn for the first that has something to do. */
static unsigned look_at_bulk(struct tcp_transport *t)
{
	struct sl_list *last = t->bulk.prev;
	struct sl_list *e;
	unsigned n = 0;

	while (!n && (e = sl_list_pop(&t->bulk))) {
		n = bulk_turn(SL_CONTAINER_OF(e, struct tcp_stream, bulk_link));
		if (e == last)
			break;
	}
	return n;
}

static unsigned ask_poller(struct tcp_transport *t)
{
	unsigned n = sl_poller_run(t->transport.env->poller, 0);

	if (!n)
		*t->transport.env->vain_calls += 1;
	return n;
}

static __attribute__((noinline)) unsigned look(struct tcp_transport *t)
{
	unsigned n = 0;

	if (sl_todo_count(&t->todo))
		n += run_todo(t);
	/* Of what waits for its turn the poller does not tell. */
	if (t->armed)
		return n + look_at_bulk(t);
	/* A connection that leaves the list meanwhile moves next_active on. */
	for (struct sl_list *e = t->active.next; e != &t->active; e = t->next_active) {
		t->next_active = e->next;
		n += look_at(t, SL_CONTAINER_OF(e, struct tcp_conn, active_link));
	}
	if (t->crowd)
		n += ask_poller(t);
	return n + look_at_bulk(t);
}

static unsigned progress(struct sl_transport *transport)
{
	struct tcp_transport *t = tcp_of(transport);

	return sl_transport_rests(transport) ? 0 : look(t);
}

/* The poller reports everything at any time: a thread that is about to sleep on it need not poll.
 */
static void arm(struct sl_transport *transport)
{
	tcp_of(transport)->armed = true;
}

static void disarm(struct sl_transport *transport)
{
	tcp_of(transport)->armed = false;
}

/* A peer that stalls gets its own time limit: withdraw.c. */
static bool withdraw(struct sl_transport *transport, const struct sl_region *r, uint64_t *asked_ns)
{
	struct tcp_transport *t = tcp_of(transport);
	bool gone = true;
	struct sl_list *e;

	(void)asked_ns;
	sl_list_for_each (e, &t->conns) {
		struct tcp_conn *c = SL_CONTAINER_OF(e, struct tcp_conn, link);

		tcp_conn_withdraw(c, r);
		if (tcp_conn_holds(c, r))
			gone = false;
	}
	return gone;
}

const struct sl_transport_ops sl_tcp_transport = {
	.id = SLIME_TRANSPORT_TCP,
	.create = create,
	.destroy = destroy,
	.forget = forget,
	.offer = offer,
	.conn_create = tcp_conn_create,
	.progress = progress,
	.arm = arm,
	.disarm = disarm,
	.withdraw = withdraw,
};
