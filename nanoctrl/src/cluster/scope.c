/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/scope.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <event2/event.h>

#include "base/clock.h"
#include "cluster/lists.h"
#include "cluster/members.h"
#include "cluster/run.h"
#include "nanoctrl/net/loop.h"
#include "store/store.h"

#define SOON_MS	    20	 /* what happens within is one expansion */
#define LATER_MS    500	 /* to another try after a failure */
#define SWEEP_MS    5000 /* at the latest */
#define RELOAD_NS   (60 * SL_NS_PER_S)
#define PAGE	    500
#define LISTS	    256
#define COMMIT_MAX  (STORE_COMMIT_MAX - STORE_TOPOLOGIES_MAX)
#define COMMIT_SIZE (4u << 20)

struct scope {
	struct sl_list node;
	struct store *store;
	struct loop *loop, *worker;
	struct loop_task expand_task;	/* of the worker, */
	struct loop_task expanded_task; /* and of the loop, when that is done */
	struct event *timer;
	struct store_follower follower;
	scope_end_fn *ended;
	void *arg;
	bool busy; /* an expansion is under way: a call of the store is out, or the worker has it */
	bool reading; /* the last one of the members' dirty agents is being read */
	bool again;   /* something happened since it began */
	bool closing; /* it ends with the answer */
	bool soon;    /* the timer is set for what happened */
	char name[STORE_NAME_MAX + 1];

	struct members members;
	struct store_cursor seen; /* the members are as of this event, but for dirty ones */
	uint64_t loaded_ns;

	/* Lists as the store has them, as of an expansion. */
	struct wanted_lists have;
	uint64_t have_expanded;
	bool have_known;
	uint64_t have_revision; /* of the topologies that they come from */
	bool settling;		/* and places in rings are kept */

	/* Of the expansion that is under way. */
	struct run run;
	uint64_t run_revision; /* of the topologies that the run has; 0: none */
	uint64_t revision, expanded, now_ms;
	struct store_cursor view; /* the agents are as of this event */
	size_t n_sent;		  /* changes that were sent */
	bool changed;		  /* there was a change */
};

/* ---- memory ---- */

static void drop_have(struct scope *s)
{
	lists_fini(&s->have);
	s->have_known = false;
}

/* Nothing comes any more but the answer that is out. */
static void disconnect(struct scope *s)
{
	store_unfollow(s->store, &s->follower);
	event_free(s->timer);
}

static void destroy(struct scope *s)
{
	scope_end_fn *ended = s->ended;
	void *arg = s->arg;

	if (!s->closing)
		disconnect(s);
	run_fini(&s->run);
	drop_have(s);
	members_fini(&s->members);
	sl_list_remove(&s->node);
	free(s);
	ended(arg);
}

/* ---- the end of an expansion ---- */

static unsigned next_ms(const struct scope *s, int result)
{
	if (s->again || result == STORE_STALE)
		return SOON_MS;
	if (!result && s->settling && s->run.next_ms < SWEEP_MS)
		return (unsigned)s->run.next_ms + 1;
	return result ? LATER_MS : SWEEP_MS;
}

/* 0, or why it was not done. The scope may be gone afterwards. */
static void end_run(struct scope *s, int result)
{
	bool idle = !result && !s->run.n && !s->again;

	s->busy = false;
	if (result)
		drop_have(s);
	run_clear(&s->run);
	if (s->closing || idle)
		destroy(s);
	else
		loop_set_timer(s->timer, next_ms(s, result));
}

/* Whether the run goes on with this answer. */
static bool goes_on(struct scope *s, int result)
{
	if (!result && !s->closing)
		return true;
	end_run(s, result ? result : -EIO);
	return false;
}

/* ---- the changes ---- */

struct batch {
	struct scope *scope;
	struct store_wanted lists[COMMIT_MAX];
	size_t n, skip, bytes;
	bool more;
};

static int add_change(void *arg, const char *agent, const char *text)
{
	struct batch *b = arg;
	size_t len = strlen(text);

	if (b->skip) {
		b->skip--;
		return 0;
	}
	if (b->n == COMMIT_MAX || (b->n && b->bytes + len > COMMIT_SIZE)) {
		b->more = true;
		return 1;
	}
	b->lists[b->n++] = (struct store_wanted){ .agent = agent, .list = { text, len } };
	b->bytes += len;
	return 0;
}

static void commit(struct scope *s);

