/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The changes that applying topologies makes. Nothing is written here: the caller writes the result
 * if no other writer came since it read the state.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <base/text_set.h>
#include <jansson.h>
#include "model/json_path.h"
#include "model/topology.h"

/* A topology of the scope, as it is to be. */
struct side {
	json_t *before; /* as it is stored; NULL: it is new */
	json_t *root;	/* as it is to be */
	bool given;	/* by the body */
	struct json_path path;
	struct model_topology model;
	json_t *kept; /* wishes that the body does not have any more */
};

struct applying {
	const struct model_apply *how;
	struct side *sides;
	size_t n;
	struct model_error *err;
};

static const char *name_of(const struct side *s)
{
	return json_string_value(json_object_get(s->root, "name"));
}

static struct json_path nowhere(const struct applying *a)
{
	return (struct json_path){ .err = a->err };
}

static int no_memory(const struct applying *a)
{
	struct json_path p = nowhere(a);

	return json_path_no_memory(&p);
}

/* ---- what is there, and what is given ---- */

static int take_stored(struct applying *a, const struct store_topologies *have)
{
	for (size_t i = 0; i < have->n; i++) {
		json_error_t why;
		json_t *root =
			json_path_parse(have->list[i].doc.at, have->list[i].doc.len, 0, &why);
		const char *name = json_string_value(json_object_get(root, "name"));

		if (!name || strcmp(name, have->list[i].name) != 0) {
			model_note_junk();
			json_decref(root);
			continue;
		}
		a->sides[a->n].before = root;
		a->sides[a->n++].root = json_incref(root);
	}
	return 0;
}

static struct side *side_named(struct applying *a, const char *name)
{
	for (size_t i = 0; i < a->n; i++)
		if (!strcmp(name_of(&a->sides[i]), name))
			return &a->sides[i];
	return &a->sides[a->n];
}

static int take_given(struct applying *a, const struct json_path *p)
{
	struct model_topology m;
	struct side *s;
	int ret = model_topology_read(p, &m);

	if (ret)
		return ret;
	if (m.scope && strcmp(m.scope, a->how->scope) != 0)
		ret = json_path_refuse(p, "bad_value", "scope",
				       "is not %s, the scope of the request", a->how->scope);
	if (!ret && a->how->name && strcmp(m.topology.name, a->how->name) != 0)
		ret = json_path_refuse(p, "bad_value", "name", "is not %s, the name in the path",
				       a->how->name);
	s = ret ? NULL : side_named(a, m.topology.name);
	if (s && s->given)
		ret = json_path_refuse(p, "bad_value", "name",
				       "is the name of another topology here");
	model_topology_fini(&m);
	if (ret)
		return ret;
	if (s == &a->sides[a->n])
		a->n++;
	json_decref(s->root);
	s->root = json_deep_copy(p->in);
	s->given = true;
	s->path = *p;
	return s->root ? 0 : no_memory(a);
}

static int take_list(struct applying *a, const struct json_path *p)
{
	json_t *array, *item;
	struct json_path in;
	size_t i;
	int ret = json_path_member(p, "topologies", REQUIRED, JSON_ARRAY, &array);

	if (ret)
		return ret;
	if (json_array_size(array) > STORE_TOPOLOGIES_MAX)
		return json_path_refuse(p, "bad_value", "topologies", "are more than %d",
					STORE_TOPOLOGIES_MAX);
	json_array_foreach(array, i, item)
	{
		json_path_element(p, "topologies", i, item, &in);
		ret = json_is_object(item) ? take_given(a, &in)
					   : json_path_bad_type(&in, "", "an object");
		if (ret)
			return ret;
	}
	return 0;
}

/* ---- wishes that the body does not have ---- */

static const char *profile_of(const json_t *wish)
{
	const char *profile = json_string_value(json_object_get(wish, "profile"));

	return profile ? profile : "default";
}

/* Whether both wish for the same links, with any parameters. */
static bool same_links(const json_t *a, const json_t *b)
{
	static const char *const members[] = {
		"mesh", "from", "to", "pairs", "ring", "by", "star"
	};

	for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++) {
		json_t *x = json_object_get(a, members[i]), *y = json_object_get(b, members[i]);

		if (x != y && !json_equal(x, y))
			return false;
	}
	return !strcmp(profile_of(a), profile_of(b));
}

