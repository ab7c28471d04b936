/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/lists.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/topology.h"

static int make_room(struct wanted_lists *l)
{
	size_t room = l->room ? 2 * l->room : 64;
	struct wanted_list *at;

	if (l->n < l->room)
		return 0;
	at = realloc(l->at, room * sizeof(*at));
	if (!at)
		return -ENOMEM;
	l->at = at;
	l->room = room;
	return 0;
}

/* Takes text over. */
static int add(struct wanted_lists *l, const char *agent, char *text)
{
	char *name = strdup(agent);

	if (!name || !text || make_room(l)) {
		free(name);
		free(text);
		return -ENOMEM;
	}
	l->at[l->n++] = (struct wanted_list){ name, text };
	return 0;
}

int lists_add(struct wanted_lists *l, const char *agent, const char *text, size_t len)
{
	return add(l, agent, strndup(len ? text : "", len));
}

static int by_agent(const void *a, const void *b)
{
	const struct wanted_list *x = a, *y = b;

	return strcmp(x->agent, y->agent);
}

static void end(struct wanted_list *l)
{
	free(l->agent);
	free(l->text);
}

void lists_sort(struct wanted_lists *l)
{
	size_t n = 0;

	if (l->n)
		qsort(l->at, l->n, sizeof(*l->at), by_agent);
	for (size_t i = 0; i < l->n; i++) {
		if (n && !strcmp(l->at[n - 1].agent, l->at[i].agent))
			end(&l->at[i]);
		else
			l->at[n++] = l->at[i];
	}
	l->n = n;
}

void lists_fini(struct wanted_lists *l)
{
	for (size_t i = 0; i < l->n; i++)
		end(&l->at[i]);
	free(l->at);
	*l = (struct wanted_lists){ .n = 0 };
}

/* ---- from links ---- */

struct part {
	const char *agent, *peer;
	const struct expanded_link *link;
};

static int by_part(const void *a, const void *b)
{
	const struct part *x = a, *y = b;
	int order = strcmp(x->agent, y->agent);

	if (!order)
		order = strcmp(x->peer, y->peer);
	return order ? order : strcmp(x->link->params->profile, y->link->params->profile);
}

/* Each link twice: in the list of either end. */
static struct part *split(const struct expansion *e)
{
	struct part *parts = malloc((2 * e->n_links + 1) * sizeof(*parts));

	for (size_t i = 0; parts && i < e->n_links; i++) {
		const struct expanded_link *l = &e->links[i];

		parts[2 * i] = (struct part){ l->lower, l->upper, l };
		parts[2 * i + 1] = (struct part){ l->upper, l->lower, l };
	}
	if (parts && e->n_links)
		qsort(parts, 2 * e->n_links, sizeof(*parts), by_part);
	return parts;
}

int lists_make(struct wanted_lists *out, const struct expansion *e,
	       const struct topology_agent *agents, size_t n)
{
	struct part *parts = split(e);
	const struct expanded_link **links = malloc((2 * e->n_links + 1) * sizeof(*links));
	size_t at = 0, n_parts = 2 * e->n_links;
	int ret = parts && links ? 0 : -ENOMEM;

	for (size_t i = 0; i < n && !ret; i++) {
		size_t n_links = 0;

		while (at < n_parts && strcmp(parts[at].agent, agents[i].name) < 0)
			at++; /* of an agent that is not there */
		for (; at < n_parts && !strcmp(parts[at].agent, agents[i].name); at++)
			links[n_links++] = parts[at].link;
		if (agents[i].gone)
			continue;
		ret = add(out, agents[i].name, model_wanted_list(agents[i].name, links, n_links));
	}
	free(links);
	free(parts);
	return ret;
}

int lists_compare(const struct wanted_lists *have, const struct wanted_lists *want, lists_fn *fn,
		  void *arg)
{
	size_t h = 0, w = 0;
	int ret = 0;

	while (!ret && (h < have->n || w < want->n)) {
		int order = h == have->n   ? 1
			    : w == want->n ? -1
					   : strcmp(have->at[h].agent, want->at[w].agent);

		if (order < 0)
			ret = fn(arg, have->at[h].agent, "");
		else if (order > 0 || strcmp(have->at[h].text, want->at[w].text) != 0)
			ret = fn(arg, want->at[w].agent, want->at[w].text);
		h += order <= 0;
		w += order >= 0;
	}
	return ret;
}
