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
#include <string.h>
#include <sys/ioctl.h>

#include "base/clock.h"
#include "src/transport/tcp/tcp.h"

#define CHECKS_PER_TIMEOUT 4
/* Probes of a closed window in a row that were not answered. */
#define DEAD_PROBES 4
/* For the answer to the last probe of a link at rest; and for so long we have to have seen that it
 * was probed: our own process may have stood still. */
#define LAST_PROBE_NS (100 * SL_NS_PER_MS)
#define SEEN_NS	      (600 * SL_NS_PER_MS)
#define HOSTS	      1024 /* that a pass tells apart */

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

/* ---- links at rest ---- */

/*
 * The kernel probes an idle stream a second after the last acknowledgement, and each second from
 * then on. Its own verdict comes a second later than it could be known.
 */
static uint64_t idle_limit_ns(uint64_t timeout_ns)
{
	uint64_t probed_ns = SL_NS_PER_S + (timeout_ns < SL_NS_PER_S ? timeout_ns : SL_NS_PER_S);

	return (timeout_ns > probed_ns ? timeout_ns : probed_ns) + LAST_PROBE_NS;
}

bool tcp_idle_lasts(uint64_t *since_ns, uint64_t now_ns, bool probed, uint64_t ack_ago_ns,
		    uint64_t timeout_ns, uint64_t *look_ns)
{
	uint64_t over_ns;

	if (!probed)
		*since_ns = 0;
	else if (!*since_ns || ack_ago_ns < now_ns - *since_ns)
		*since_ns = now_ns;
	if (!*since_ns)
		return false;
	over_ns = now_ns - ack_ago_ns + idle_limit_ns(timeout_ns);
	if (over_ns < *since_ns + SEEN_NS)
		over_ns = *since_ns + SEEN_NS;
	if (now_ns >= over_ns)
		return true;
	*look_ns = sl_earlier(*look_ns, over_ns);
	return false;
}

static bool is_at_rest(struct tcp_conn *c)
{
	return tcp_conn_state(c) == TCP_CONN_UP && c->streams[0] && c->streams[0]->fd >= 0 &&
	       !atomic_load_explicit(&c->has_sent, memory_order_relaxed);
}

/* Whether a probe waits for its answer. The first stream stands for all of them. */
static bool is_probed(const struct tcp_conn *c, uint64_t *ack_ago_ns)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	if (getsockopt(c->streams[0]->fd, IPPROTO_TCP, TCP_INFO, &info, &len))
		return false;
	*ack_ago_ns = info.tcpi_last_ack_recv * SL_NS_PER_MS;
	return !info.tcpi_unacked && info.tcpi_probes;
}

/* Of the peer's address without its port. */
static uint32_t hash_host(const struct tcp_conn *c)
{
	const char *end = strrchr(c->address, ':');
	uint32_t h = 2166136261u;

	for (const char *at = c->address; *at && at != end; at++)
		h = (h ^ (uint8_t)*at) * 16777619u;
	return h;
}

/* What was looked at in this pass: a bit for each host. */
struct hosts {
	uint64_t bits[HOSTS / 64];
};

static bool is_first_of_host(struct hosts *hosts, uint32_t hash)
{
	uint64_t *word = &hosts->bits[hash % HOSTS / 64], bit = UINT64_C(1) << hash % 64;
	bool first = !(*word & bit);

	*word |= bit;
	return first;
}

static void look_at_host(struct tcp_transport *t, uint32_t hash, uint64_t now, uint64_t *look_ns)
{
	uint64_t ack_ago_ns = 0;
	struct sl_list *e;

	sl_list_for_each (e, &t->conns) {
		struct tcp_conn *c = SL_CONTAINER_OF(e, struct tcp_conn, link);
		bool probed;

		if (!is_at_rest(c) || hash_host(c) != hash)
			continue;
		probed = is_probed(c, &ack_ago_ns);
		if (tcp_idle_lasts(&c->idle_since_ns, now, probed, ack_ago_ns, timeout_ns(t),
				   look_ns))
			tcp_conn_fail(c, -ECONNRESET, "the peer's host does not answer");
	}
}

/* Of the links at rest to a host one is looked at, unless that finds a probe without its answer. */
static void look_at_rest(struct tcp_transport *t, struct tcp_conn *c, struct hosts *hosts,
			 uint64_t now, uint64_t *look_ns)
{
	uint32_t hash = hash_host(c);
	uint64_t ack_ago_ns;

	if (is_first_of_host(hosts, hash) && is_probed(c, &ack_ago_ns))
		look_at_host(t, hash, now, look_ns);
}

static void on_time(struct sl_timer *timer)
{
	struct tcp_transport *t = SL_CONTAINER_OF(timer, struct tcp_transport, watch);
	uint64_t now = sl_clock_ns(), look = now + timeout_ns(t) / CHECKS_PER_TIMEOUT;
	struct hosts hosts = { { 0 } };
	struct sl_list *e;

	sl_list_for_each (e, &t->conns) {
		struct tcp_conn *c = SL_CONTAINER_OF(e, struct tcp_conn, link);

		if (is_at_rest(c))
			look_at_rest(t, c, &hosts, now, &look);
		else
			look_at_conn(c, now, timeout_ns(t));
	}
	if (!sl_list_empty(&t->conns))
		sl_timer_set(t->transport.env->poller, &t->watch, look);
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
