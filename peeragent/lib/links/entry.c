/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/lib/links/entry.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <event2/event.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "peeragent/lib/plan/cause.h"
#include "peeragent/lib/links/entry_report.h"

#define ANSWER_LIMIT 2 /* an answer may take so many connect timeouts */

/* ---- what nanoctrl is told ---- */

static void destroy_if_over(struct entry *e)
{
	if (e->forgotten && publication_is_settled(&e->post) && publication_is_settled(&e->report))
		entry_destroy(e);
}

static void on_post_sent(void *arg, int result)
{
	struct entry *e = arg;

	publication_sent(e->set->publisher, &e->post, result);
}

static int send_post(struct publication *p)
{
	struct entry *e = SL_CONTAINER_OF(p, struct entry, post);

	if (!e->posted_len)
		return ctrl_withdraw(e->set->ctrl, e->peer->name, e->profile, e->post_number,
				     on_post_sent, e);
	return ctrl_post(e->set->ctrl, e->peer->name, e->profile, e->peer->incarnation,
			 e->post_number, e->posted, e->posted_len, on_post_sent, e);
}

/* An answer of nanoctrl, while no loop walks the links: the peer goes with its last one. */
static void settled(struct entry *e)
{
	struct peer *peer = e->peer;

	destroy_if_over(e);
	if (sl_list_empty(&peer->links))
		peer_destroy(peer);
}

/* A peer that is gone, or another process now, will be heard of as an event. */
static void post_settled(struct publication *p, int result)
{
	(void)result;
	settled(SL_CONTAINER_OF(p, struct entry, post));
}

static const struct publication_ops post_ops = { send_post, post_settled };

static void on_report_sent(void *arg, int result)
{
	struct entry *e = arg;

	publication_sent(e->set->publisher, &e->report, result);
}

static int send_report(struct publication *p)
{
	struct entry *e = SL_CONTAINER_OF(p, struct entry, report);
	struct entry_report report;

	if (e->forgotten)
		return ctrl_forget_link(e->set->ctrl, e->peer->name, e->profile, p->content,
					on_report_sent, e);
	entry_report_init(&report, e);
	report.link.revision = p->content;
	return ctrl_report_link(e->set->ctrl, &report.link, on_report_sent, e);
}

static void report_settled(struct publication *p, int result)
{
	(void)result;
	settled(SL_CONTAINER_OF(p, struct entry, report));
}

static const struct publication_ops report_ops = { send_report, report_settled };

static void post(struct entry *e, enum post_kind kind, const void *desc, size_t len)
{
	struct post p = { kind, e->link.wanted, e->link.attempt, desc, len };

	e->posted_len = post_encode(&p, e->posted);
	e->post_number = ++e->set->number;
	publication_change(e->set->publisher, &e->post);
}

void entry_post_again(struct entry *e)
{
	if (e->posted_len)
		publication_change(e->set->publisher, &e->post);
}

/* ---- life ---- */

struct entry *entry_find(const struct peer *peer, const char *profile)
{
	struct sl_list *node;

	sl_list_for_each (node, &peer->links) {
		struct entry *e = SL_CONTAINER_OF(node, struct entry, node);

		if (!strcmp(e->profile, profile))
			return e;
	}
	return NULL;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct entry *e = arg;
	char cause[sizeof(e->cause)] = "";

	(void)fd;
	(void)what;
	if (e->link.phase == LINK_OFFERED)
		snprintf(cause, sizeof(cause), "no answer from %s", e->peer->name);
	entry_happen(e, LINK_TIMER, cause[0] ? cause : NULL);
}

enum slime_link_state entry_state(const struct entry *e)
{
	if (e->link.phase == LINK_CONNECTED)
		return SLIME_LINK_CONNECTED;
	if ((e->by && e->by->refusal) || (e->refused && e->link.phase != LINK_ABSENT))
		return SLIME_LINK_REFUSED;
	return link_state(&e->link);
}

