/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "bench/ctrl/crowd.h"
#include "bench/agents/agent_name.h"
#include "cli/process/descriptors.h"
#include "cli/process/signals.h"

/* Of one call with its repeats, and so of the end of a step. */
#define CALL_TIMEOUT_MS 10000
#define READY_MS	30000
#define LEAVE_MS	3000

#define TICK_MS 100
/* No event for so long: nobody has more to say. */
#define QUIET_MS 300

static const int stopping[] = { SIGINT, SIGTERM };

void crowd_fail(struct crowd *c, const char *fmt, ...)
{
	char line[512];
	va_list args;

	c->over = true;
	if (c->failed || c->caught)
		return;
	c->failed = true;
	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	fprintf(stderr, "slime-bench: %s\n", line);
}

/* ---- calls ---- */

void crowd_called(struct agent *g, const char *what, int ret)
{
	if (ret)
		crowd_fail(g->crowd, "%s of %s: %s", what, g->name, strerror(-ret));
	else
		g->crowd->n_calls++;
}

bool crowd_answered(struct agent *g, const char *what, const struct nc_error *error)
{
	g->crowd->n_calls--;
	if (error)
		crowd_fail(g->crowd, "%s of %s: %s", what, g->name, error->message);
	return !g->crowd->over;
}

void crowd_finish(struct crowd *c)
{
	c->finished = true;
}

static void on_limit(evutil_socket_t fd, short what, void *arg)
{
	struct crowd *c = arg;

	(void)fd;
	(void)what;
	if (!c->finished)
		crowd_fail(c, "it takes too long, see nanoctrl's log");
}

int crowd_run(struct crowd *c, const struct crowd_step *step, const char *what, int64_t limit_ms)
{
	struct timeval tv = { .tv_sec = limit_ms / 1000, .tv_usec = limit_ms % 1000 * 1000 };

	c->step = step;
	if (evtimer_add(c->limit, &tv))
		crowd_fail(c, "%s: %s", what, strerror(ENOMEM));
	while (!c->finished && !c->over)
		event_base_loop(c->base, EVLOOP_ONCE);
	evtimer_del(c->limit);
	/* Each has its own limit in time. */
	while (c->n_calls)
		event_base_loop(c->base, EVLOOP_ONCE);
	c->step = NULL;
	c->finished = false;
	return c->over ? -1 : 0;
}

/* ---- registering ---- */

int crowd_register_one(struct agent *g, nc_grant_fn *fn)
{
	const struct nc_registration r = {
		.name = g->name,
		.incarnation = g->crowd->incarnation,
		.owner_key = g->crowd->owner_key,
		.address = "127.0.0.1",
	};

	return nc_register(g->client, &r, fn, g);
}

bool crowd_granted(struct agent *g, const struct nc_error *error, const struct nc_grant *grant)
{
	if (!error) {
		g->registered = true;
		g->kept_ns = sl_clock_ns();
		g->crowd->ttl_ms = grant->ttl_ms;
		g->crowd->grace_ms = grant->grace_ms;
	}
	return crowd_answered(g, "registration", error);
}

static void on_registered(void *arg, const struct nc_error *error, const struct nc_grant *grant)
{
	struct agent *g = arg;

	if (crowd_granted(g, error, grant) && --g->crowd->n_missing == 0)
		crowd_finish(g->crowd);
}

