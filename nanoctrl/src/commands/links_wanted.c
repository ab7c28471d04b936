/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/links_wanted.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "commands/rows.h"

struct source {
	char name[OBS_TEXT];
	uint64_t revision, changed_at_ms;
};

struct merging {
	struct links_list *list;
	size_t n_reported;	  /* ends of the list that are in order */
	char (*agents)[OBS_TEXT]; /* that have a list of wanted links, which are registered, in
				     order */
	size_t n_agents;
	struct source *sources; /* the topologies */
	size_t n_sources;
	uint64_t now_ms;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

static bool is_there(const struct merging *m, const char *agent)
{
	return m->n_agents && bsearch(agent, m->agents, m->n_agents, OBS_TEXT, by_name);
}

/* ---- one end ---- */

/* Of the two the one that is not registered; NULL: both are. */
static const char *absent_of(const struct merging *m, const char *agent, const char *peer)
{
	return !is_there(m, agent) ? agent : !is_there(m, peer) ? peer : NULL;
}

static void say_absent(struct links_end *e, const char *who)
{
	snprintf(e->state, sizeof(e->state), "absent");
	snprintf(e->cause, sizeof(e->cause), "%s is not registered", who);
}

static void note_source(const struct merging *m, struct links_end *e, const char *topology)
{
	size_t i = 0;

	snprintf(e->topology, sizeof(e->topology), "%s", topology);
	while (i < m->n_sources && strcmp(m->sources[i].name, topology) != 0)
		i++;
	if (i == m->n_sources)
		return;
	e->topology_revision = m->sources[i].revision;
	e->topology_age_ms = m->now_ms > m->sources[i].changed_at_ms
				     ? m->now_ms - m->sources[i].changed_at_ms
				     : 0;
}

static void note_wish(const struct merging *m, struct links_end *e, const char *topology)
{
	const char *absent = absent_of(m, e->agent, e->peer);

	note_source(m, e, topology);
	if (e->missing)
		snprintf(e->source, sizeof(e->source), "topology %s", topology);
	if (absent && !links_end_is_connected(e))
		say_absent(e, absent);
}

static int add_end(struct merging *m, const struct links_end *like, const char *topology,
		   uint64_t since_ms)
{
	const char *absent = absent_of(m, like->agent, like->peer);
	struct links_end *e = links_list_new(m->list);

	if (!e)
		return -ENOMEM;
	*e = *like;
	e->ours = e->wanted_only = true;
	e->age_ms = m->now_ms > since_ms ? m->now_ms - since_ms : 0;
	note_source(m, e, topology);
	snprintf(e->source, sizeof(e->source), "topology %s", topology);
	snprintf(e->state, sizeof(e->state), "wanted");
	snprintf(e->cause, sizeof(e->cause), "%s has not reported it yet", e->agent);
	if (absent)
		say_absent(e, absent);
	return 0;
}

static int take(struct merging *m, const char *agent, const char *peer, const char *profile,
		const char *topology, uint64_t since_ms)
{
	const struct links_list *l = m->list;
	struct links_end like = { .ours = true }, *have;

	if (l->about && strcmp(l->about, agent) != 0 && strcmp(l->about, peer) != 0)
		return 0;
	snprintf(like.agent, sizeof(like.agent), "%s", agent);
	snprintf(like.peer, sizeof(like.peer), "%s", peer);
	snprintf(like.profile, sizeof(like.profile), "%s", *profile ? profile : "default");
	have = links_list_find_first(l, m->n_reported, &like);
	if (!have)
		return add_end(m, &like, topology, since_ms);
	note_wish(m, have, topology);
	return 0;
}

/* ---- lists of agents ---- */

static int note_sources(struct merging *m, const struct rows *topologies)
{
	m->sources = calloc(topologies->n + 1, sizeof(*m->sources));
	if (!m->sources)
		return -ENOMEM;
	for (size_t i = 0; i < topologies->n; i++) {
		struct source *s = &m->sources[m->n_sources++];

		obs_text(topologies->at[i].doc, "name", s->name, sizeof(s->name));
		s->revision = obs_number(topologies->at[i].doc, "revision");
		s->changed_at_ms = obs_number(topologies->at[i].doc, "changed_at_ms");
	}
	return 0;
}

static int note_agents(struct merging *m, const struct rows *wanted)
{
	m->agents = calloc(wanted->n + 1, sizeof(*m->agents));
	if (!m->agents)
		return -ENOMEM;
	for (; m->n_agents < wanted->n; m->n_agents++)
		obs_text(wanted->at[m->n_agents].doc, "agent", m->agents[m->n_agents], OBS_TEXT);
	qsort(m->agents, m->n_agents, OBS_TEXT, by_name);
	return 0;
}

static int take_list(struct merging *m, struct json_slice row)
{
	char agent[OBS_TEXT], peer[OBS_TEXT], profile[OBS_TEXT], topology[OBS_TEXT];
	/* A revision is a time in microseconds. */
	uint64_t since_ms = obs_number(row, "revision") / 1000;
	struct json_slice key, link;
	struct json_walk w;
	int ret = 0;

	obs_text(row, "agent", agent, sizeof(agent));
	if (!json_walk_init(&w, obs_member(row, "links")))
		return 0;
	while (!ret && json_walk_next(&w, &key, &link)) {
		obs_text(link, "peer", peer, sizeof(peer));
		obs_text(link, "profile", profile, sizeof(profile));
		obs_text(link, "topology", topology, sizeof(topology));
		ret = take(m, agent, peer, profile, topology, since_ms);
	}
	return ret;
}

/* ---- links that are named, and have no end that is registered ---- */

static int take_pair(struct merging *m, struct json_slice pair, const char *profile,
		     const char *topology, uint64_t since_ms)
{
	char names[2][OBS_TEXT] = { "", "" };
	struct json_slice key, one;
	struct json_walk w;
	int ret = 0;

	if (!json_walk_init(&w, pair))
		return 0;
	for (int i = 0; i < 2 && json_walk_next(&w, &key, &one); i++)
		snprintf(names[i], OBS_TEXT, "%.*s", (int)(one.len > 2 ? one.len - 2 : 0),
			 one.at + 1);
	for (int i = 0; i < 2 && !ret; i++)
		if (*names[i] && !is_there(m, names[i]))
			ret = take(m, names[i], names[!i], profile, topology, since_ms);
	return ret;
}

static int take_topology(struct merging *m, struct json_slice row)
{
	char name[OBS_TEXT], profile[OBS_TEXT];
	struct json_slice key, wish, pair;
	struct json_walk w, pairs;
	int ret = 0;

	obs_text(row, "name", name, sizeof(name));
	if (!json_walk_init(&w, obs_member(obs_member(row, "topology"), "links")))
		return 0;
	while (!ret && json_walk_next(&w, &key, &wish)) {
		obs_text(wish, "profile", profile, sizeof(profile));
		if (!json_walk_init(&pairs, obs_member(wish, "pairs")))
			continue;
		while (!ret && json_walk_next(&pairs, &key, &pair))
			ret = take_pair(m, pair, profile, name, obs_number(row, "changed_at_ms"));
	}
	return ret;
}

/* ---- a topology that is waited for ---- */

static void note_topology(struct links_list *l, struct json_slice row)
{
	struct json_slice result = obs_member(row, "result"), key, note;
	struct links_topology *t = &l->of;
	struct json_walk w;
	char name[OBS_TEXT];

	obs_text(row, "name", name, sizeof(name));
	if (!l->topology || strcmp(name, l->topology) != 0)
		return;
	t->known = true;
	t->expanded = result.at && obs_number(result, "revision") == obs_number(row, "revision");
	t->n_absent = obs_number(result, "absent");
	obs_text(result, "state", t->state, sizeof(t->state));
	t->note[0] = '\0';
	if (json_walk_init(&w, obs_member(result, "notes")) && json_walk_next(&w, &key, &note) &&
	    note.len < sizeof(t->note) && json_unquote(note, t->note) >= 0)
		sl_utf8_make_printable(t->note); /* labels of agents are in it */
}

/* ---- all of it ---- */

static int merge(struct merging *m, const struct rows *wanted, const struct rows *topologies)
{
	int ret = note_agents(m, wanted);

	if (!ret)
		ret = note_sources(m, topologies);
	for (size_t i = 0; i < wanted->n && !ret; i++)
		ret = take_list(m, wanted->at[i].doc);
	for (size_t i = 0; i < topologies->n && !ret; i++) {
		ret = take_topology(m, topologies->at[i].doc);
		note_topology(m->list, topologies->at[i].doc);
	}
	return ret;
}

static void add_wanted(struct links_list *l)
{
	static const struct kind wanted_kind = {
		.name = "wanted", .id = { "agent" }, .scanned = true, .limit = 50
	};
	struct rows_query lists = { .kind = &wanted_kind, .scope = "" };
	struct rows_query topologies = { .kind = kind_find("topologies"), .scope = "" };
	struct rows wanted = { .n = 0 }, wishes = { .n = 0 };
	struct merging m = { .list = l, .n_reported = l->n };
	int ret;

	l->of = (struct links_topology){ .known = false };
	ret = rows_read(&wishes, l->source, &topologies, l->error, sizeof(l->error));
	/* Without topologies there are no lists, or some that are about to go. */
	if (!ret && wishes.n)
		ret = rows_read(&wanted, l->source, &lists, l->error, sizeof(l->error));
	m.now_ms = wishes.n ? wishes.at[0].now_ms : 0;
	if (!ret)
		ret = merge(&m, &wanted, &wishes);
	if (ret && !l->error[0])
		snprintf(l->error, sizeof(l->error), "%s", strerror(-ret));
	free(m.agents);
	free(m.sources);
	rows_clear(&wanted);
	rows_clear(&wishes);
}

void links_wanted_read(struct links_list *l)
{
	links_list_read(l);
	if (l->error[0] || !obs_source_client(l->source) || l->selector)
		return;
	add_wanted(l);
	links_list_sort(l);
}