/* The name orders the pair: the agent with the smaller one initiates. */
static void begin_life(struct entry *e)
{
	e->link = (struct link){
		.initiator = strcmp(e->set->name, e->peer->name) < 0,
		.peer_up = e->peer->up,
	};
	e->forgotten = false;
	e->shown = false;
	e->refused = false;
	e->by = NULL;
	e->n_connects = 0;
	e->cause[0] = '\0';
	e->last_error[0] = '\0';
	e->since_ns = sl_clock_ns();
	memset(&e->outage, 0, sizeof(e->outage));
	memset(&e->stats, 0, sizeof(e->stats));
}

static struct entry *create(struct links *set, struct peer *peer, const char *profile)
{
	struct entry *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->timer = evtimer_new(set->base, on_timer, e);
	if (!e->timer) {
		free(e);
		return NULL;
	}
	e->set = set;
	e->peer = peer;
	snprintf(e->profile, sizeof(e->profile), "%s", profile);
	publication_init(&e->post, &post_ops);
	publication_init(&e->report, &report_ops);
	sl_list_append(&peer->links, &e->node);
	begin_life(e);
	return e;
}

struct entry *entry_get(struct links *set, struct peer *peer, const char *profile)
{
	struct entry *e = entry_find(peer, profile);

	if (!e)
		return create(set, peer, profile);
	if (e->forgotten)
		begin_life(e);
	return e;
}

void entry_destroy(struct entry *e)
{
	if (e->connection)
		connection_retire(e->connection);
	publication_fini(&e->post);
	publication_fini(&e->report);
	event_free(e->timer);
	sl_list_remove(&e->node);
	free(e);
}

/* ---- what the state machine decides ---- */

static void start_timer(struct entry *e, uint32_t ms)
{
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };

	if (evtimer_add(e->timer, &tv))
		sl_error("agent", "link %s/%s: no memory for a timer", e->peer->name, e->profile);
}

/* Whether another link to the peer is connected. */
static bool has_other_link(const struct entry *e)
{
	struct sl_list *node;

	sl_list_for_each (node, &e->peer->links) {
		const struct entry *other = SL_CONTAINER_OF(node, struct entry, node);

		if (other != e && other->link.phase == LINK_CONNECTED)
			return true;
	}
	return false;
}

/* A connection broke that was up: with the last of them the peer is dead, as far as is known. */
static void tell_reset(const struct entry *e, uint32_t silent_ms, const char *text)
{
	if (e->link.phase != LINK_CONNECTED || e->peer->reset_told || has_other_link(e))
		return;
	e->peer->reset_told = true;
	links_tell_end(e->set, e->peer, SLIME_PEER_RESET, silent_ms, text);
}

static void on_connection(void *arg, struct connection *c, enum connection_state state, int cause,
			  const char *text)
{
	struct entry *e = arg;
	struct links *set = e->set;
	struct peer *peer = e->peer;
	char words[sizeof(e->cause)];

	if (state == CONNECTION_UP) {
		peer->reset_told = false;
		entry_happen(e, LINK_UP, NULL);
		return;
	}
	if (strcmp(text, CONNECTION_CLOSED) != 0) {
		cause_in_words(text[0] ? text : strerror(-cause), peer->name, words, sizeof(words));
		text = words;
		tell_reset(e, set->silent_ms[c->transport], text);
	}
	entry_happen(e, LINK_DOWN, text);
	set->on_lost(set, peer);
}

static void keep_stats(struct entry *e)
{
	struct slime_endpoint_stats stats;

	slime_endpoint_stats(e->connection->ep, &stats);
	traffic_sum(&e->stats, &stats);
	traffic_sum(&e->set->past, &stats);
	traffic_book_endpoint(&e->set->traffic, &e->booked, e->connection->ep);
	memset(&e->booked, 0, sizeof(e->booked));
}

static void tell_watchers(struct entry *e, struct connection *c)
{
	struct sl_list *node, *tmp;

	sl_list_for_each_safe (node, tmp, &e->set->watchers) {
		struct link_watcher *w = SL_CONTAINER_OF(node, struct link_watcher, node);

		if (!strcmp(w->peer, e->peer->name) && !strcmp(w->profile, e->profile))
			w->changed(w, c);
	}
}

static void drop(struct entry *e)
{
	if (!e->connection)
		return;
	tell_watchers(e, NULL);
	keep_stats(e);
	connection_retire(e->connection);
	e->connection = NULL;
}