static bool has_same_links(const json_t *wishes, const json_t *wish)
{
	const json_t *item;
	size_t i;

	json_array_foreach(wishes, i, item) if (same_links(item, wish)) return true;
	return false;
}

/* 1 where the pair is new to the set, 0, -ENOMEM. */
static int add_pair(struct text_set *set, const json_t *pair, const char *profile)
{
	const char *a = json_string_value(json_array_get(pair, 0));
	const char *b = json_string_value(json_array_get(pair, 1));
	char key[3 * STORE_NAME_MAX + 3];
	int len;

	if (!a || !b)
		return 0;
	len = snprintf(key, sizeof(key), "%s/%s/%s", strcmp(a, b) < 0 ? a : b,
		       strcmp(a, b) < 0 ? b : a, profile);
	return text_set_add(set, key, (size_t)len);
}

static int note_pairs(struct text_set *set, const json_t *wishes)
{
	const json_t *wish, *pair;
	size_t i, j;

	json_array_foreach(wishes, i, wish) json_array_foreach(
		json_object_get(wish, "pairs"), j,
		pair) if (add_pair(set, pair, profile_of(wish)) < 0) return -ENOMEM;
	return 0;
}

/* The wish without the pairs that are in the set; NULL where none is left, or without memory. */
static json_t *without_pairs(struct text_set *set, const json_t *wish, int *ret)
{
	json_t *left = json_array(), *copy = NULL, *pair;
	size_t i;

	json_array_foreach(json_object_get(wish, "pairs"), i, pair)
	{
		int is_new = add_pair(set, pair, profile_of(wish));

		if (!left || is_new < 0 || (is_new && json_array_append(left, pair)))
			*ret = -ENOMEM;
	}
	if (!*ret && json_array_size(left)) {
		copy = json_copy((json_t *)(uintptr_t)wish);
		if (!copy || json_object_set(copy, "pairs", left))
			*ret = -ENOMEM;
	}
	json_decref(left);
	return copy;
}

static json_t *links_of(json_t *root)
{
	return json_object_get(root, "links");
}

/* Wishes of before that the body has not any more: they stay unless they are pruned. */
static int find_dropped(const struct applying *a, struct side *s)
{
	struct text_set pairs = { .seed = 0 };
	const json_t *wish;
	int ret = note_pairs(&pairs, links_of(s->root));
	size_t i;

	s->kept = json_array();
	if (!s->kept)
		ret = -ENOMEM;
	json_array_foreach(links_of(s->before), i, wish)
	{
		json_t *left;

		if (ret)
			break;
		if (json_object_get(wish, "pairs"))
			left = without_pairs(&pairs, wish, &ret);
		else
			left = has_same_links(links_of(s->root), wish)
				       ? NULL
				       : json_incref((json_t *)(uintptr_t)wish);
		if (left && json_array_append_new(s->kept, left))
			ret = -ENOMEM;
	}
	text_set_fini(&pairs);
	return ret ? no_memory(a) : 0;
}

static int keep_dropped(const struct applying *a, struct side *s)
{
	json_t *links = links_of(s->root);

	if (a->how->prune || !json_array_size(s->kept))
		return 0;
	if (!links && json_object_set_new(s->root, "links", json_array()))
		return no_memory(a);
	return json_array_extend(links_of(s->root), s->kept) ? no_memory(a) : 0;
}

/* ---- links that two topologies name ---- */

#define WHOLE SIZE_MAX

struct named {
	const char *lower, *upper, *profile;
	struct side *side;
	size_t wish, pair; /* WHOLE: the wish is this one link */
};

static int by_link(const void *a, const void *b)
{
	const struct named *x = a, *y = b;
	int order = strcmp(x->lower, y->lower);

	if (!order)
		order = strcmp(x->upper, y->upper);
	if (!order)
		order = strcmp(x->profile, y->profile);
	if (!order && x->side != y->side)
		order = x->side < y->side ? -1 : 1;
	if (!order && x->wish != y->wish)
		order = x->wish < y->wish ? -1 : 1;
	return order ? order : (x->pair > y->pair) - (x->pair < y->pair);
}

static bool same_link(const struct named *a, const struct named *b)
{
	return !strcmp(a->lower, b->lower) && !strcmp(a->upper, b->upper) &&
	       !strcmp(a->profile, b->profile);
}

