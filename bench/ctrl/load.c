/* SPDX-License-Identifier: Apache-2.0 */
#include <event2/event.h>
#include <stdlib.h>

#include "base/clock.h"
#include "bench/ctrl/load.h"
#include "nanoctrl/net/loop.h"

/* Calls that begin in that time are not counted: connections come up, and caches fill. */
#define WARMUP_MS 200
/* Beyond the measurement. */
#define LIMIT_EXTRA_MS 10000

struct load {
	struct crowd *crowd;
	enum ctrl_op op;
	uint64_t interval_ns; /* 0: closed loop */
	uint64_t start_ns, warm_ns, end_ns;
	uint64_t n_started;
	uint64_t last_ns;    /* when the last one that counts ended */
	struct sl_list idle; /* agents, the one that waited longest first */
	struct event *timer; /* the next intended start, or the end */
	struct ctrl_row *out;
};

static void pump(struct load *l);

/* ---- a call ---- */

static void count(struct load *l, const struct agent *g)
{
	uint64_t now = sl_clock_ns();

	if (g->begin_ns < l->warm_ns)
		return;
	load_histogram_add(&l->out->latency, now - g->begin_ns);
	l->out->n++;
	l->last_ns = now;
}

static void ended(struct agent *g, bool goes_on)
{
	struct load *l;

	if (!goes_on)
		return;
	l = g->crowd->step->arg;
	count(l, g);
	sl_list_append(&l->idle, &g->idle);
	pump(l);
}

static void on_grant(void *arg, const struct nc_error *error, const struct nc_grant *grant)
{
	ended(arg, crowd_granted(arg, error, grant));
}

static void on_beat(void *arg, const struct nc_error *error)
{
	struct agent *g = arg;

	g->kept_ns = sl_clock_ns();
	ended(arg, crowd_answered(arg, "heartbeat", error));
}

static void on_agent(void *arg, const struct nc_error *error, const struct nc_agent *agent)
{
	(void)agent;
	ended(arg, crowd_answered(arg, "lookup", error));
}

/* Of any other agent. */
static const char *someone_else(const struct agent *g)
{
	const struct crowd *c = g->crowd;
	size_t step = 1 + (size_t)random() % (c->n - 1);

	return c->agents[(g->index + step) % c->n].name;
}

static void start(struct load *l, struct agent *g, uint64_t begin_ns)
{
	int ret;

	g->begin_ns = begin_ns;
	l->n_started++;
	if (l->op == CTRL_REGISTER)
		ret = crowd_register_one(g, on_grant);
	else if (l->op == CTRL_HEARTBEAT)
		ret = nc_heartbeat(g->client, on_beat, g);
	else
		ret = nc_get_agent(g->client, someone_else(g), on_agent, g);
	crowd_called(g, ctrl_op_names[l->op], ret);
}

/* ---- the loop ---- */

static void wake_at(struct load *l, uint64_t now, uint64_t at)
{
	uint64_t us = (at - now + SL_NS_PER_US - 1) / SL_NS_PER_US;

	loop_set_timer_us(l->timer, us);
}

/* Begin what is due, as far as there are agents for it. */
static void pump(struct load *l)
{
	uint64_t now = sl_clock_ns();

	while (!l->crowd->over && !sl_list_empty(&l->idle) && now < l->end_ns) {
		uint64_t begin = l->interval_ns ? l->start_ns + l->n_started * l->interval_ns : now;

		if (begin > now) {
			wake_at(l, now, begin < l->end_ns ? begin : l->end_ns);
			return;
		}
		start(l, SL_CONTAINER_OF(sl_list_pop(&l->idle), struct agent, idle), begin);
		now = sl_clock_ns();
	}
	if (now >= l->end_ns)
		crowd_finish(l->crowd);
	else
		wake_at(l, now, l->end_ns);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	pump(arg);
}

static void begin(struct load *l, int64_t duration_ms)
{
	l->start_ns = sl_clock_ns();
	l->warm_ns = l->start_ns + WARMUP_MS * SL_NS_PER_MS;
	l->end_ns = l->warm_ns + (uint64_t)duration_ms * SL_NS_PER_MS;
	l->last_ns = l->warm_ns;
	sl_list_init(&l->idle);
	for (size_t i = 0; i < l->crowd->n; i++)
		sl_list_append(&l->idle, &l->crowd->agents[i].idle);
	pump(l);
}

int load_run(struct crowd *c, enum ctrl_op op, const struct ctrl_settings *settings,
	     struct ctrl_row *out)
{
	struct load l = { .crowd = c, .op = op, .out = out };
	const struct crowd_step step = { .arg = &l };
	int ret;

	out->what = ctrl_op_names[op];
	load_histogram_init(&out->latency);
	if (settings->rate)
		l.interval_ns = UINT64_C(1000000000) / (uint64_t)settings->rate;
	l.timer = evtimer_new(c->base, on_timer, &l);
	if (!l.timer) {
		crowd_fail(c, "%s: no memory", out->what);
		return -1;
	}
	begin(&l, settings->duration_ms);
	ret = crowd_run(c, &step, out->what, WARMUP_MS + settings->duration_ms + LIMIT_EXTRA_MS);
	event_free(l.timer);
	for (size_t i = 0; i < c->n; i++)
		sl_list_remove(&c->agents[i].idle);
	out->elapsed_ns = l.last_ns > l.end_ns ? l.last_ns - l.warm_ns : l.end_ns - l.warm_ns;
	return ret;
}
