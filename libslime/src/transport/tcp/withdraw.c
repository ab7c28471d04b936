/* SPDX-License-Identifier: Apache-2.0 */
/* Regions that go: ours, which the peer may still use, and the peer's, which it told us of. */
#include <errno.h>

#include "base/clock.h"
#include "src/transport/tcp/tcp.h"

static bool names(const struct tcp_piece *pieces, unsigned n, const struct sl_region *r)
{
	for (unsigned i = 0; i < n; i++) {
		if (pieces[i].region == r->id && pieces[i].generation == r->generation)
			return true;
	}
	return false;
}

static bool stream_holds(const struct tcp_stream *s, const struct sl_region *r)
{
	if (s->rx && s->rx->holds && names(s->rx->pieces, s->rx->head.count, r))
		return true;
	for (unsigned i = 0; s->serves && i < TCP_REQUESTS; i++) {
		const struct tcp_serve *v = &s->serves->at[i];

		if (v->holds && names(v->pieces, v->head.count, r))
			return true;
	}
	return false;
}

/*
 * The time that the peer has to be done with r, from the first check on. A connection has one such
 * clock: another region waits for its turn, unless the thread that waited for that one has not
 * checked for long.
 */
static void be_patient(struct tcp_conn *c, const struct sl_region *r)
{
	uint64_t patience = c->t->transport.env->attr->tcp_user_timeout_ms * SL_NS_PER_MS / 2;
	uint64_t now = sl_clock_ns();
	bool is_ours = c->withdraw_until_ns && c->withdraw_generation == r->generation;

	if (is_ours && now >= c->withdraw_until_ns)
		tcp_conn_fail(c, -ECONNRESET, "the peer stalls on a region that is withdrawn");
	if (is_ours || (c->withdraw_until_ns && now < c->withdraw_until_ns + patience))
		return;
	c->withdraw_until_ns = now + patience;
	c->withdraw_generation = r->generation;
}

bool tcp_conn_holds(struct tcp_conn *c, const struct sl_region *r)
{
	bool holds = false;

	pthread_mutex_lock(&c->lock);
	for (unsigned i = 0; i < TCP_STREAMS_MAX; i++)
		holds = holds || (c->streams[i] && stream_holds(c->streams[i], r));
	pthread_mutex_unlock(&c->lock);
	if (holds)
		be_patient(c, r);
	else if (c->withdraw_generation == r->generation)
		c->withdraw_until_ns = 0;
	return holds;
}

void tcp_conn_withdraw(struct tcp_conn *c, const struct sl_region *r)
{
	bool told = tcp_conn_state(c) != TCP_CONN_UP;

	pthread_mutex_lock(&c->lock);
	for (unsigned i = 0; i < TCP_WITHDRAWN; i++)
		told = told || c->withdrawn[i] == r->generation;
	/* Without a place the peer learns it from the answer to its next request. */
	told = told || c->n_withdrawn - c->n_withdrawn_told == TCP_WITHDRAWN;
	if (!told)
		c->withdrawn[c->n_withdrawn++ % TCP_WITHDRAWN] = r->generation;
	pthread_mutex_unlock(&c->lock);
	if (!told)
		tcp_tx_flush(c->streams[0]);
}

bool tcp_conn_is_stale(struct sl_conn *conn, const struct slime_remote_mr *r)
{
	struct tcp_conn *c = tcp_conn_of(conn);
	bool stale = false;

	pthread_mutex_lock(&c->lock);
	for (unsigned i = 0; i < TCP_WITHDRAWN; i++)
		stale = stale || c->stale[i] == r->generation;
	pthread_mutex_unlock(&c->lock);
	return stale;
}
