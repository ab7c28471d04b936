/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/links_list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nanoctrl/client/nanoctrl_client.h"

static const char *const state_names[] = { "connecting", "connected", "broken", "refused" };

static void copy(char *to, size_t room, const char *from)
{
	snprintf(to, room, "%s", from ? from : "");
}

bool links_end_is_connected(const struct links_end *e)
{
	return !strcmp(e->state, state_names[NC_CONNECTED]);
}

/* ---- the list ---- */

struct links_end *links_list_new(struct links_list *l)
{
	if (l->n == l->room) {
		size_t room = l->room ? 2 * l->room : 64;
		struct links_end *bigger = realloc(l->ends, room * sizeof(*bigger));

		if (!bigger)
			return NULL;
		l->ends = bigger;
		l->room = room;
	}
	return &l->ends[l->n++];
}

static bool is_asked_for(const struct links_list *l, const char *agent, const char *peer)
{
	return !l->about || !strcmp(l->about, agent) || !strcmp(l->about, peer);
}

static int compare(const void *a, const void *b)
{
	const struct links_end *x = a, *y = b;
	int d = strcmp(x->agent, y->agent);

	if (!d)
		d = strcmp(x->peer, y->peer);
	return d ? d : strcmp(x->profile, y->profile);
}

void links_list_sort(struct links_list *l)
{
	if (l->n)
		qsort(l->ends, l->n, sizeof(*l->ends), compare);
}

/* Among the first n, which are sorted. */
struct links_end *links_list_find_first(const struct links_list *l, size_t n,
					const struct links_end *like)
{
	return n ? bsearch(like, l->ends, n, sizeof(*l->ends), compare) : NULL;
}

const struct links_end *links_list_find(const struct links_list *l, const char *agent,
					const char *peer, const char *profile)
{
	struct links_end like = { .ours = true };

	copy(like.agent, sizeof(like.agent), agent);
	copy(like.peer, sizeof(like.peer), peer);
	copy(like.profile, sizeof(like.profile), profile);
	return links_list_find_first(l, l->n, &like);
}

static int by_name(const void *name, const void *snapshot)
{
	return strcmp(name, ((const struct obs_snapshot *)snapshot)->peer);
}

const struct obs_snapshot *links_list_snapshot(const struct links_list *l, const char *agent)
{
	const struct obs_list *s = &l->snapshots;

	return s->n ? bsearch(agent, s->list, s->n, sizeof(*s->list), by_name) : NULL;
}

static void forget_ends(struct links_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->ends[i].story);
	l->n = 0;
}

void links_list_clear(struct links_list *l)
{
	forget_ends(l);
	obs_list_clear(&l->snapshots);
	free(l->ends);
	l->ends = NULL;
	l->room = 0;
}

/* ---- what agents report ---- */

static uint64_t number_of(const char *text)
{
	uint64_t n;

	return json_u64((struct json_slice){ text, strlen(text) }, UINT64_MAX, &n) ? n : 0;
}

static int take_story(struct links_end *e, const struct nc_pairs *pairs)
{
	struct links_story *s = pairs->n ? calloc(1, sizeof(*s)) : NULL;

	e->story = s;
	if (!s)
		return pairs->n ? -ENOMEM : 0;
	for (size_t i = 0; i < pairs->n; i++) {
		const char *key = pairs->list[i].key, *value = pairs->list[i].value;

		if (!strcmp(key, "transports"))
			copy(s->transports, sizeof(s->transports), value);
		else if (!strcmp(key, "order"))
			copy(s->order, sizeof(s->order), value);
		else if (!strcmp(key, "passed_over"))
			copy(s->passed_over, sizeof(s->passed_over), value);
		else if (!strcmp(key, "no_foreign_memory"))
			copy(s->no_foreign_memory, sizeof(s->no_foreign_memory), value);
		else if (!strcmp(key, "last_error"))
			copy(s->last_error, sizeof(s->last_error), value);
		else if (!strcmp(key, "max_bandwidth"))
			s->max_bandwidth = number_of(value);
		else if (!strcmp(key, "connects"))
			s->n_connects = number_of(value);
		else if (!strcmp(key, "failures"))
			s->n_failures = number_of(value);
	}
	return 0;
}

static const char *attribute(const struct nc_pairs *pairs, const char *key)
{
	for (size_t i = 0; i < pairs->n; i++)
		if (!strcmp(pairs->list[i].key, key))
			return pairs->list[i].value;
	return NULL;
}

static int append(struct links_list *l, const struct nc_link *from)
{
	struct links_end *to;

	if (!is_asked_for(l, from->agent, from->peer))
		return 0;
	to = links_list_new(l);
	if (!to)
		return -ENOMEM;
	*to = (struct links_end){ .ours = true, .reported = true, .age_ms = from->age_ms };
	copy(to->agent, sizeof(to->agent), from->agent);
	copy(to->peer, sizeof(to->peer), from->peer);
	copy(to->profile, sizeof(to->profile), from->profile);
	copy(to->transport, sizeof(to->transport), from->transport);
	copy(to->cause, sizeof(to->cause), from->cause);
	copy(to->state, sizeof(to->state), state_names[from->state]);
	copy(to->source, sizeof(to->source), attribute(&from->attributes, "source"));
	return l->about ? take_story(to, &from->attributes) : 0;
}

/* Whether the absence of a report means no: without a server only agents that write snapshots
 * report anything. */