const enum slime_transport *entry_transports(const struct entry *e)
{
	bool own = e->by && e->by->link->transports[0] != SLIME_TRANSPORT_NONE;

	return own ? e->by->link->transports : e->set->transports;
}

/* Make an endpoint and post it. */
static int open(struct entry *e, enum post_kind kind)
{
	char name[2 * SLIME_AGENT_NAME_MAX + 2];
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	int ret;

	snprintf(name, sizeof(name), "%s/%s", e->peer->name, e->profile);
	ret = connection_create(&e->set->connections, name, entry_transports(e),
				e->by ? e->by->link : NULL, on_connection, e, &e->connection);
	if (ret)
		return ret;
	ret = slime_endpoint_export(e->connection->ep, desc, sizeof(desc));
	if (ret < 0)
		return ret;
	post(e, kind, desc, (size_t)ret);
	return 0;
}

static int join(struct entry *e, const struct post *peer)
{
	return connection_join(e->connection, peer->desc, peer->desc_len,
			       e->set->connect_timeout_ms);
}

static void wait(struct entry *e)
{
	uint32_t ms = link_backoff_ms(e->link.failures, e->set->retry_min_ms, e->set->retry_max_ms,
				      (uint32_t)sl_random_up_to(UINT32_MAX));

	start_timer(e, ms);
}

static void withdraw(struct entry *e)
{
	if (!e->posted_len)
		return;
	e->posted_len = 0;
	publication_change(e->set->publisher, &e->post);
}

/* The peer shows the cause to its people. */
static void ask(struct entry *e)
{
	char cause[POST_CAUSE_SENT + 1];

	post(e, POST_WANT, cause, e->link.attempt ? cause_fit(e->cause, cause, sizeof(cause)) : 0);
}

/* 0, or why the endpoint of this attempt could not be had. */
static int carry_out(struct entry *e, uint32_t actions, const struct post *peer)
{
	int ret = 0;

	if (actions & LINK_DO_DROP)
		drop(e);
	if (actions & LINK_DO_WITHDRAW)
		withdraw(e);
	if (actions & LINK_DO_OFFER) {
		ret = open(e, POST_OFFER);
		start_timer(e, e->set->connect_timeout_ms * ANSWER_LIMIT);
	}
	if (actions & LINK_DO_ANSWER) {
		ret = open(e, POST_ANSWER);
		if (!ret)
			ret = join(e, peer);
	}
	if (actions & LINK_DO_JOIN)
		ret = join(e, peer);
	if (actions & LINK_DO_ASK)
		ask(e);
	if (actions & LINK_DO_WAIT)
		wait(e);
	return ret;
}

static void forget(struct entry *e)
{
	e->forgotten = true;
	evtimer_del(e->timer);
	if (e->report.content)
		publication_change(e->set->publisher, &e->report);
	destroy_if_over(e);
}

static void serve_waiters(struct entry *e)
{
	struct sl_list *node, *tmp;

	sl_list_for_each_safe (node, tmp, &e->set->waiters) {
		struct link_waiter *w = SL_CONTAINER_OF(node, struct link_waiter, node);

		if (strcmp(w->peer, e->peer->name) || strcmp(w->profile, e->profile))
			continue;
		sl_list_remove(&w->node);
		connection_hold(e->connection);
		w->done(w, e->connection->ep);
	}
}

static void log_connected(const struct entry *e)
{
	const struct outage *o = &e->outage;
	char story[96] = "", tries[32] = "";

	if (o->n_tries)
		snprintf(tries, sizeof(tries), " and %" PRIu32 " failed attempts", o->n_tries);
	if (o->n_reasons)
		snprintf(story, sizeof(story), " after %.1f s%s",
			 (double)(sl_clock_ns() - e->since_ns) / SL_NS_PER_S, tries);
	sl_info("agent", "link %s/%s is connected over %s%s", e->peer->name, e->profile,
		slime_transport_name(e->connection->transport), story);
}

