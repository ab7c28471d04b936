/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/scope.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <event2/event.h>

#include "base/clock.h"
#include "base/log.h"
#include "cluster/lists.h"
#include "model/topology.h"
#include "nanoctrl/net/loop.h"
#include "store/store.h"

#define SOON_MS	    20	 /* what happens within is one expansion */
#define LATER_MS    500	 /* to another try after a failure */
#define SWEEP_MS    5000 /* at the latest */
#define RELOAD_NS   (60 * SL_NS_PER_S)
#define PAGE	    500
#define LISTS	    256
#define DIRTY_MAX   256 /* agents that are read one by one; of more all are read */
#define COMMIT_MAX  (STORE_COMMIT_MAX - STORE_TOPOLOGIES_MAX)
#define COMMIT_SIZE (4u << 20)

struct member {
	char *name;
	struct topology_label *labels;
	size_t n_labels;
	void *memory;
};

struct scope {
	struct sl_list node;
	struct store *store;
	struct event *timer;
	struct store_follower follower;
	scope_end_fn *ended;
	void *arg;
	bool busy;    /* an expansion is under way: one call of the store is out */
	bool again;   /* something happened since it began */
	bool closing; /* it ends with the answer */
	char name[STORE_NAME_MAX + 1];

	/* Agents that are registered, in the order of names, as of an event. */
	struct member *members;
	size_t n_members, room;
	bool members_known;
	struct store_cursor seen;
	bool soon; /* the timer is set for what happened */
	uint64_t loaded_ns;
	char *dirty[DIRTY_MAX]; /* who has to be read again */
	size_t n_dirty;

	/* Lists as the store has them, as of an expansion. */
	struct wanted_lists have;
	uint64_t have_expanded;
	bool have_known;

	/* Of the expansion that is under way. */
	struct model_topology *parsed;
	struct topology *topologies;
	char **reports;
	size_t n_topologies;
	uint64_t revision, expanded;
	struct store_cursor view; /* the agents are as of this event */
	struct wanted_lists want;
	struct expansion expansion;
	size_t n_sent; /* changes that were sent */
	bool changed;  /* there was a change */
};

/* ---- memory ---- */

static void end_member(struct member *m)
{
	model_labels_fini(m->labels, m->memory);
	free(m->name);
}

static void drop_members(struct scope *s)
{
	for (size_t i = 0; i < s->n_members; i++)
		end_member(&s->members[i]);
	s->n_members = 0;
	s->members_known = false;
}

static void drop_dirty(struct scope *s)
{
	while (s->n_dirty)
		free(s->dirty[--s->n_dirty]);
}

static void drop_have(struct scope *s)
{
	lists_fini(&s->have);
	s->have_known = false;
}

static void drop_run(struct scope *s)
{
	expansion_fini(&s->expansion);
	lists_fini(&s->want);
	for (size_t i = 0; i < s->n_topologies; i++) {
		model_topology_fini(&s->parsed[i]);
		free(s->reports[i]);
	}
	free(s->parsed);
	free(s->topologies);
	free(s->reports);
	s->parsed = NULL;
	s->topologies = NULL;
	s->reports = NULL;
	s->n_topologies = 0;
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
	drop_run(s);
	drop_have(s);
	drop_members(s);
	free(s->members);
	drop_dirty(s);
	sl_list_remove(&s->node);
	free(s);
	ended(arg);
}

/* ---- the end of an expansion ---- */

static unsigned next_ms(const struct scope *s, int result)
{
	if (s->again || result == STORE_STALE)
		return SOON_MS;
	return result ? LATER_MS : SWEEP_MS;
}

/* 0, or why it was not done. The scope may be gone afterwards. */
static void end_run(struct scope *s, int result)
{
	bool idle = !result && !s->n_topologies && !s->again;

	s->busy = false;
	if (result)
		drop_have(s);
	drop_run(s);
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
	s->have = s->want;
	s->want = (struct wanted_lists){ .n = 0 };
	s->have_known = true;
	s->have_expanded = expanded;
	end_run(s, 0);
}