static void on_committed(void *arg, int result, uint64_t expanded)
{
	struct scope *s = arg;

	if (!goes_on(s, result))
		return;
	s->expanded = expanded;
	if (s->changed) {
		commit(s);
		return;
	}
	lists_fini(&s->have);
	s->have = s->run.want;
	s->run.want = (struct wanted_lists){ .n = 0 };
	s->have_known = true;
	s->have_expanded = expanded;
	s->have_revision = s->revision;
	s->settling = s->run.next_ms;
	end_run(s, 0);
}

/* Reports that are another one go with the last part. */
static size_t collect_reports(struct scope *s, struct store_topology_report *out, char **texts)
{
	size_t n = 0;

	for (size_t i = 0; i < s->run.n && i < s->run.expansion.n_topologies; i++) {
		texts[n] =
			model_topology_report(&s->run.expansion.topologies[i], s->run.revisions[i]);
		if (texts[n] && strcmp(texts[n], s->run.reports[i]) != 0) {
			out[n].name = s->run.topologies[i].name;
			out[n].doc = (struct store_text){ texts[n], strlen(texts[n]) };
			n++;
		} else {
			free(texts[n]);
		}
	}
	return n;
}

static void commit(struct scope *s)
{
	struct batch *b = calloc(1, sizeof(*b));
	struct store_topology_report reports[STORE_TOPOLOGIES_MAX];
	char *texts[STORE_TOPOLOGIES_MAX + 1];
	size_t n_reports = 0;

	if (!b) {
		end_run(s, -ENOMEM);
		return;
	}
	b->skip = s->n_sent;
	lists_compare(&s->have, &s->run.want, add_change, b);
	if (!b->more)
		n_reports = collect_reports(s, reports, texts);
	s->n_sent += b->n;
	s->changed = b->more;
	store_commit_wanted(s->store, s->name, s->revision, s->expanded, &s->view, b->lists, b->n,
			    reports, n_reports, on_committed, s);
	for (size_t i = 0; i < n_reports; i++)
		free(texts[i]);
	free(b);
}

/* ---- the expansion ---- */

static void on_expanded(void *arg)
{
	struct scope *s = arg;

	if (!goes_on(s, s->run.result))
		return;
	s->n_sent = 0;
	commit(s);
}

/* On the worker. */
static void expand_aside(void *arg)
{
	struct scope *s = arg;

	run_expand(&s->run, s->name);
	loop_post(s->loop, &s->expanded_task);
}

/* Whether the lists are those of the last expansion, and so would be the next. */
static bool is_done(const struct scope *s)
{
	return s->have_known && s->have_expanded == s->expanded && !s->settling &&
	       s->have_revision == s->revision && !s->members.changed;
}

static void expand_scope(struct scope *s)
{
	struct run *r = &s->run;

	if (is_done(s)) {
		end_run(s, 0);
		return;
	}
	s->members.changed = false;
	members_settle(&s->members, s->now_ms, !r->is_parsed || r->settle_ms);
	r->agents = members_agents(&s->members, s->now_ms);
	r->n_agents = s->members.n;
	r->have = &s->have;
	if (r->agents) {
		loop_post(s->worker, &s->expand_task);
		return;
	}
	s->members.changed = true;
	end_run(s, -ENOMEM);
}

/* ---- the registered agents ---- */

static void read_dirty(struct scope *s);

static void on_agent(void *arg, int result, const struct store_page *page)
{
	struct scope *s = arg;
	struct members *m = &s->members;
	int ret = result == STORE_NOT_FOUND ? 0 : result;

	s->reading = false;
	if (result == STORE_NOT_FOUND)
		members_remove(m, m->dirty[m->n_dirty - 1]);
	else if (!result)
		ret = members_put(m, &page->agents[0]);
	if (!goes_on(s, ret))
		return;
	members_pop_dirty(m);
	read_dirty(s);
}

static void read_dirty(struct scope *s)
{
	const struct members *m = &s->members;

	if (m->n_dirty) {
		s->reading = true;
		store_get_agent(s->store, s->name, m->dirty[m->n_dirty - 1], on_agent, s);
		return;
	}
	s->view = s->seen;
	if (m->known)
		expand_scope(s);
	else
		end_run(s, STORE_STALE);
}

static void on_agents(void *arg, int result, const struct store_page *page)
{
	struct scope *s = arg;
	char after[STORE_NAME_MAX + 1];

	for (size_t i = 0; !result && i < page->n_agents; i++)
		result = members_put(&s->members, &page->agents[i]);
	if (result)
		s->members.known = false;
	if (!goes_on(s, result))
		return;
	if (!s->seen.epoch)
		s->seen = page->cursor;
	if (page->next) {
		snprintf(after, sizeof(after), "%s", page->next);
		store_list_agents(s->store, s->name, after, PAGE, on_agents, s);
		return;
	}
	read_dirty(s);
}