static void add_named(struct named *out, size_t *n, struct side *s, size_t wish, size_t pair,
		      const char *a, const char *b)
{
	if (out)
		out[*n] = (struct named){ strcmp(a, b) < 0 ? a : b,
					  strcmp(a, b) < 0 ? b : a,
					  s->model.topology.wishes[wish].params.profile,
					  s,
					  wish,
					  pair };
	++*n;
}

/* All links that wishes name; out may be NULL, to count them. */
static size_t find_named(struct applying *a, struct named *out)
{
	size_t n = 0;

	for (size_t i = 0; i < a->n; i++) {
		const struct topology *t = &a->sides[i].model.topology;

		for (size_t w = 0; w < t->n_wishes; w++) {
			const struct wish *wish = &t->wishes[w];

			for (size_t p = 0; p < wish->n_pairs; p++)
				add_named(out, &n, &a->sides[i], w, p, wish->pairs[p].a,
					  wish->pairs[p].b);
			if (wish->to && !wish_is_selector(wish->from) &&
			    !wish_is_selector(wish->to))
				add_named(out, &n, &a->sides[i], w, WHOLE, wish->from, wish->to);
		}
	}
	return n;
}

static int refuse_twice(const struct named *first, const struct named *other)
{
	const struct named *given = other->side->given ? other : first;
	const struct named *holder = given == other ? first : other;
	struct json_path in, links;
	char pair[48] = "";
	int ret;

	json_path_element(&given->side->path, "links", given->wish, NULL, &links);
	in = links;
	if (given->pair != WHOLE) {
		snprintf(pair, sizeof(pair), "pairs");
		json_path_element(&links, pair, given->pair, NULL, &in);
	}
	if (holder->side == given->side)
		return json_path_refuse(&in, "duplicate_link", "",
					"names a link that links[%zu] names, too", holder->wish);
	ret = json_path_refuse(&in, "conflict", "", "names a link of topology %.60s",
			       name_of(holder->side));
	given->side->path.err->status = 409;
	return ret;
}

static void take_over(const struct named *from)
{
	json_t *links = links_of(from->side->root);
	json_t *pairs = json_object_get(json_array_get(links, from->wish), "pairs");

	if (from->pair != WHOLE && json_array_size(pairs) > 1)
		json_array_remove(pairs, from->pair);
	else
		json_array_remove(links, from->wish);
}

static int by_place_backwards(const void *a, const void *b)
{
	const struct named *x = a, *y = b;

	if (x->side != y->side)
		return x->side < y->side ? -1 : 1;
	if (x->wish != y->wish)
		return x->wish > y->wish ? -1 : 1;
	return (y->pair > x->pair) - (y->pair < x->pair);
}

/* Those of other topologies that are taken over, moved to the front of all; or what is wrong. */
static int find_taken(const struct applying *a, struct named *all, size_t n, size_t *n_taken)
{
	size_t first = 0;

	*n_taken = 0;
	for (size_t i = 1; i < n; i++) {
		const struct named *holder, *x = &all[first], *y = &all[i];

		if (!same_link(x, y)) {
			first = i;
			continue;
		}
		holder = x->side->given ? y : x;
		if (x->side == y->side || !a->how->force || holder->side->given)
			return refuse_twice(x, y);
		/* Two topologies that are stored have no link in common: it is before i. */
		all[(*n_taken)++] = *holder;
	}
	return 0;
}

static int unshare(struct side *s)
{
	json_t *own = json_deep_copy(s->root);

	if (!own)
		return -ENOMEM;
	json_decref(s->root);
	s->root = own;
	return 0;
}

static int find_conflicts(struct applying *a)
{
	size_t n = find_named(a, NULL), n_taken;
	struct named *all = malloc((n + 1) * sizeof(*all));
	int ret = 0;

	if (!all)
		return no_memory(a);
	n = 0;
	n = find_named(a, all);
	if (n)
		qsort(all, n, sizeof(*all), by_link);
	ret = find_taken(a, all, n, &n_taken);
	if (!ret && n_taken)
		qsort(all, n_taken, sizeof(*all), by_place_backwards);
	for (size_t i = 0; i < n_taken && !ret; i++) {
		if (all[i].side->root == all[i].side->before && unshare(all[i].side))
			ret = no_memory(a);
		if (!ret)
			take_over(&all[i]);
	}
	free(all);
	return ret;
}

/* ---- the change ---- */

