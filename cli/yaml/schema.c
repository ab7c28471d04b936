/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/yaml/arena.h"
#include "cli/options/nearest.h"
#include "cli/output/quote.h"
#include "cli/yaml/schema.h"

#define WHY_MAX 512

struct walk {
	struct cli_tree *tree;
	struct cli_problems *problems;
	int ret; /* -ENOMEM stops everything, -EINVAL is remembered */
};

static void fail(struct walk *w, int ret)
{
	if (w->ret != -ENOMEM && ret)
		w->ret = ret;
}

static void refuse_at(struct walk *w, struct cli_place place, const struct cli_node *node,
		      const char *text)
{
	const char *path = NULL;

	if (!w->problems) {
		fail(w, -EINVAL);
		return;
	}
	/* Further ones are only counted: to find a path takes as long as its list is. */
	if (!node->assigned && w->problems->n < CLI_PROBLEMS_MAX) {
		path = cli_node_path(node, w->tree->arena);
		if (!path) {
			fail(w, -ENOMEM);
			return;
		}
	}
	fail(w, cli_problems_add(w->problems, place, path, "%s", text));
}

static void refuse(struct walk *w, const struct cli_node *node, const char *text)
{
	refuse_at(w, node->place, node, text);
}

/* --- keys --- */

/* A map that is there only since a command line set something in it: what it lacks was lacking
 * without that, too. */
static bool made_on_the_way(const struct cli_node *node)
{
	return node->place.origin && !node->assigned && node->parent->type == CLI_NODE_MAP;
}

/* The place of a map that the file does not have. */
static const struct cli_node *written(const struct cli_node *node)
{
	while (node->parent && (node->is_default || made_on_the_way(node)))
		node = node->parent;
	return node;
}

static void refuse_missing(struct walk *w, const struct cli_node *map, const struct cli_setting *s)
{
	char expected[WHY_MAX / 2], text[WHY_MAX];

	cli_setting_expected(s, expected, sizeof(expected));
	snprintf(text, sizeof(text), "expected the key \"%s\": %s", s->name, expected);
	refuse_at(w, written(map)->place, map, text);
}

static void list_names(const struct cli_setting *table, char *out, size_t len)
{
	size_t n = 0;

	for (; table->name && n < len; table++)
		n += (size_t)snprintf(out + n, len - n, "%s%s", n ? ", " : "", table->name);
}

static void refuse_unknown(struct walk *w, const struct cli_node *child,
			   const struct cli_setting *table)
{
	struct cli_nearest nearest = { .word = child->key };
	char shown[CLI_QUOTE_MAX], names[WHY_MAX / 2], text[WHY_MAX];

	for (const struct cli_setting *s = table; s->name; s++)
		cli_nearest_offer(&nearest, s->name);
	list_names(table, names, sizeof(names));
	if (nearest.best)
		snprintf(text, sizeof(text), "unknown key %s, expected \"%s\"?",
			 cli_quote(shown, child->key), nearest.best);
	else
		snprintf(text, sizeof(text), "unknown key %s, expected one of %s",
			 cli_quote(shown, child->key), names);
	refuse_at(w, child->key_place, child->parent, text);
}

/* --- scalars --- */

static const char *kind_of(const struct cli_node *node, char shown[static CLI_QUOTE_MAX])
{
	if (node->type == CLI_NODE_MAP)
		return "a map";
	if (node->type == CLI_NODE_LIST)
		return "a list";
	if (node->style == CLI_SCALAR_QUOTED)
		return "a quoted string";
	return cli_node_is_nothing(node) ? "nothing" : cli_quote(shown, node->text);
}

static void refuse_kind(struct walk *w, const struct cli_node *node, const struct cli_setting *s)
{
	char expected[WHY_MAX / 2], text[WHY_MAX], shown[CLI_QUOTE_MAX];

	cli_setting_expected(s, expected, sizeof(expected));
	snprintf(text, sizeof(text), "expected %s, got %s", expected, kind_of(node, shown));
	refuse(w, node, text);
}

/* Quotes make a string; a size or a word is one, a number or truth is not. */
static bool fits(const struct cli_node *node, const struct cli_setting *s)
{
	bool bare = s->type == CLI_TYPE_FLAG || s->type == CLI_TYPE_INT || s->type == CLI_TYPE_PORT;

	return node->type == CLI_NODE_SCALAR && !cli_node_is_nothing(node) &&
	       !(bare && node->style == CLI_SCALAR_QUOTED);
}

static void read_scalar(struct walk *w, const struct cli_node *node, const struct cli_setting *s,
			void *base)
{
	char why[WHY_MAX];
	int ret;

	if (!fits(node, s)) {
		refuse_kind(w, node, s);
		return;
	}
	ret = cli_setting_parse(s, node->text, base, w->tree->arena, why, sizeof(why));
	if (ret == -EINVAL)
		refuse(w, node, why);
	else
		fail(w, ret);
}