/* Reports that are another one go with the last part. */
static size_t collect_reports(struct scope *s, struct store_topology_report *out, char **texts)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_topologies && i < s->expansion.n_topologies; i++) {
		texts[n] = model_topology_report(&s->expansion.topologies[i],
						 s->topologies[i].revision);
		if (texts[n] && strcmp(texts[n], s->reports[i]) != 0) {
			out[n].name = s->topologies[i].name;
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
	lists_compare(&s->have, &s->want, add_change, b);
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

static int expand_with(struct scope *s, const struct topology_agent *agents)
{
	struct store_wanted *lists = calloc(s->have.n + 1, sizeof(*lists));
	struct expanded_link *kept = NULL;
	void *memory = NULL;
	size_t n_kept = 0;
	int ret = lists ? 0 : -ENOMEM;

	for (size_t i = 0; lists && i < s->have.n; i++)
		lists[i] = (struct store_wanted){
			.agent = s->have.at[i].agent,
			.list = { s->have.at[i].text, strlen(s->have.at[i].text) },
		};
	if (!ret)
		ret = expand(s->topologies, s->n_topologies, agents, s->n_members, NULL, 0,
			     &s->expansion);
	/* Links of a topology that comes to too many are read back where there is one. */
	for (size_t i = 0; i < s->expansion.n_topologies && !ret; i++) {
		if (s->expansion.topologies[i].state != TOPOLOGY_TOO_MANY_LINKS)
			continue;
		expansion_fini(&s->expansion);
		ret = model_wanted_links(lists, s->have.n, s->topologies, s->n_topologies, &kept,
					 &n_kept, &memory);
		if (!ret)
			ret = expand(s->topologies, s->n_topologies, agents, s->n_members, kept,
				     n_kept, &s->expansion);
		break;
	}
	if (!ret)
		ret = lists_make(&s->want, &s->expansion, agents,
				 s->n_topologies ? s->n_members : 0);
	free(s->expansion.links); /* what they point to ends here */
	s->expansion.links = NULL;
	s->expansion.n_links = 0;
	model_links_fini(kept, memory);
	free(lists);
	return ret;
}

static void expand_scope(struct scope *s)
{
	struct topology_agent *agents = calloc(s->n_members + 1, sizeof(*agents));
	int ret = agents ? 0 : -ENOMEM;

	for (size_t i = 0; agents && i < s->n_members; i++)
		agents[i] = (struct topology_agent){ s->members[i].name, s->members[i].labels,
						     s->members[i].n_labels };
	if (!ret)
		ret = expand_with(s, agents);
	free(agents);
	if (ret) {
		end_run(s, ret);
		return;
	}
	s->n_sent = 0;
	commit(s);
}

/* ---- who is there ---- */

static size_t place_of(const struct scope *s, const char *name, bool *there)
{
	size_t low = 0, high = s->n_members;

	*there = false;
	while (low < high && !*there) {
		size_t mid = low + (high - low) / 2;
		int order = strcmp(s->members[mid].name, name);

		if (!order) {
			*there = true;
			return mid;
		}
		if (order < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void remove_member(struct scope *s, const char *name)
{
	bool there;
	size_t i = place_of(s, name, &there);

	if (!there)
		return;
	end_member(&s->members[i]);
	s->n_members--;
	memmove(&s->members[i], &s->members[i + 1], (s->n_members - i) * sizeof(*s->members));
}

static int put_member(struct scope *s, const struct store_agent *agent)
{
	struct member m = { .name = strdup(agent->name) };
	size_t room = s->room ? 2 * s->room : 64, i;
	struct member *more;
	bool there;

	if (!m.name || model_labels(agent->profile.labels, &m.labels, &m.n_labels, &m.memory)) {
		free(m.name);
		return -ENOMEM;
	}
	remove_member(s, agent->name);
	if (s->n_members == s->room) {
		more = realloc(s->members, room * sizeof(*more));
		if (!more) {
			end_member(&m);
			return -ENOMEM;
		}
		s->members = more;
		s->room = room;
	}
	i = place_of(s, agent->name, &there);
	memmove(&s->members[i + 1], &s->members[i], (s->n_members - i) * sizeof(m));
	s->members[i] = m;
	s->n_members++;
	return 0;
}

static void read_dirty(struct scope *s);

static void on_agent(void *arg, int result, const struct store_page *page)
{
	struct scope *s = arg;
	char *name = s->dirty[s->n_dirty - 1];
	int ret = result == STORE_NOT_FOUND ? 0 : result;

	if (result == STORE_NOT_FOUND)
		remove_member(s, name);
	else if (!result)
		ret = put_member(s, &page->agents[0]);
	if (!goes_on(s, ret))
		return;
	s->n_dirty--;
	free(name);
	read_dirty(s);
}

static void read_dirty(struct scope *s)
{
	if (s->n_dirty) {
		store_get_agent(s->store, s->name, s->dirty[s->n_dirty - 1], on_agent, s);
		return;
	}
	s->view = s->seen;
	if (s->members_known)
		expand_scope(s);
	else
		end_run(s, STORE_STALE);
}

static void on_agents(void *arg, int result, const struct store_page *page)
{
	struct scope *s = arg;
	char after[STORE_NAME_MAX + 1];

	for (size_t i = 0; !result && i < page->n_agents; i++)
		result = put_member(s, &page->agents[i]);
	if (result)
		s->members_known = false;
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
	if (s->members_known && sl_clock_ns() - s->loaded_ns < RELOAD_NS) {
		read_dirty(s);
		return;
	}
	drop_members(s);
	drop_dirty(s);
	s->seen = (struct store_cursor){ 0 };
	s->members_known = true; /* what happens from now on is noted */
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

static int take_topologies(struct scope *s, const struct store_topologies *t)
{
	static struct sl_log_limit limit = SL_LOG_LIMIT_INIT(1, 60000);
	uint32_t held_back;

	s->revision = t->revision;
	s->expanded = t->expanded;
	s->parsed = calloc(t->n + 1, sizeof(*s->parsed));
	s->topologies = calloc(t->n + 1, sizeof(*s->topologies));
	s->reports = calloc(t->n + 1, sizeof(*s->reports));
	if (!s->parsed || !s->topologies || !s->reports)
		return -ENOMEM;
	for (size_t i = 0; i < t->n && i < STORE_TOPOLOGIES_MAX; i++) {
		struct model_topology *m = &s->parsed[s->n_topologies];
		const struct store_topology *from = &t->list[i];
		struct model_error err;
		int ret = model_parse_topology(from->doc.at, from->doc.len, m, &err);

		if (ret == -ENOMEM)
			return ret;
		if (ret) { /* of a later release, or others damaged it */
			model_note_junk();
			if (sl_log_allow(&limit, &held_back))
				sl_warn("cluster",
					"topology %s of scope %s cannot be read, so all links of the "
					"scope stay as they are: %s",
					from->name, s->name, err.message);
			return -EPROTO;
		}
		m->topology.revision = from->revision;
		s->topologies[s->n_topologies] = m->topology;
		s->reports[s->n_topologies++] =
			strndup(from->report.len ? from->report.at : "", from->report.len);
		if (!s->reports[s->n_topologies - 1])
			return -ENOMEM;
	}
	return 0;
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

static void note_dirty(struct scope *s, const char *name)
{
	for (size_t i = 0; i < s->n_dirty; i++)
		if (!strcmp(s->dirty[i], name)) {
			/* The one that is being read is read once more. */
			if (!s->busy || i + 1 < s->n_dirty)
				return;
		}
	if (s->n_dirty == DIRTY_MAX || !s->members_known) {
		s->members_known = false;
		return;
	}
	/* In front: the last one may be on its way. */
	memmove(&s->dirty[1], &s->dirty[0], s->n_dirty * sizeof(*s->dirty));
	s->dirty[0] = strdup(name);
	if (s->dirty[0])
		s->n_dirty++;
	else
		s->members_known = false;
}

static void on_events(void *arg, const struct store_events *ev)
{
	struct scope *s = arg;
	bool news = ev->reset;

	if (ev->reset)
		s->members_known = false;
	for (size_t i = 0; i < ev->n; i++) {
		const struct store_event *e = &ev->events[i];

		if (is_about_agents(e->type)) {
			note_dirty(s, e->agent);
			news = true;
		}
		news = news || !strncmp(e->type, "topology", 8);
		s->seen = (struct store_cursor){ ev->epoch, e->id };
	}
	if (!news)
		return;
	s->again = true;
	if (!s->busy && !s->soon)
		loop_set_timer(s->timer, SOON_MS);
	s->soon = true;
}

/* ---- life ---- */

int scope_create(struct store *store, struct event_base *base, const char *name,
		 struct sl_list *list, scope_end_fn *ended, void *arg)
{
	struct scope *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->timer = evtimer_new(base, on_timer, s);
	s->follower = (struct store_follower){ .events = on_events, .arg = s };
	s->store = store;
	s->ended = ended;
	s->arg = arg;
	snprintf(s->name, sizeof(s->name), "%s", name);
	if (!s->timer || store_follow(store, s->name, &s->follower)) {
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
