/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/ctrl/mesh.h"

#define PROFILE	 "bench"
#define LIMIT_MS 600000
/* Pairs that one agent begins before another is done: as many as its client has connections. */
#define WINDOW 4
/* As long as what an agent says of its endpoint. */
#define DESCRIPTOR_LEN 256

/* One way of a pair: what from posts for to. */
struct half {
	struct mesh *mesh;
	struct agent *from, *to;
	uint64_t begin_ns; /* its post */
	bool begun, heard;
};

struct mesh {
	struct crowd *crowd;
	uint64_t epoch;	     /* of the connections */
	struct half *halves; /* from * n + to */
	size_t *next;	     /* of each agent: whom it turns to next */
	size_t n_missing;    /* pairs */
	struct ctrl_row *rendezvous, *event;
};

static struct half *half_of(struct mesh *m, const struct agent *from, const struct agent *to)
{
	return &m->halves[from->index * m->crowd->n + to->index];
}

static void on_posted(void *arg, const struct nc_error *error)
{
	struct half *h = arg;

	crowd_answered(h->from, "offer", error);
}

static void post(struct half *h)
{
	uint8_t descriptor[DESCRIPTOR_LEN];

	memset(descriptor, 0x5a, sizeof(descriptor));
	h->begun = true;
	h->begin_ns = sl_clock_ns();
	crowd_called(h->from, "offer",
		     nc_post_offer(h->from->client, h->to->name, PROFILE, h->mesh->epoch, NULL,
				   descriptor, sizeof(descriptor), on_posted, h));
}

/* The agent turns to the next one; where none is left, the agent after it does. */
static void begin_pair(struct mesh *m, const struct agent *from)
{
	size_t n = m->crowd->n;

	for (size_t i = 0; i < n && !m->crowd->over; i++) {
		struct agent *g = &m->crowd->agents[(from->index + i) % n];
		size_t to = m->next[g->index];

		if (to == n)
			continue;
		m->next[g->index]++;
		post(half_of(m, g, &m->crowd->agents[to]));
		return;
	}
}

static void pair_is_done(struct mesh *m, const struct half *first)
{
	load_histogram_add(&m->rendezvous->latency, sl_clock_ns() - first->begin_ns);
	m->rendezvous->n++;
	if (--m->n_missing == 0)
		crowd_finish(m->crowd);
	begin_pair(m, first->from);
}

/* The receiver has what the other one offers: it answers, or has had its own answered. */
static void on_offer(void *arg, const struct nc_error *error, const struct nc_offer *offer)
{
	struct half *h = arg;
	struct half *back = half_of(h->mesh, h->to, h->from);

	if (!crowd_answered(h->to, "offer's lookup", error))
		return;
	if (offer->descriptor_len != DESCRIPTOR_LEN)
		crowd_fail(h->mesh->crowd, "the offer of %s to %s came back changed", h->from->name,
			   h->to->name);
	else if (back->begun)
		pair_is_done(h->mesh, back);
	else
		post(back);
}

/* Heard once, however often it is said. */
static void hear(struct half *h)
{
	struct mesh *m = h->mesh;

	if (h->heard || !h->begun)
		return;
	h->heard = true;
	load_histogram_add(&m->event->latency, sl_clock_ns() - h->begin_ns);
	m->event->n++;
	crowd_called(h->to, "offer's lookup",
		     nc_get_offer(h->to->client, h->from->name, PROFILE, on_offer, h));
}

static void on_event(void *arg, struct agent *to, const struct nc_event *event)
{
	struct mesh *m = arg;
	struct agent *from;

	if (event->type != NC_EVENT_OFFER)
		return;
	from = crowd_find(m->crowd, event->agent);
	if (from && from != to)
		hear(half_of(m, from, to));
}

static void on_list(void *arg, const struct nc_error *error, const struct nc_page *page)
{
	struct agent *to = arg;
	struct mesh *m = to->crowd->step->arg;

	if (!crowd_answered(to, "offers", error))
		return;
	for (size_t i = 0; i < page->n; i++) {
		struct agent *from = crowd_find(m->crowd, page->offers[i].from);

		if (from && from != to)
			hear(half_of(m, from, to));
	}
}

static void on_reset(void *arg, struct agent *to)
{
	(void)arg;
	crowd_called(to, "offers", nc_list_offers(to->client, on_list, to));
}

static int init(struct mesh *m)
{
	size_t n = m->crowd->n;

	m->halves = calloc(n * n, sizeof(*m->halves));
	m->next = calloc(n, sizeof(*m->next));
	if (!m->halves || !m->next)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		m->next[i] = i + 1;
	for (size_t i = 0; i < n * n; i++) {
		m->halves[i].mesh = m;
		m->halves[i].from = &m->crowd->agents[i / n];
		m->halves[i].to = &m->crowd->agents[i % n];
	}
	m->n_missing = n * (n - 1) / 2;
	load_histogram_init(&m->rendezvous->latency);
	load_histogram_init(&m->event->latency);
	return 0;
}

int mesh_run(struct crowd *c, size_t inflight, uint64_t epoch, struct ctrl_row *rendezvous,
	     struct ctrl_row *event)
{
	struct mesh m = { .crowd = c, .epoch = epoch, .rendezvous = rendezvous, .event = event };
	const struct crowd_step step = { .event = on_event, .reset = on_reset, .arg = &m };
	uint64_t begin = sl_clock_ns();
	int ret = init(&m);

	rendezvous->what = "rendezvous";
	event->what = "event";
	if (ret)
		crowd_fail(c, "rendezvous: %s", strerror(-ret));
	if (!inflight)
		inflight = WINDOW * c->n;
	for (size_t i = 0; i < inflight && !ret; i++)
		begin_pair(&m, &c->agents[i % c->n]);
	ret = crowd_run(c, &step, rendezvous->what, LIMIT_MS);
	rendezvous->elapsed_ns = event->elapsed_ns = sl_clock_ns() - begin;
	free(m.next);
	free(m.halves);
	return ret;
}