static void read_members(struct scope *s)
{
	if (s->members.known && sl_clock_ns() - s->loaded_ns < RELOAD_NS) {
		read_dirty(s);
		return;
	}
	members_forget(&s->members);
	s->seen = (struct store_cursor){ 0 };
	s->members.known = true; /* what happens from now on is noted */
	s->loaded_ns = sl_clock_ns();
	store_list_agents(s->store, s->name, "", PAGE, on_agents, s);
}

/* ---- what there is ---- */

static void on_lists(void *arg, int result, const struct store_wanted *lists, size_t n,
		     const char *next)
{
	struct scope *s = arg;

	for (size_t i = 0; !result && i < n; i++)
		result = lists_add(&s->have, lists[i].agent, lists[i].list.at, lists[i].list.len);
	if (!goes_on(s, result))
		return;
	if (strcmp(next, "0") != 0) {
		store_list_wanted(s->store, s->name, next, LISTS, on_lists, s);
		return;
	}
	lists_sort(&s->have);
	s->have_known = true;
	s->have_expanded = s->expanded;
	read_members(s);
}

static void read_lists(struct scope *s)
{
	if (s->have_known && s->have_expanded == s->expanded) {
		read_members(s);
		return;
	}
	drop_have(s);
	store_list_wanted(s->store, s->name, "0", LISTS, on_lists, s);
}

/* Their contents are parsed once for a revision. */
static int take_topologies(struct scope *s, const struct store_topologies *t)
{
	int ret;

	s->revision = t->revision;
	s->expanded = t->expanded;
	s->now_ms = t->now_ms;
	if (s->run_revision == t->revision && s->run.n == t->n)
		return run_take_reports(&s->run, t);
	s->run_revision = 0;
	ret = run_take(&s->run, t);
	if (!ret)
		s->run_revision = t->revision;
	return ret;
}

static void on_topologies(void *arg, int result, const struct store_topologies *t)
{
	struct scope *s = arg;

	if (!result)
		result = take_topologies(s, t);
	if (goes_on(s, result))
		read_lists(s);
}

static void start(struct scope *s)
{
	s->busy = true;
	s->again = false;
	s->soon = false;
	store_list_topologies(s->store, s->name, true, on_topologies, s);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	start(arg);
}

/* ---- events ---- */

static bool is_about_agents(const char *type)
{
	return !strcmp(type, "registered") || !strcmp(type, "changed") || !strcmp(type, "left") ||
	       !strcmp(type, "expired");
}

static uint64_t left_ms(const struct store_event *e)
{
	return !strcmp(e->type, "left") || !strcmp(e->type, "expired") ? e->at_ms : 0;
}

static void on_events(void *arg, const struct store_events *ev)
{
	struct scope *s = arg;
	bool is_new = ev->reset;

	if (ev->reset)
		s->members.known = false;
	for (size_t i = 0; i < ev->n; i++) {
		const struct store_event *e = &ev->events[i];

		if (is_about_agents(e->type)) {
			members_note(&s->members, e->agent, left_ms(e), s->reading);
			is_new = true;
		}
		is_new = is_new || !strncmp(e->type, "topology", 8);
		s->seen = (struct store_cursor){ ev->epoch, e->id };
	}
	if (!is_new)
		return;
	s->again = true;
	if (!s->busy && !s->soon)
		loop_set_timer(s->timer, SOON_MS);
	s->soon = true;
}

/* ---- life ---- */

int scope_create(const struct scope_place *place, const char *name, struct sl_list *list,
		 scope_end_fn *ended, void *arg)
{
	struct scope *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->timer = evtimer_new(loop_base(place->loop), on_timer, s);
	loop_task_init(&s->expand_task, expand_aside, s);
	loop_task_init(&s->expanded_task, on_expanded, s);
	s->follower = (struct store_follower){ .events = on_events, .arg = s };
	s->store = place->store;
	s->loop = place->loop;
	s->worker = place->worker;
	s->ended = ended;
	s->arg = arg;
	snprintf(s->name, sizeof(s->name), "%s", name);
	if (!s->timer || store_follow(s->store, s->name, &s->follower)) {
		if (s->timer)
			event_free(s->timer);
		free(s);
		return -ENOMEM;
	}
	sl_list_append(list, &s->node);
	loop_set_timer(s->timer, 0);
	return 0;
}

const char *scope_name(struct sl_list *node)
{
	return SL_CONTAINER_OF(node, struct scope, node)->name;
}

void scope_close(struct sl_list *node)
{
	struct scope *s = SL_CONTAINER_OF(node, struct scope, node);

	disconnect(s);
	s->closing = true;
	if (!s->busy)
		destroy(s);
}
