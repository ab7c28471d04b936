/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/expand.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <slime/export.h>

/* The links so far, and a table that finds one: open addressing, more than half of it empty. */
struct work {
	struct expansion *out;
	size_t room;
	size_t *slots; /* index of a link + 1; 0: empty */
	size_t n_slots;
	const struct topology_agent *agents;
	size_t n_agents;
	/* of the topology that is expanded now */
	const struct topology *topology;
	struct expanded_topology *result;
	size_t first; /* of its links */
	bool too_many;
};

/* ---- notes ---- */

static int note(struct work *w, const char *fmt, ...) SLIME_PRINTF(2, 3);

static int note(struct work *w, const char *fmt, ...)
{
	struct expanded_topology *t = w->result;
	va_list args;

	if (t->n_notes++ >= EXPANDED_NOTES_MAX)
		return 0;
	if (!t->notes)
		t->notes = calloc(EXPANDED_NOTES_MAX, sizeof(*t->notes));
	if (!t->notes)
		return -ENOMEM;
	va_start(args, fmt);
	vsnprintf(t->notes[t->n_notes - 1], EXPANDED_NOTE_LEN, fmt, args);
	va_end(args);
	return 0;
}

/* ---- the set of links ---- */

static uint64_t hash_text(uint64_t h, const char *s)
{
	do /* FNV-1a, with the NUL */
		h = (h ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
	while (*s++);
	return h;
}

static size_t *find_slot(const struct work *w, const char *lower, const char *upper,
			 const char *profile)
{
	uint64_t h = hash_text(hash_text(hash_text(UINT64_C(0xcbf29ce484222325), lower), upper),
			       profile);
	size_t i = (size_t)(h ^ h >> 32) & (w->n_slots - 1);

	for (; w->slots[i]; i = (i + 1) & (w->n_slots - 1)) {
		const struct expanded_link *l = &w->out->links[w->slots[i] - 1];

		if (!strcmp(l->lower, lower) && !strcmp(l->upper, upper) &&
		    !strcmp(l->params->profile, profile))
			break;
	}
	return &w->slots[i];
}

static void fill_slots(struct work *w)
{
	memset(w->slots, 0, w->n_slots * sizeof(*w->slots));
	for (size_t i = 0; i < w->out->n_links; i++) {
		const struct expanded_link *l = &w->out->links[i];

		*find_slot(w, l->lower, l->upper, l->params->profile) = i + 1;
	}
}

static int make_room(struct work *w)
{
	size_t room = w->room ? 2 * w->room : 256;
	struct expanded_link *links;
	size_t *slots;

	if (w->out->n_links < w->room)
		return 0;
	links = realloc(w->out->links, room * sizeof(*links));
	if (!links)
		return -ENOMEM;
	w->out->links = links;
	slots = realloc(w->slots, 4 * room * sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	w->slots = slots;
	w->n_slots = 4 * room;
	w->room = room;
	fill_slots(w);
	return 0;
}

static int note_conflict(struct work *w, const struct expanded_link *have)
{
	w->result->n_conflicts++;
	return note(
		w,
		"Conflicted: %s - %s (%s) has other parameters in topology %s, which has the link",
		have->lower, have->upper, have->params->profile, have->topology->name);
}

/* a is the first end. */
static int add(struct work *w, const char *a, const char *b, const struct topology_params *params)
{
	int order = strcmp(a, b);
	const char *lower = order < 0 ? a : b, *upper = order < 0 ? b : a;
	int ret = order ? make_room(w) : 0;
	size_t *slot;

	if (ret || !order || w->too_many)
		return ret;
	slot = find_slot(w, lower, upper, params->profile);
	if (*slot) {
		const struct expanded_link *have = &w->out->links[*slot - 1];

		return wish_params_equal(have->params, params, have->from_upper != (order > 0))
			       ? 0
			       : note_conflict(w, have);
	}
	if (w->out->n_links - w->first == TOPOLOGY_LINKS_MAX) {
		w->too_many = true;
		return 0;
	}
	w->out->links[w->out->n_links++] =
		(struct expanded_link){ lower, upper, w->topology, params, order > 0 };
	*slot = w->out->n_links;
	return 0;
}

/* ---- kinds ---- */

/* The agents that are meant, and those that left less than settle_ms ago; *out has *n of them. */
static int select_within(struct work *w, const char *who, uint64_t settle_ms,
			 const struct topology_agent ***out, size_t *n)
{
	*n = 0;
	*out = malloc((w->n_agents + 1) * sizeof(**out));
	if (!*out)
		return -ENOMEM;
	for (size_t i = 0; i < w->n_agents; i++) {
		const struct topology_agent *a = &w->agents[i];

		if (a->gone && a->gone_ms >= settle_ms)
			continue;
		if (wish_selects(who, a))
			(*out)[(*n)++] = a;
	}
	return *n ? 0 : note(w, "no registered agent matches %s", who);
}

static int select_agents(struct work *w, const char *who, const struct topology_agent ***out,
			 size_t *n)
{
	return select_within(w, who, 0, out, n);
}

static int expand_mesh(struct work *w, const struct wish *wish)
{
	const struct topology_agent **m;
	size_t n;
	int ret = select_agents(w, wish->from, &m, &n);

	for (size_t i = 0; i < n && !ret && !w->too_many; i++)
		for (size_t j = i + 1; j < n && !ret && !w->too_many; j++)
			ret = add(w, m[i]->name, m[j]->name, &wish->params);
	free(m);
	return ret;
}

static int expand_from_to(struct work *w, const struct wish *wish)
{
	const struct topology_agent **from = NULL, **to = NULL;
	size_t n_from, n_to = 0;
	int ret = select_agents(w, wish->from, &from, &n_from);

	if (!ret)
		ret = select_agents(w, wish->to, &to, &n_to);
	for (size_t i = 0; i < n_from && !ret && !w->too_many; i++)
		for (size_t j = 0; j < n_to && !ret && !w->too_many; j++)
			ret = add(w, from[i]->name, to[j]->name, &wish->params);
	free(from);
	free(to);
	return ret;
}

static bool is_there(const struct work *w, const char *name)
{
	size_t low = 0, high = w->n_agents;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int order = strcmp(w->agents[mid].name, name);

		if (!order)
			return !w->agents[mid].gone;
		if (order < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return false;
}

/* A link that is named is wanted whether or not its agents are there. */
static int expand_pairs(struct work *w, const struct wish *wish)
{
	int ret = 0;

	for (size_t i = 0; i < wish->n_pairs && !ret; i++) {
		const struct wish_pair *p = &wish->pairs[i];

		ret = add(w, p->a, p->b, &wish->params);
		if (!ret && !is_there(w, p->a))
			ret = note(w, "%s is not registered", p->a);
		if (!ret && !is_there(w, p->b))
			ret = note(w, "%s is not registered", p->b);
	}
	return ret;
}

struct place_in_ring {
	int64_t value;
	const struct topology_agent *agent;
};

static int by_value(const void *a, const void *b)
{
	const struct place_in_ring *x = a, *y = b;

	if (x->value != y->value)
		return x->value < y->value ? -1 : 1;
	return strcmp(x->agent->name, y->agent->name);
}

static const char *label(const struct topology_agent *agent, const char *key)
{
	for (size_t i = 0; i < agent->n_labels; i++)
		if (!strcmp(agent->labels[i].key, key))
			return agent->labels[i].value;
	return NULL;
}

static bool read_integer(const char *text, int64_t *out)
{
	const char *digits = *text == '-' ? text + 1 : text;
	size_t n = strspn(digits, "0123456789");

	if (!n || n > 18 || digits[n])
		return false;
	*out = strtoll(text, NULL, 10);
	return true;
}

static int place_in_ring(struct work *w, const struct wish *wish,
			 const struct topology_agent *agent, struct place_in_ring *places,
			 size_t *n)
{
	const char *text = label(agent, wish->by);

	if (!text)
		return note(w, "%s is left out of the ring: it has no label %s", agent->name,
			    wish->by);
	if (!read_integer(text, &places[*n].value))
		return note(w, "%s is left out of the ring: its label %s is no integer: %.80s",
			    agent->name, wish->by, text);
	places[(*n)++].agent = agent;
	return 0;
}

/* Of agents with one value the one that is there, or that was; NULL where that is none or several.
 */
static const struct place_in_ring *holder(const struct place_in_ring *places, size_t n)
{
	const struct place_in_ring *only = NULL;
	size_t n_there = 0;

	for (size_t i = 0; i < n; i++) {
		if (places[i].agent->gone)
			continue;
		only = &places[i];
		n_there++;
	}
	if (n_there)
		return n_there == 1 ? only : NULL;
	return n == 1 ? places : NULL;
}

/* Agents with equal values are left out, all of them: none of them is the right one. */
static int drop_equals(struct work *w, const struct wish *wish, struct place_in_ring *places,
		       size_t *n)
{
	size_t kept = 0;
	int ret = 0;

	for (size_t i = 0, end; i < *n && !ret; i = end) {
		const struct place_in_ring *one;

		for (end = i + 1; end < *n && places[end].value == places[i].value; end++)
			;
		one = holder(&places[i], end - i);
		if (one)
			places[kept++] = *one;
		for (size_t j = i; !one && j < end && !ret; j++)
			ret = places[j].agent->gone
				      ? 0
				      : note(w,
					     "%s is left out of the ring: another agent has the same %s=%" PRId64,
					     places[j].agent->name, wish->by, places[j].value);
	}
	*n = kept;
	return ret;
}

static int expand_ring(struct work *w, const struct wish *wish)
{
	struct place_in_ring *places = NULL;
	const struct topology_agent **m;
	size_t n_members, n = 0;
	int ret = select_within(w, wish->from, wish->settle_ms, &m, &n_members);

	if (!ret) {
		places = malloc((n_members + 1) * sizeof(*places));
		ret = places ? 0 : -ENOMEM;
	}
	for (size_t i = 0; i < n_members && !ret; i++)
		ret = place_in_ring(w, wish, m[i], places, &n);
	if (!ret && n) {
		qsort(places, n, sizeof(*places), by_value);
		ret = drop_equals(w, wish, places, &n);
	}
	for (size_t i = 0; i < n && n > 1 && !ret; i++)
		ret = add(w, places[i].agent->name, places[(i + 1) % n].agent->name, &wish->params);
	free(places);
	free(m);
	return ret;
}

static int (*const kinds[])(struct work *w, const struct wish *wish) = {
	[WISH_MESH] = expand_mesh, [WISH_FROM_TO] = expand_from_to, [WISH_PAIRS] = expand_pairs,
	[WISH_RING] = expand_ring, [WISH_STAR] = expand_from_to,
};

/* ---- a topology ---- */

/* An agent with another label than is expected counts as absent. */
static int check_labels(struct work *w, const struct expected *e, const struct topology_agent *a)
{
	bool fits = true;
	int ret = 0;

	for (size_t i = 0; i < e->n_labels && !ret; i++) {
		const struct topology_label *want = &e->labels[i];
		const char *have = label(a, want->key);

		if (have && !strcmp(have, want->value))
			continue;
		fits = false;
		ret = note(w, "absent: %s has label %.80s=%.80s, and %.80s is expected", a->name,
			   want->key, have ? have : "", want->value);
	}
	w->result->n_absent += !fits;
	return ret;
}

static int find_absent(struct work *w)
{
	int ret = 0;

	for (size_t i = 0; i < w->topology->n_expected && !ret; i++) {
		const struct expected *e = &w->topology->expected[i];
		uint64_t n = 0;

		for (size_t j = 0; j < w->n_agents && !ret; j++) {
			if (w->agents[j].gone || !wish_selects(e->who, &w->agents[j]))
				continue;
			n++;
			ret = check_labels(w, e, &w->agents[j]);
		}
		if (ret || n >= e->count)
			continue;
		w->result->n_absent += (size_t)(e->count - n);
		ret = note(w, "absent: %s: %" PRIu64 " of %" PRIu64 " are registered", e->who, n,
			   e->count);
	}
	return ret;
}

/* In place of what was expanded of it. */
static int keep_links(struct work *w, const struct expanded_link *kept, size_t n_kept)
{
	int ret = 0;

	w->out->n_links = w->first;
	fill_slots(w);
	w->too_many = false;
	for (size_t i = 0; i < n_kept && !ret; i++)
		if (kept[i].topology == w->topology)
			ret = kept[i].from_upper
				      ? add(w, kept[i].upper, kept[i].lower, kept[i].params)
				      : add(w, kept[i].lower, kept[i].upper, kept[i].params);
	w->result->state = TOPOLOGY_TOO_MANY_LINKS;
	return ret ? ret
		   : note(w,
			  "TooManyLinks: the wishes come to more than %d links: those that are there stay",
			  TOPOLOGY_LINKS_MAX);
}

static int expand_one(struct work *w, const struct expanded_link *kept, size_t n_kept)
{
	int ret = find_absent(w);

	for (size_t i = 0; i < w->topology->n_wishes && !ret; i++)
		ret = kinds[w->topology->wishes[i].kind](w, &w->topology->wishes[i]);
	if (!ret && w->too_many)
		ret = keep_links(w, kept, n_kept);
	else if (w->result->n_conflicts)
		w->result->state = TOPOLOGY_CONFLICTED;
	else if (w->result->n_absent)
		w->result->state = TOPOLOGY_WAITING;
	w->result->n_links = w->out->n_links - w->first;
	return ret;
}

static int by_name(const void *a, const void *b)
{
	const struct expanded_link *x = a, *y = b;
	int order = strcmp(x->lower, y->lower);

	if (!order)
		order = strcmp(x->upper, y->upper);
	return order ? order : strcmp(x->params->profile, y->params->profile);
}

int expand(const struct topology *topologies, size_t n, const struct topology_agent *agents,
	   size_t n_agents, const struct expanded_link *kept, size_t n_kept, struct expansion *out)
{
	struct work w = { .out = out, .agents = agents, .n_agents = n_agents };
	int ret = 0;

	*out = (struct expansion){ .n_topologies = n };
	out->topologies = calloc(n + 1, sizeof(*out->topologies));
	if (!out->topologies)
		ret = -ENOMEM;
	for (size_t i = 0; i < n && !ret; i++) {
		w.topology = &topologies[i];
		w.result = &out->topologies[i];
		w.first = out->n_links;
		w.too_many = false;
		ret = expand_one(&w, kept, n_kept);
	}
	free(w.slots);
	if (!ret && out->n_links)
		qsort(out->links, out->n_links, sizeof(*out->links), by_name);
	if (ret)
		expansion_fini(out);
	return ret;
}

void expansion_fini(struct expansion *e)
{
	for (size_t i = 0; e->topologies && i < e->n_topologies; i++)
		free(e->topologies[i].notes);
	free(e->topologies);
	free(e->links);
	*e = (struct expansion){ .n_links = 0 };
}
