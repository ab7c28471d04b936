/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the peers' hosts are alive. A stopped peer lets its window close, and its kernel goes on
 * acknowledging: that is a stall, of any length. Death is when nothing is acknowledged. The
 * kernel's TCP_USER_TIMEOUT counts a closed window as both, so we check ourselves; silence without
 * pending data is for keep-alive.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include "base/clock.h"
#include "src/transport/tcp/tcp.h"

#define CHECKS_PER_TIMEOUT 4
/* Probes of a closed window in a row that were not answered. */
#define DEAD_PROBES 4

static uint64_t timeout_ns(const struct tcp_transport *t)
{
	return t->transport.env->attr->tcp_user_timeout_ms * SL_NS_PER_MS;
}

/* An acknowledgement between two looks breaks the silence, though both may find data under way. */
bool tcp_silence_lasts(uint64_t *since_ns, uint64_t now_ns, bool under_way, uint64_t ack_ago_ns,
		       uint64_t timeout_ns)
{
	if (!under_way)
		*since_ns = 0;
	else if (!*since_ns || ack_ago_ns < now_ns - *since_ns)
		*since_ns = now_ns;
	return *since_ns && now_ns - *since_ns >= timeout_ns;
}

/* Bytes that the peer's host has not acknowledged, or not been sent: its window may be closed. */
static bool is_under_way(const struct tcp_stream *s)
{
	int bytes = 0;

	return ioctl(s->fd, SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

/* Whether there is something under way. */
static bool look_at(struct tcp_stream *s, uint64_t now, uint64_t timeout_ns)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	if (!is_under_way(s) || getsockopt(s->fd, IPPROTO_TCP, TCP_INFO, &info, &len)) {
		s->silent_since_ns = 0;
		return false;
	}
	if (tcp_silence_lasts(&s->silent_since_ns, now, info.tcpi_unacked,
			      info.tcpi_last_ack_recv * SL_NS_PER_MS, timeout_ns) ||
	    (!info.tcpi_unacked && info.tcpi_probes >= DEAD_PROBES))
		tcp_conn_fail(s->conn, -ECONNRESET, "the peer's host does not answer");
	return true;
}

/* A link that has sent nothing since all was acknowledged is not looked at. */
static void look_at_conn(struct tcp_conn *c, uint64_t now, uint64_t timeout_ns)
{
	bool under_way = false;

	if (!atomic_load_explicit(&c->has_sent, memory_order_relaxed))
		return;
	atomic_store(&c->has_sent, false);
	for (unsigned i = 0; i < TCP_STREAMS_MAX; i++) {
		struct tcp_stream *s = c->streams[i];

		if (s && s->fd >= 0)
			under_way |= look_at(s, now, timeout_ns);
	}
	if (under_way)
		atomic_store(&c->has_sent, true);
}

static void on_time(struct sl_timer *timer)
{
	struct tcp_transport *t = SL_CONTAINER_OF(timer, struct tcp_transport, watch);
	uint64_t now = sl_clock_ns();
	struct sl_list *e;

	sl_list_for_each (e, &t->conns)
		look_at_conn(SL_CONTAINER_OF(e, struct tcp_conn, link), now, timeout_ns(t));
	tcp_watch_start(t);
}

void tcp_watch_init(struct tcp_transport *t)
{
	sl_timer_init(&t->watch, on_time);
}

void tcp_watch_start(struct tcp_transport *t)
{
	if (!sl_list_empty(&t->conns) && t->watch.when_ns == SL_NEVER)
		sl_timer_set(t->transport.env->poller, &t->watch,
			     sl_clock_ns() + timeout_ns(t) / CHECKS_PER_TIMEOUT);
}

void tcp_watch_stop(struct tcp_transport *t)
{
	sl_timer_cancel(t->transport.env->poller, &t->watch);
}
