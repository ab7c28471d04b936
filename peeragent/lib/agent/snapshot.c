/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/lib/agent/snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <event2/event.h>

#include "base/clock.h"
#include "base/random.h"
#include "nanoctrl/client/nanoctrl_client.h"
#include "nanoctrl/net/loop.h"
#include "peeragent/lib/links/entry.h"
#include "peeragent/lib/links/traffic.h"

/* Told of in one snapshot; the counts are of all. */
#define CONNECTIONS_MAX 256
#define RAILS_MAX	128

/* After a link's state changed: what changes together is told together, and not at once by all the
 * agents that lost the same peer. */
#define SOON_MS		100
#define SOON_SPREAD_MS	200
#define BETWEEN_SOON_MS 1000

_Static_assert((int)NC_OP_KINDS == (int)SLIME_KIND_MAX && (int)NC_OP_SERVE == SLIME_KIND_SERVE &&
		       (int)NC_OP_IMM_RECV == SLIME_KIND_IMM_RECV,
	       "the same kinds in the same order");

/* The texts that a connection's struct points to. */
struct place {
	char local[TRAFFIC_NIC_NAME];
	struct slime_endpoint_info info;
	struct slime_agent_link_info link;
	struct nc_rail rails[SLIME_RAILS_MAX];
};

struct making {
	struct nc_nic nics[TRAFFIC_NICS_MAX];
	struct nc_connection connections[CONNECTIONS_MAX];
	struct place places[CONNECTIONS_MAX];
	size_t n_connections;
	size_t n_rails; /* of all of them */
};

static struct nc_traffic traffic_of(const struct slime_endpoint_stats *stats, uint64_t pending,
				    double gb_s)
{
	struct nc_traffic t = { .pending = pending, .bw_gb_s = gb_s };

	for (int k = 0; k < NC_OP_KINDS; k++)
		t.ops[k] =
			(struct nc_op_count){ stats->kinds[k].submitted, stats->kinds[k].completed,
					      stats->kinds[k].failed, stats->kinds[k].bytes,
					      stats->kinds[k].failed_bytes };
	return t;
}

/* All of a connection's, or none. */
static size_t add_rails(struct making *m, struct place *p)
{
	size_t n = p->link.n_rails;

	if (n > RAILS_MAX - m->n_rails)
		return 0;
	for (size_t i = 0; i < n; i++) {
		const struct slime_rail_info *r = &p->link.rails[i];

		p->rails[i] = (struct nc_rail){
			.state = slime_rail_state_name(r->state),
			.local_nic = r->device,
			.remote_nic = r->peer,
			.share = r->share,
			.bytes = r->bytes,
			.failures = r->n_failures,
			.n_qps = r->n_qps,
			.bandwidth = r->bandwidth,
			.error = r->error,
			.why = r->why,
		};
	}
	m->n_rails += n;
	return n;
}

static void add_connection(struct making *m, struct entry *e, uint64_t elapsed_ns)
{
	static const enum nc_link_state states[] = {
		[SLIME_LINK_CONNECTING] = NC_CONNECTING,
		[SLIME_LINK_CONNECTED] = NC_CONNECTED,
		[SLIME_LINK_BROKEN] = NC_BROKEN,
		[SLIME_LINK_REFUSED] = NC_REFUSED,
	};
	struct place *p = &m->places[m->n_connections];
	bool connected;

	entry_info(e, &p->link);
	traffic_rate_step(&e->rate, traffic_bytes(&p->link.stats), elapsed_ns);
	connected = p->link.state == SLIME_LINK_CONNECTED && e->connection;
	memset(&p->info, 0, sizeof(p->info));
	if (connected)
		slime_endpoint_info(e->connection->ep, &p->info);
	traffic_local_nic(&p->info, p->local);
	m->connections[m->n_connections++] = (struct nc_connection){
		.peer = p->link.peer,
		.profile = p->link.profile,
		.local_nic = p->local,
		.remote_nic = traffic_remote_nic(&p->info),
		.state = states[p->link.state],
		.transport = connected ? slime_transport_name(p->info.transport) : NULL,
		.age_ms = p->link.age_ms,
		.traffic = traffic_of(&p->link.stats, p->info.pending_ops, e->rate.gb_s),
		.rails = p->rails,
		.n_rails = add_rails(m, p),
	};
}

static void look_at_link(struct snapshots *s, struct making *m, struct entry *e,
			 uint64_t elapsed_ns)
{
	struct slime_endpoint_info info;
	char nic[TRAFFIC_NIC_NAME];

	if (e->connection) {
		slime_endpoint_info(e->connection->ep, &info);
		traffic_local_nic(&info, nic);
		traffic_book_endpoint(&s->links->traffic, &e->booked, e->connection->ep);
		traffic_look_pending(&s->links->traffic, nic, info.pending_ops);
	}
	if (!e->forgotten && m->n_connections < CONNECTIONS_MAX)
		add_connection(m, e, elapsed_ns);
}