static bool changes(const struct side *s)
{
	return !s->before || !json_equal(s->before, s->root);
}

/* Wishes of one that the other has not. */
static json_t *difference(const json_t *of, const json_t *other)
{
	json_t *out = json_array(), *wish, *have;
	size_t i, j;

	json_array_foreach(of, i, wish)
	{
		bool found = false;

		json_array_foreach(other, j, have) found = found || json_equal(wish, have);
		if (!found)
			json_array_append(out, wish);
	}
	return out;
}

static int add_summary(json_t *summary, const struct side *s)
{
	const char *action = !s->before ? "created" : changes(s) ? "changed" : "unchanged";
	json_t *o;

	if (!s->given && !changes(s))
		return 0;
	o = json_pack("{s:s,s:s,s:o,s:o,s:O*}", "name", name_of(s), "action", action, "added",
		      difference(links_of(s->root), links_of(s->before)), "removed",
		      difference(links_of(s->before), links_of(s->root)), "dropped", s->kept);
	return o ? json_array_append_new(summary, o) : -1;
}

static int make_change(struct applying *a, struct model_change *out)
{
	json_t *summary = json_array(), *roots = json_array();
	int ret = summary && roots ? 0 : -ENOMEM;

	out->puts = calloc(a->n + 1, sizeof(*out->puts));
	for (size_t i = 0; i < a->n && !ret; i++) {
		struct side *s = &a->sides[i];

		if (!out->puts || add_summary(summary, s) || json_array_append(roots, s->root))
			ret = -ENOMEM;
		if (ret || !changes(s))
			continue;
		out->puts[out->n].name = name_of(s);
		out->puts[out->n].doc = json_dumps(s->root, JSON_COMPACT);
		if (!out->puts[out->n++].doc)
			ret = -ENOMEM;
	}
	out->roots = roots;
	if (!ret)
		out->summary = json_dumps(summary, JSON_COMPACT);
	json_decref(summary);
	return ret || !out->summary ? no_memory(a) : 0;
}

static int read_sides(struct applying *a)
{
	int ret = 0;

	for (size_t i = 0; i < a->n && !ret; i++) {
		struct side *s = &a->sides[i];
		struct model_error ours;

		if (s->given)
			ret = find_dropped(a, s);
		if (s->given && !ret)
			ret = keep_dropped(a, s);
		if (!ret && !s->given)
			s->path = (struct json_path){ .err = &ours };
		s->path.in = s->root;
		if (!ret)
			ret = model_topology_read(&s->path, &s->model);
		/* One that another release wrote has no say. */
		if (ret == -EINVAL && !s->given) {
			model_note_junk();
			ret = 0;
		}
		if (!s->given)
			s->path.err = a->err;
	}
	return ret;
}

static int apply(struct applying *a, const struct json_path *p, struct model_change *out)
{
	int ret = a->how->name ? take_given(a, p) : take_list(a, p);

	if (!ret)
		ret = read_sides(a);
	if (!ret)
		ret = find_conflicts(a);
	return ret ? ret : make_change(a, out);
}

int model_apply(const struct model_apply *how, const struct store_topologies *have,
		const char *body, size_t len, struct model_change *out, struct model_error *err)
{
	struct applying a = { .how = how, .err = err };
	struct json_path p;
	int ret;

	*out = (struct model_change){ .n = 0 };
	ret = json_path_load(&p, body, len, err);
	if (ret)
		return ret;
	a.sides = calloc(have->n + STORE_TOPOLOGIES_MAX + 1, sizeof(*a.sides));
	ret = a.sides ? take_stored(&a, have) : no_memory(&a);
	if (!ret)
		ret = apply(&a, &p, out);
	for (size_t i = 0; a.sides && i < have->n + STORE_TOPOLOGIES_MAX; i++) {
		model_topology_fini(&a.sides[i].model);
		json_decref(a.sides[i].before);
		json_decref(a.sides[i].root);
		json_decref(a.sides[i].kept);
	}
	free(a.sides);
	json_decref(p.in);
	if (ret)
		model_change_fini(out);
	return ret;
}

void model_change_fini(struct model_change *c)
{
	for (size_t i = 0; c->puts && i < c->n; i++)
		free(c->puts[i].doc);
	free(c->puts);
	free(c->summary);
	json_decref(c->roots);
	*c = (struct model_change){ .n = 0 };
}