/* --- lists and pairs --- */

/* The text of one element, checked by itself so that an error has its place; NULL when it was
 * refused. */
static const char *element_text(struct walk *w, const struct cli_node *child,
				const struct cli_setting *s)
{
	struct {
		const void *elems;
		size_t n;
	} scratch;
	struct cli_setting one = *s;
	const char *text = child->text;
	char why[WHY_MAX];
	int ret;

	if (!fits(child, s)) {
		struct cli_setting scalar = cli_setting_of_element(s);

		refuse_kind(w, child, &scalar);
		return NULL;
	}
	if (s->type == CLI_TYPE_PAIRS && (!*child->key || strchr(child->key, '='))) {
		refuse(w, child, "expected a key that is not empty and has no '='");
		return NULL;
	}
	if (s->type == CLI_TYPE_PAIRS) {
		text = cli_arena_printf(w->tree->arena, "%s=%s", child->key, child->text);
		if (!text) {
			fail(w, -ENOMEM);
			return NULL;
		}
	}
	one.at = 0;
	one.n_at = sizeof(scratch.elems);
	ret = cli_setting_parse_list(&one, &text, 1, &scratch, w->tree->arena, why, sizeof(why));
	if (ret == -EINVAL)
		refuse(w, child, why);
	else
		fail(w, ret);
	return ret ? NULL : text;
}

static void read_texts(struct walk *w, struct cli_node *node, const struct cli_setting *s,
		       void *base)
{
	const char **texts = cli_arena_alloc(w->tree->arena, node->n, sizeof(*texts));
	bool good = true;
	char why[WHY_MAX];
	size_t n = 0;
	int ret;

	if (!texts) {
		fail(w, -ENOMEM);
		return;
	}
	for (const struct cli_node *child = node->first; child; child = child->next) {
		texts[n] = element_text(w, child, s);
		good = texts[n++] && good;
	}
	if (!good)
		return;
	ret = cli_setting_parse_list(s, texts, n, base, w->tree->arena, why, sizeof(why));
	if (ret == -EINVAL)
		refuse(w, node, why);
	else
		fail(w, ret);
}

/* "labels:" with nothing below is empty, as people leave it when they take the last line out. */
static bool become(struct walk *w, struct cli_node *node, enum cli_node_type type,
		   const struct cli_setting *s)
{
	if (cli_node_is_nothing(node)) {
		node->type = type;
		node->text = NULL;
	}
	if (node->type == type)
		return true;
	refuse_kind(w, node, s);
	return false;
}

/* --- lists of maps --- */

static void read_map(struct walk *w, struct cli_node *map, const struct cli_setting *table,
		     void *base);

struct name {
	const char *text;
	const struct cli_node *node;
	size_t index;
};

static int compare_names(const void *a, const void *b)
{
	const struct name *x = a, *y = b;
	int order = strcmp(x->text, y->text);

	if (order)
		return order;
	return x->index < y->index ? -1 : x->index > y->index;
}

static void refuse_twin(struct walk *w, const struct name *first, const struct name *twin,
			const char *list)
{
	char shown[CLI_QUOTE_MAX], text[WHY_MAX];

	snprintf(text, sizeof(text), "expected a %s of its own, %s is that of %s.%zu",
		 twin->node->key, cli_quote(shown, twin->text), list, first->index);
	refuse(w, twin->node, text);
}

static void check_unique(struct walk *w, const struct cli_node *list, const struct cli_setting *s)
{
	struct name *names = cli_arena_alloc(w->tree->arena, list->n, sizeof(*names));
	size_t n = 0, index = 0, first = 0;

	if (!names) {
		fail(w, -ENOMEM);
		return;
	}
	for (const struct cli_node *e = list->first; e; e = e->next, index++) {
		const struct cli_node *name =
			e->type == CLI_NODE_MAP ? cli_node_find(e, s->unique) : NULL;

		if (name && name->type == CLI_NODE_SCALAR && !name->is_default)
			names[n++] = (struct name){ name->text, name, index };
	}
	qsort(names, n, sizeof(*names), compare_names);
	for (size_t i = 1; i < n; i++) {
		if (strcmp(names[i].text, names[first].text))
			first = i;
		else
			refuse_twin(w, &names[first], &names[i], s->name);
	}
}