static int write_hex(char *out, size_t len)
{
	uint8_t bytes[32];

	if (getrandom(bytes, len / 2, 0) != (ssize_t)(len / 2))
		return -EIO;
	for (size_t i = 0; i < len / 2; i++)
		snprintf(out + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

int crowd_register(struct crowd *c)
{
	event_del(c->tick);
	if (write_hex(c->incarnation, 32))
		crowd_fail(c, "no random numbers");
	c->n_missing = c->n;
	for (size_t i = 0; i < c->n && !c->over; i++)
		crowd_called(&c->agents[i], "registration",
			     crowd_register_one(&c->agents[i], on_registered));
	return crowd_run(c, NULL, "registration", READY_MS);
}

/* ---- keeping ---- */

static void on_kept(void *arg, const struct nc_error *error)
{
	if (crowd_answered(arg, "heartbeat", error))
		((struct agent *)arg)->kept_ns = sl_clock_ns();
}

static void keep(struct crowd *c)
{
	uint64_t age_ns = (uint64_t)c->ttl_ms * SL_NS_PER_MS / 3;
	uint64_t now = sl_clock_ns();

	for (size_t i = 0; i < c->n && !c->over && !c->finished; i++) {
		struct agent *g = &c->agents[i];

		if (now - g->kept_ns < age_ns)
			continue;
		g->kept_ns = now;
		crowd_called(g, "heartbeat", nc_heartbeat(g->client, on_kept, g));
	}
}

/* Sessions keep leases by themselves. */
static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct crowd *c = arg;

	(void)fd;
	(void)what;
	if (!c->agents[0].in_session)
		keep(c);
	else if (!c->n_missing && sl_clock_ns() - c->heard_ns > QUIET_MS * SL_NS_PER_MS)
		crowd_finish(c);
}

void crowd_keep(struct crowd *c)
{
	const struct timeval tv = { .tv_usec = TICK_MS * 1000 };

	if (event_add(c->tick, &tv))
		crowd_fail(c, "no memory");
}

/* ---- sessions ---- */

static void on_up(void *arg)
{
	struct agent *g = arg;

	if (g->in_session)
		return;
	g->in_session = true;
	g->crowd->n_missing--;
	g->crowd->heard_ns = sl_clock_ns();
}

static void on_event(void *arg, const struct nc_event *event)
{
	struct agent *g = arg;
	const struct crowd_step *step = g->crowd->step;

	g->crowd->heard_ns = sl_clock_ns();
	if (step && step->event && !g->crowd->over)
		step->event(step->arg, g, event);
}

static void on_reset(void *arg)
{
	struct agent *g = arg;
	const struct crowd_step *step = g->crowd->step;

	g->crowd->heard_ns = sl_clock_ns();
	if (step && step->reset && !g->crowd->over)
		step->reset(step->arg, g);
}

static void on_down(void *arg, const char *cause)
{
	struct agent *g = arg;
	const struct crowd_step *step = g->crowd->step;

	if (step && step->down && !g->crowd->over)
		step->down(step->arg, g, cause);
}

static void on_ended(void *arg, enum nc_session_end why, const struct nc_error *error)
{
	struct agent *g = arg;

	(void)why;
	crowd_fail(g->crowd, "the session of %s has ended: %s", g->name,
		   error ? error->message : "its lease is gone");
}

static const struct nc_session_ops session_ops = {
	.up = on_up,
	.down = on_down,
	.event = on_event,
	.reset = on_reset,
	.ended = on_ended,
};

int crowd_open_sessions(struct crowd *c)
{
	int ret;

	c->n_missing = c->n;
	for (size_t i = 0; i < c->n && !c->over; i++) {
		struct agent *g = &c->agents[i];

		ret = nc_session_open(g->client, &session_ops, g);

		if (ret)
			crowd_fail(c, "session of %s: %s", g->name, strerror(-ret));
	}
	crowd_keep(c);
	ret = crowd_run(c, NULL, "sessions", READY_MS);
	event_del(c->tick);
	return ret;
}

/* ---- agents ---- */

void crowd_kill(struct agent *g)
{
	nc_client_destroy(g->client);
	g->client = NULL;
	g->registered = false;
}

struct agent *crowd_find(struct crowd *c, const char *name)
{
	size_t len = strlen(c->prefix);
	unsigned long i;
	char *end;

	if (strncmp(name, c->prefix, len))
		return NULL;
	i = strtoul(name + len, &end, 10);
	return i < c->n && !strcmp(c->agents[i].name, name) ? &c->agents[i] : NULL;
}

/* ---- life ---- */

static int name_crowd(struct crowd *c)
{
	char name[AGENT_NAME_ROOM];

	agent_name_make(name);
	snprintf(c->prefix, sizeof(c->prefix), "%s-", name);
	return write_hex(c->owner_key, 64);
}

static int create_agents(struct crowd *c, const struct settings *s, const char *token)
{
	struct nc_client_attr attr = NC_CLIENT_ATTR_INIT;
	size_t n = (size_t)s->ctrl.agents;

	attr.base = c->base;
	attr.urls = s->control.urls;
	attr.n_urls = s->control.n_urls;
	attr.scope = s->between.scope;
	attr.token = token;
	attr.timeout_ms = CALL_TIMEOUT_MS;
	c->agents = calloc(n, sizeof(*c->agents));
	if (!c->agents)
		return -ENOMEM;
	for (; c->n < n; c->n++) {
		struct agent *g = &c->agents[c->n];
		int ret = nc_client_create(&g->client, &attr);

		if (ret)
			return ret;
		g->crowd = c;
		g->index = c->n;
		sl_list_init(&g->idle);
		snprintf(g->name, sizeof(g->name), "%.200s%zu", c->prefix, c->n);
	}
	return 0;
}

static void on_signal(evutil_socket_t fd, short what, void *arg)
{
	struct crowd *c = arg;
	int sig = cli_signals_read(fd);

	(void)what;
	if (sig <= 0 || c->caught)
		return;
	c->caught = sig;
	c->over = true;
	cli_signals_let_kill();
}

static int open_loop(struct crowd *c)
{
	c->signals = cli_signals_open(stopping, sizeof(stopping) / sizeof(stopping[0]));
	if (c->signals < 0)
		return c->signals;
	c->base = event_base_new();
	if (!c->base)
		return -ENOMEM;
	c->limit = evtimer_new(c->base, on_limit, c);
	c->on_signal = event_new(c->base, c->signals, EV_READ | EV_PERSIST, on_signal, c);
	c->tick = event_new(c->base, -1, EV_PERSIST, on_tick, c);
	return c->limit && c->tick && c->on_signal && !event_add(c->on_signal, NULL) ? 0 : -ENOMEM;
}

int crowd_init(struct crowd *c, const struct settings *settings, const char *token)
{
	int ret;

	*c = (struct crowd){ .signals = -1 };
	cli_descriptors_raise(); /* a client has some sockets */
	ret = open_loop(c);
	if (!ret)
		ret = name_crowd(c);
	if (!ret)
		ret = create_agents(c, settings, token);
	if (ret)
		crowd_fail(c, "%s: %s", settings->control.urls[0], strerror(-ret));
	return ret ? -1 : 0;
}

static void on_left(void *arg, const struct nc_error *error)
{
	struct agent *g = arg;

	g->crowd->n_calls--;
	g->registered = error && error->err != -EKEYEXPIRED;
}

void crowd_leave(struct crowd *c)
{
	const struct timeval limit = { .tv_sec = LEAVE_MS / 1000 };
	uint64_t end = sl_deadline_ns(LEAVE_MS);
	size_t n_left = 0;

	if (c->tick)
		event_del(c->tick);
	for (size_t i = 0; i < c->n; i++)
		if (c->agents[i].registered &&
		    !nc_leave(c->agents[i].client, on_left, &c->agents[i]))
			c->n_calls++;
	if (c->n_calls)
		event_base_loopexit(c->base, &limit);
	while (c->n_calls && sl_clock_ns() < end)
		event_base_loop(c->base, EVLOOP_ONCE);
	for (size_t i = 0; i < c->n; i++)
		n_left += c->agents[i].registered;
	if (n_left)
		fprintf(stderr,
			"slime-bench: %zu agents could not leave: they end with their leases\n",
			n_left);
}

void crowd_fini(struct crowd *c)
{
	for (size_t i = 0; i < c->n; i++)
		nc_client_destroy(c->agents[i].client);
	free(c->agents);
	if (c->on_signal)
		event_free(c->on_signal);
	if (c->tick)
		event_free(c->tick);
	if (c->limit)
		event_free(c->limit);
	if (c->base) {
		/* What is left of the clients' connections and lookups ends in a turn. */
		event_base_loop(c->base, EVLOOP_NONBLOCK);
		event_base_free(c->base);
	}
	if (c->signals >= 0)
		cli_signals_close(c->signals);
}