static void look_at_links(struct snapshots *s, struct making *m, uint64_t elapsed_ns)
{
	struct traffic *t = &s->links->traffic;
	struct sl_list *p, *e;

	traffic_look_begin(t);
	sl_list_for_each (p, &s->links->peers) {
		struct peer *peer = SL_CONTAINER_OF(p, struct peer, node);

		sl_list_for_each (e, &peer->links)
			look_at_link(s, m, SL_CONTAINER_OF(e, struct entry, node), elapsed_ns);
	}
	traffic_look_end(t, elapsed_ns);
	for (size_t i = 0; i < t->n; i++)
		m->nics[i] = (struct nc_nic){ t->nics[i].name,
					      traffic_of(&t->nics[i].sum, t->nics[i].pending,
							 t->nics[i].rate.gb_s) };
}

static uint64_t resident_bytes(void)
{
	FILE *in = fopen("/proc/self/statm", "re");
	unsigned long size, resident = 0;

	if (in && fscanf(in, "%lu %lu", &size, &resident) != 2)
		resident = 0;
	if (in)
		fclose(in);
	return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void on_sent(void *arg, int result)
{
	struct snapshots *s = arg;

	(void)result;
	s->sending = false;
}

static void send_one(struct snapshots *s, struct making *m)
{
	uint64_t now_ns = sl_clock_ns();
	struct nc_snapshot snapshot = {
		.session_id = s->session_id,
		.host = s->host,
		.pid = (uint64_t)getpid(),
		.interval_ms = s->interval_ms,
		.uptime_ms = (now_ns - s->started_ns) / SL_NS_PER_MS,
		.rss_bytes = resident_bytes(),
		.nics = m->nics,
		.connections = m->connections,
	};

	look_at_links(s, m, s->looked_ns ? now_ns - s->looked_ns : 0);
	s->looked_ns = now_ns;
	snapshot.n_nics = s->links->traffic.n;
	snapshot.n_connections = m->n_connections;
	regions_count(s->regions, &snapshot.n_regions, &snapshot.region_bytes,
		      &snapshot.n_sys_regions, &snapshot.sys_region_bytes);
	s->sending = ctrl_put_snapshot(s->ctrl, &snapshot, on_sent, s) == 0;
}

static void arm(struct snapshots *s, uint64_t ms)
{
	s->next_ns = sl_clock_ns() + ms * SL_NS_PER_MS;
	loop_set_timer(s->timer, ms);
}

/* Jittered, so that agents that began together do not stay together. */
static void wait_for_next(struct snapshots *s)
{
	arm(s, s->interval_ms - s->interval_ms / 10 + sl_random_up_to(s->interval_ms / 5));
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct snapshots *s = arg;
	struct making *m;

	(void)fd;
	(void)what;
	if (s->sending) {
		arm(s, s->interval_ms < BETWEEN_SOON_MS ? s->interval_ms : BETWEEN_SOON_MS);
		return;
	}
	m = calloc(1, sizeof(*m));
	if (m)
		send_one(s, m);
	free(m);
	wait_for_next(s);
}

/* One that is under way could overtake it. */
void snapshots_last(struct snapshots *s)
{
	struct making *m = NULL;

	if (s->timer && evtimer_pending(s->timer, NULL) && !s->sending)
		m = calloc(1, sizeof(*m));
	if (m)
		send_one(s, m);
	free(m);
}

int snapshots_init(struct snapshots *s, struct event_base *base, const char *name,
		   uint32_t interval_ms)
{
	s->interval_ms = interval_ms;
	s->started_ns = sl_clock_ns();
	if (gethostname(s->host, sizeof(s->host) - 1))
		strcpy(s->host, "?");
	snprintf(s->session_id, sizeof(s->session_id), "%.253s:%d:%lld", name, (int)getpid(),
		 (long long)time(NULL) * 1000);
	if (!interval_ms)
		return 0;
	s->timer = evtimer_new(base, on_timer, s);
	return s->timer ? 0 : -ENOMEM;
}

void snapshots_fini(struct snapshots *s)
{
	if (s->timer)
		event_free(s->timer);
	s->timer = NULL;
}

void snapshots_up(struct snapshots *s)
{
	if (s->timer)
		arm(s, 0);
}

/* Requests that were under way may never be answered. */
void snapshots_down(struct snapshots *s)
{
	if (s->timer)
		evtimer_del(s->timer);
	s->sending = false;
}

void snapshots_soon(struct snapshots *s)
{
	uint64_t now_ns = sl_clock_ns();
	uint64_t ms = SOON_MS + sl_random_up_to(SOON_SPREAD_MS);
	uint64_t since_ms = (now_ns - s->looked_ns) / SL_NS_PER_MS;

	if (!s->timer || !evtimer_pending(s->timer, NULL))
		return;
	if (since_ms < BETWEEN_SOON_MS)
		ms += BETWEEN_SOON_MS - since_ms;
	if (now_ns + ms * SL_NS_PER_MS < s->next_ns)
		arm(s, ms);
}