/* A peer that closes in order breaks nothing, so nothing is reported. */
static enum slime_log_level level_of(enum outage_line line, const char *cause)
{
	return line == OUTAGE_KNOWN || !strcmp(cause, CONNECTION_CLOSED) ? SLIME_LOG_DEBUG
									 : SLIME_LOG_WARN;
}

static void log_cause(struct entry *e)
{
	uint64_t now_ns = sl_clock_ns();
	enum outage_line line = outage_note(&e->outage, e->cause, now_ns);
	char lasting[64] = "";

	if (line == OUTAGE_LASTS)
		snprintf(lasting, sizeof(lasting), " for %" PRIu64 " s, after %" PRIu32 " tries",
			 (now_ns - e->since_ns) / SL_NS_PER_S, e->outage.n_tries);
	sl_log(level_of(line, e->cause), "agent", "link %s/%s is %s%s: %s", e->peer->name,
	       e->profile, slime_link_state_name(entry_state(e)), lasting, e->cause);
}

/* One that was never connected yet has an outage from its first failure on. */
static void log_state(struct entry *e, enum slime_link_state before, const char *cause)
{
	enum slime_link_state state = entry_state(e);

	if (state == SLIME_LINK_CONNECTED) {
		if (before != SLIME_LINK_CONNECTED)
			log_connected(e);
		memset(&e->outage, 0, sizeof(e->outage));
	} else if (cause && *cause && (state != before || e->outage.n_reasons)) {
		log_cause(e);
	}
}

/* The user sees another state, or another reason for it. */
static void show(struct entry *e, enum slime_link_state before, const char *cause)
{
	enum slime_link_state state = entry_state(e);

	if (state == before && e->shown &&
	    (!cause || !strcmp(cause, e->cause) || state == SLIME_LINK_CONNECTED))
		return;
	e->shown = true;
	if (state == SLIME_LINK_REFUSED && e->by && e->by->refusal)
		cause = e->by->refusal;
	if (state == SLIME_LINK_CONNECTED)
		e->cause[0] = '\0';
	else if (cause)
		snprintf(e->cause, sizeof(e->cause), "%s", cause);
	if (cause && (state == SLIME_LINK_BROKEN || before == SLIME_LINK_CONNECTED))
		cause_fit(e->cause, e->last_error, sizeof(e->last_error));
	log_state(e, before, cause);
	/* However often it is tried meanwhile, an outage has one beginning. */
	if ((state == SLIME_LINK_CONNECTED) != (before == SLIME_LINK_CONNECTED))
		e->since_ns = sl_clock_ns();
	if (state != before) {
		e->n_connects += state == SLIME_LINK_CONNECTED;
		e->set->n_connects += state == SLIME_LINK_CONNECTED;
		e->set->on_change(e->set->arg);
	}
	publication_change(e->set->publisher, &e->report);
}

/* A connection that lasted clears what failed before it. */
static void forgive(struct entry *e)
{
	uint64_t age_ms = (sl_clock_ns() - e->since_ns) / SL_NS_PER_MS;

	if (e->link.phase == LINK_CONNECTED && age_ms >= e->set->retry_max_ms)
		e->link.failures = 0;
}

/* Why an attempt of ours cannot succeed, before it is made; false when it can. */
static bool is_in_vain(const struct entry *e, int ret, char *why, size_t len)
{
	struct slime_endpoint_info info = { .no_transport = "" };

	if (ret == -ENOSPC)
		snprintf(why, len,
			 "cannot connect: all places for links are taken (data.max_links)");
	else if (!ret)
		slime_endpoint_info(e->connection->ep, &info);
	if (info.no_transport[0])
		snprintf(why, len, "%s", info.no_transport);
	return *why;
}