static void read_list(struct walk *w, struct cli_node *list, const struct cli_setting *s,
		      void *base)
{
	char *elems = cli_arena_alloc(w->tree->arena, list->n, s->elem_size);
	struct cli_setting map = { .type = CLI_TYPE_MAP };
	size_t i = 0;

	if (!elems) {
		fail(w, -ENOMEM);
		return;
	}
	for (struct cli_node *child = list->first; child; child = child->next, i++)
		if (become(w, child, CLI_NODE_MAP, &map))
			read_map(w, child, s->table, elems + i * s->elem_size);
	if (s->unique)
		check_unique(w, list, s);
	memcpy((char *)base + s->at, &elems, sizeof(elems));
	memcpy((char *)base + s->n_at, &list->n, sizeof(list->n));
}

/* --- maps --- */

static struct cli_node *default_scalar(struct walk *w, const char *text)
{
	struct cli_node *node = cli_node_create_default(w->tree, CLI_NODE_SCALAR);

	if (!node)
		return NULL;
	node->text = text;
	node->style = CLI_SCALAR_LITERAL;
	return node;
}

static struct cli_node *default_list(struct walk *w, const char *def)
{
	struct cli_node *list = cli_node_create_default(w->tree, CLI_NODE_LIST);
	const char **texts;
	size_t n;

	texts = cli_setting_split(w->tree->arena, def ? def : "", &n);
	if (!list || !texts)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		struct cli_node *child = default_scalar(w, texts[i]);

		if (!child)
			return NULL;
		cli_node_append(list, child);
	}
	return list;
}

static struct cli_node *default_of(struct walk *w, const struct cli_setting *s)
{
	if (s->type == CLI_TYPE_MAP || s->type == CLI_TYPE_PAIRS)
		return cli_node_create_default(w->tree, CLI_NODE_MAP);
	if (s->type == CLI_TYPE_LIST || cli_setting_is_list(s))
		return default_list(w, s->def);
	return default_scalar(w, s->def);
}

/* The child for s, with its default where it was not given; NULL when there is neither. */
static struct cli_node *child_for(struct walk *w, struct cli_node *map, const struct cli_setting *s)
{
	struct cli_node *child = cli_node_find(map, s->name);
	bool has_none = !s->def && s->type != CLI_TYPE_MAP && s->type != CLI_TYPE_LIST &&
			s->type != CLI_TYPE_PAIRS;

	if (child)
		return child;
	if (s->required) {
		refuse_missing(w, map, s);
		return NULL;
	}
	if (has_none)
		return NULL;
	child = default_of(w, s);
	if (!child) {
		fail(w, -ENOMEM);
		return NULL;
	}
	child->key = s->name;
	cli_node_append(map, child);
	return child;
}

static void read_child(struct walk *w, struct cli_node *child, const struct cli_setting *s,
		       void *base)
{
	switch (s->type) {
	case CLI_TYPE_MAP:
		if (become(w, child, CLI_NODE_MAP, s))
			read_map(w, child, s->table, (char *)base + s->at);
		break;
	case CLI_TYPE_LIST:
		if (become(w, child, CLI_NODE_LIST, s))
			read_list(w, child, s, base);
		break;
	case CLI_TYPE_PAIRS:
		if (become(w, child, CLI_NODE_MAP, s))
			read_texts(w, child, s, base);
		break;
	case CLI_TYPE_STRINGS:
	case CLI_TYPE_SIZES:
	case CLI_TYPE_ENUMS:
		if (become(w, child, CLI_NODE_LIST, s))
			read_texts(w, child, s, base);
		break;
	default:
		read_scalar(w, child, s, base);
		break;
	}
}

static void set_default(struct walk *w, const struct cli_setting *s, void *base)
{
	char why[WHY_MAX];
	int ret;

	if (!s->def || s->type == CLI_TYPE_MAP || s->type == CLI_TYPE_LIST)
		return;
	ret = cli_setting_parse(s, s->def, base, w->tree->arena, why, sizeof(why));
	assert(ret != -EINVAL);
	fail(w, ret);
}

static void read_map(struct walk *w, struct cli_node *map, const struct cli_setting *table,
		     void *base)
{
	for (const struct cli_setting *s = table; s->name && w->ret != -ENOMEM; s++) {
		struct cli_node *child;

		set_default(w, s, base);
		child = child_for(w, map, s);
		if (!child)
			continue;
		/* The effective configuration is printed in the order of the table. */
		cli_node_remove(child);
		cli_node_append(map, child);
		read_child(w, child, s, base);
	}
	for (struct cli_node *child = map->first; child; child = child->next)
		if (!cli_setting_find(table, child->key))
			refuse_unknown(w, child, table);
}

int cli_schema_read(struct cli_tree *tree, struct cli_problems *problems,
		    const struct cli_setting *table, void *out)
{
	struct walk w = { .tree = tree, .problems = problems };
	struct cli_setting map = { .type = CLI_TYPE_MAP };

	if (become(&w, tree->root, CLI_NODE_MAP, &map))
		read_map(&w, tree->root, table, out);
	return w.ret;
}
