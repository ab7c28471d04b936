/* SPDX-License-Identifier: Apache-2.0 */
#include "mooncake/sweep.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <event2/event.h>

#include "base/list.h"
#include "base/log.h"
#include "mooncake/directory.h"
#include "mooncake/probe.h"
#include "nanoctrl/net/loop.h"
#include "store/metrics.h"
#include "store/store.h"

#define TICK_MS	   250
#define PROBES_MAX 256 /* under way at one time */

struct mooncake_sweep {
	struct store *store;
	struct event_base *base;
	struct event *timer;
	struct sl_list probing; /* owners */
	unsigned n_probing;
	unsigned n_asked; /* questions to the store that are out */
	bool finding;	  /* one of them is for owners that are due */
	bool closing;
};

/* An owner that is being probed, or was. */
struct probed {
	struct sl_list node; /* while the probe is under way */
	struct mooncake_sweep *sweep;
	struct probe *probe;
	struct mooncake_kept_owner kept;
};

static _Atomic uint64_t n_probes, n_deaths;

void mooncake_note_probe(void)
{
	atomic_fetch_add(&n_probes, 1);
}

void mooncake_note_death(const struct mooncake_owner *owner)
{
	atomic_fetch_add(&n_deaths, 1);
	sl_info("mooncake",
		"engine %s is dead: %s port %u refuses connections; what it published is removed",
		owner->engine, owner->address, owner->port);
}

void mooncake_metrics(struct evbuffer *out)
{
	metrics_counter(out, "mooncake_probes",
			"Connections to owners of Mooncake's engines, to see whether they live.",
			&n_probes);
	metrics_counter(out, "mooncake_deaths",
			"Engines of Mooncake's that were found dead and removed.", &n_deaths);
}

static void free_if_done(struct mooncake_sweep *s)
{
	if (s->closing && !s->n_asked)
		free(s);
}

static void on_noted(void *arg, int result, bool removed)
{
	struct probed *p = arg;
	struct mooncake_sweep *s = p->sweep;

	if (!result && removed)
		mooncake_note_death(&p->kept.owner);
	free(p);
	s->n_asked--;
	free_if_done(s);
}

static void on_probed(void *arg, enum probe_outcome outcome)
{
	struct probed *p = arg;
	struct mooncake_sweep *s = p->sweep;
	bool is_news = outcome == PROBE_ALIVE ? !p->kept.owner.seen : outcome == PROBE_REFUSED;

	sl_list_remove(&p->node);
	s->n_probing--;
	if (!is_news) {
		free(p);
		return;
	}
	/* What is not noted now is found by the next probe. */
	s->n_asked++;
	directory_probed(s->store, &p->kept.owner, outcome == PROBE_ALIVE, on_noted, p);
}

/* Without memory it is probed when it is due again. */
static void probe_owner(struct mooncake_sweep *s, const struct mooncake_owner *owner)
{
	struct probed *p = calloc(1, sizeof(*p));

	if (!p)
		return;
	p->sweep = s;
	if (mooncake_keep_owner(&p->kept, owner))
		p->probe = probe_begin(s->base, p->kept.address, owner->port, on_probed, p);
	if (!p->probe) {
		free(p);
		return;
	}
	mooncake_note_probe();
	sl_list_append(&s->probing, &p->node);
	s->n_probing++;
}

static void on_due(void *arg, int result, const struct mooncake_owner *owners, size_t n)
{
	struct mooncake_sweep *s = arg;

	s->n_asked--;
	s->finding = false;
	for (size_t i = 0; !result && !s->closing && i < n; i++)
		probe_owner(s, &owners[i]);
	free_if_done(s);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct mooncake_sweep *s = arg;

	(void)fd;
	(void)what;
	if (s->finding || s->n_probing >= PROBES_MAX || store_trouble(s->store))
		return;
	s->finding = true;
	s->n_asked++;
	directory_due(s->store, PROBES_MAX - s->n_probing, on_due, s);
}

int mooncake_sweep_create(struct store *store, struct loop *loop, struct mooncake_sweep **out)
{
	const struct timeval every = { .tv_usec = TICK_MS * 1000 };
	struct mooncake_sweep *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->store = store;
	s->base = loop_base(loop);
	sl_list_init(&s->probing);
	s->timer = event_new(s->base, -1, EV_PERSIST, on_timer, s);
	if (!s->timer || event_add(s->timer, &every)) {
		if (s->timer)
			event_free(s->timer);
		free(s);
		return -ENOMEM;
	}
	*out = s;
	return 0;
}

void mooncake_sweep_destroy(struct mooncake_sweep *s)
{
	struct sl_list *e;

	if (!s)
		return;
	event_free(s->timer);
	while ((e = sl_list_pop(&s->probing))) {
		struct probed *p = SL_CONTAINER_OF(e, struct probed, node);

		probe_cancel(p->probe);
		free(p);
	}
	s->closing = true;
	free_if_done(s);
}