static void step(struct entry *e, const struct link_input *in, const struct post *peer,
		 const char *cause)
{
	enum slime_link_state before = entry_state(e);
	char failure[sizeof(e->cause)] = "";
	uint32_t actions;
	int ret;

	forgive(e);
	actions = link_step(&e->link, in);
	e->outage.n_tries += actions & LINK_DO_DROP && before != SLIME_LINK_CONNECTED;
	/* The number of the other end's offer is its own, of any size. */
	if (e->link.initiator && e->link.attempt > e->set->number)
		e->set->number = e->link.attempt;
	ret = carry_out(e, actions, peer);
	/* A wish that cannot be had stays reported when the peer's wish has ended. */
	if (actions & LINK_DO_FORGET && (in->event == LINK_UNWANTED || !e->by || !e->by->refusal)) {
		forget(e);
		return;
	}
	if (actions & (LINK_DO_OFFER | LINK_DO_ANSWER)) {
		e->refused = is_in_vain(e, ret, failure, sizeof(failure));
		cause = e->refused ? failure : cause;
	} else if (e->link.phase == LINK_ABSENT) {
		e->refused = false;
	} else if (e->refused) {
		cause = NULL; /* what the attempt ends with says less */
	}
	show(e, before, cause);
	if (e->refused && in->event == LINK_DOWN)
		publication_change(e->set->publisher, &e->report); /* one more failure */
	if (ret) {
		snprintf(failure, sizeof(failure), "cannot connect: %s", strerror(-ret));
		entry_happen(e, LINK_DOWN, e->refused ? NULL : failure);
	} else if (in->event == LINK_UP && e->link.phase == LINK_CONNECTED) {
		serve_waiters(e);
		tell_watchers(e, e->connection);
	}
}

void entry_refuse(struct entry *e)
{
	show(e, link_state(&e->link), e->by->refusal);
}

void entry_happen(struct entry *e, enum link_event event, const char *cause)
{
	struct link_input in = { .event = event, .next = e->set->number + 1 };

	step(e, &in, NULL, cause);
}

/* Foreign text: bytes that are no printable ASCII do not get further. */
static void cause_of(const struct entry *e, const struct post *want, char *out, size_t len)
{
	const char *text = want->desc;
	int n = snprintf(out, len, "%s: %.*s", e->peer->name, (int)want->desc_len, text);

	if (!want->desc_len)
		snprintf(out, len, "the peer saw it end");
	for (int i = 0; i < n && (size_t)i < len; i++) {
		if (out[i] && (out[i] < 0x20 || out[i] > 0x7e))
			out[i] = '?';
	}
}

void entry_take(struct entry *e, const struct post *peer)
{
	char cause[sizeof(e->cause)];
	static const enum link_event events[] = {
		[POST_WANT] = LINK_GOT_WANT,
		[POST_OFFER] = LINK_GOT_OFFER,
		[POST_ANSWER] = LINK_GOT_ANSWER,
	};
	struct link_input in = {
		.event = events[peer->kind],
		.attempt = peer->attempt,
		.peer_wants = peer->wants,
		.next = e->set->number + 1,
	};

	bool ended = peer->kind == POST_WANT && peer->attempt && peer->attempt == e->link.attempt;

	if (ended) {
		cause_of(e, peer, cause, sizeof(cause));
		/* The peer saw it before we did, and nanoctrl is in reach of both. */
		tell_reset(e, 0, cause);
	}
	step(e, &in, peer, ended ? cause : NULL);
}

void entry_info(const struct entry *e, struct slime_agent_link_info *out)
{
	struct slime_endpoint_info info = { .transport = SLIME_TRANSPORT_NONE };
	struct slime_endpoint_stats stats;

	memset(out, 0, sizeof(*out));
	snprintf(out->peer, sizeof(out->peer), "%s", e->peer->name);
	snprintf(out->profile, sizeof(out->profile), "%s", e->profile);
	snprintf(out->cause, sizeof(out->cause), "%s", e->cause);
	out->state = entry_state(e);
	out->age_ms = (sl_clock_ns() - e->since_ns) / SL_NS_PER_MS;
	out->n_connects = e->n_connects;
	out->stats = e->stats;
	if (!e->connection)
		return;
	slime_endpoint_stats(e->connection->ep, &stats);
	traffic_sum(&out->stats, &stats);
	slime_endpoint_info(e->connection->ep, &info);
	if (out->state != SLIME_LINK_CONNECTED)
		return;
	out->transport = info.transport;
	out->max_bandwidth = info.max_bandwidth;
	out->n_rails =
		(uint32_t)slime_endpoint_rails(e->connection->ep, out->rails, SLIME_RAILS_MAX);
}