static bool would_report(const struct links_list *l, const char *agent)
{
	const struct obs_snapshot *s;

	if (obs_source_client(l->source))
		return true;
	s = links_list_snapshot(l, agent);
	return s && s->native && s->state != OBS_STOPPED;
}

/* A link has two ends. One that says it is connected while the other says nothing is half a link:
 * the other end gets a line of its own. */
static int add_unreported(struct links_list *l)
{
	size_t n = l->n;

	links_list_sort(l);
	for (size_t i = 0; i < n; i++) {
		struct links_end end = { .ours = true, .missing = true }, *to;

		copy(end.state, sizeof(end.state), "unreported");
		copy(end.agent, sizeof(end.agent), l->ends[i].peer);
		copy(end.peer, sizeof(end.peer), l->ends[i].agent);
		copy(end.profile, sizeof(end.profile), l->ends[i].profile);
		copy(end.cause, sizeof(end.cause), "this end has not been reported");
		if (!l->ends[i].ours || !links_end_is_connected(&l->ends[i]) ||
		    links_list_find_first(l, n, &end) || !would_report(l, end.agent))
			continue;
		to = links_list_new(l);
		if (!to)
			return -ENOMEM;
		*to = end;
	}
	return 0;
}

static void finish(struct links_list *l, const char *error)
{
	copy(l->error, sizeof(l->error), error);
	obs_source_done(l->source, &l->done);
}

static void on_page(void *arg, const struct nc_error *error, const struct nc_page *page)
{
	struct links_list *l = arg;
	int ret = 0;

	if (error) {
		finish(l, error->message[0] ? error->message : strerror(-error->err));
		return;
	}
	for (size_t i = 0; i < page->n && !ret; i++)
		ret = append(l, &page->links[i]);
	if (!ret && page->next && ++l->n_pages == OBS_PAGES_MAX) {
		finish(l, "the list of links has no end");
		return;
	}
	if (!ret && page->next)
		ret = nc_list_links(obs_source_client(l->source), l->selector, page->next, on_page,
				    l);
	else if (!ret && !l->selector)
		ret = add_unreported(l);
	if (ret || !page->next)
		finish(l, ret ? strerror(-ret) : NULL);
}

static void read_reports(struct links_list *l)
{
	int ret = nc_list_links(obs_source_client(l->source), l->selector, NULL, on_page, l);

	if (ret)
		finish(l, strerror(-ret));
	obs_source_await(l->source, &l->done);
}

/* ---- what snapshots say ---- */

static void count(struct links_end *e, struct json_slice c)
{
	obs_text(c, "local_nic", e->local, sizeof(e->local));
	obs_text(c, "remote_nic", e->remote, sizeof(e->remote));
	e->counted = obs_member(c, "completed_bytes_total").at != NULL;
	e->bytes = obs_number(c, "completed_bytes_total");
	e->pending = obs_number(c, "pending_ops");
	e->errors = obs_number(c, "error_total");
	e->bps = obs_real(c, "ewma_bandwidth_bps");
	e->conn_id = obs_member(c, "conn_id");
	e->rails = obs_member(c, "rails");
}

/* A link of ours is there by its report: the snapshot may be older. */
static int take_connection(struct links_list *l, size_t n, const struct obs_snapshot *s,
			   struct json_slice c)
{
	struct links_end e = { .age_ms = s->age_ms }, *to;

	e.ours = s->native && s->state != OBS_STOPPED;
	copy(e.agent, sizeof(e.agent), s->peer);
	obs_text(c, "peer", e.peer, sizeof(e.peer));
	obs_text(c, "profile", e.profile, sizeof(e.profile));
	if (!*e.profile)
		copy(e.profile, sizeof(e.profile), "default");
	to = links_list_find_first(l, n, &e);
	if (!to && ((s->native && obs_source_client(l->source)) || l->selector ||
		    !is_asked_for(l, e.agent, e.peer)))
		return 0;
	if (!to) {
		obs_text(c, "state", e.state, sizeof(e.state));
		if (s->state == OBS_STALE || s->state == OBS_STOPPED)
			copy(e.state, sizeof(e.state), obs_state_names[s->state]);
		obs_text(c, "transport", e.transport, sizeof(e.transport));
		to = links_list_new(l);
		if (!to)
			return -ENOMEM;
		*to = e;
	}
	count(to, c);
	return 0;
}

static int take_snapshots(struct links_list *l)
{
	struct json_slice key, c;
	struct json_walk w;
	size_t n = l->n;
	int ret = 0;

	links_list_sort(l);
	for (size_t i = 0; i < l->snapshots.n && !ret; i++) {
		const struct obs_snapshot *s = &l->snapshots.list[i];

		if (!s->connections.at || !json_walk_init(&w, s->connections))
			continue;
		while (!ret && json_walk_next(&w, &key, &c))
			if (*c.at == '{')
				ret = take_connection(l, n, s, c);
	}
	if (!ret && !obs_source_client(l->source))
		ret = add_unreported(l);
	links_list_sort(l);
	return ret;
}

void links_list_read(struct links_list *l)
{
	int ret;

	forget_ends(l);
	l->n_pages = 0;
	l->error[0] = '\0';
	l->done = false;
	if (obs_source_client(l->source))
		read_reports(l);
	if (l->error[0])
		return;
	ret = obs_source_read(l->source, &l->snapshots, l->error, sizeof(l->error));
	if (!ret)
		ret = take_snapshots(l);
	if (ret && !l->error[0])
		copy(l->error, sizeof(l->error), strerror(-ret));
}
