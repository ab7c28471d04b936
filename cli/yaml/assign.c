/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "cli/yaml/arena.h"
#include "cli/yaml/assign.h"
#include "cli/output/quote.h"
#include "cli/output/utf8.h"
#include "cli/yaml/yaml.h"

struct target {
	struct cli_tree *tree;
	struct cli_problems *problems;
	struct cli_place place;
	bool by_option; /* the path is the program's: a value that is no map on it is the file's
			   error */
};

#define refuse(t, ...) cli_problems_add((t)->problems, (t)->place, NULL, __VA_ARGS__)

static int full(struct target *t)
{
	if (t->tree->n_nodes < CLI_TREE_MAX_NODES)
		return -ENOMEM;
	return refuse(t, "expected at most %d values in all", CLI_TREE_MAX_NODES);
}

/* A node that is a map or list only when something is put into it. */
static struct cli_node *create_empty(struct target *t)
{
	struct cli_node *node = cli_node_create(t->tree, CLI_NODE_SCALAR, t->place);

	if (node)
		node->text = "";
	return node;
}

static int append_empty(struct target *t, struct cli_node *parent, const char *key,
			struct cli_node **out)
{
	struct cli_node *node = create_empty(t);

	if (!node)
		return full(t);
	node->key = key;
	node->key_place = t->place;
	cli_node_append(parent, node);
	*out = node;
	return 0;
}

static int step_into_map(struct target *t, struct cli_node *map, const char *part,
			 struct cli_node **out)
{
	*out = cli_node_find(map, part);
	if (*out)
		return 0;
	if (map->n == CLI_TREE_MAX_KEYS)
		return refuse(t, "expected at most %d keys in a map", CLI_TREE_MAX_KEYS);
	return append_empty(t, map, part, out);
}

static int step_into_list(struct target *t, struct cli_node *list, const char *part,
			  struct cli_node **out)
{
	char shown[CLI_QUOTE_MAX];
	size_t i;

	if (!cli_path_index(part, &i) || i > list->n)
		return refuse(t, "expected an index from 0 to %zu, got %s", list->n,
			      cli_quote(shown, part));
	if (i == list->n)
		return append_empty(t, list, NULL, out);
	*out = cli_node_index(list, i);
	return 0;
}

static int step(struct target *t, struct cli_node *node, const char *part, struct cli_node **out)
{
	size_t i;

	if (cli_node_is_nothing(node)) {
		node->type = cli_path_index(part, &i) ? CLI_NODE_LIST : CLI_NODE_MAP;
		node->text = NULL;
	}
	if (node->type == CLI_NODE_MAP)
		return step_into_map(t, node, part, out);
	if (t->by_option)
		return -EINVAL;
	if (node->type == CLI_NODE_LIST)
		return step_into_list(t, node, part, out);
	return refuse(t, "expected a map or list on the way to %s", part);
}

/* The node at path, made where it is missing. */
static int locate(struct target *t, const char *path, struct cli_node **out)
{
	const char *parts[CLI_TREE_MAX_DEPTH];
	struct cli_node *node;
	size_t n;
	int ret = cli_path_split(t->tree->arena, path, parts, CLI_TREE_MAX_DEPTH, &n);

	if (ret == -E2BIG)
		return refuse(t, "expected at most %d levels", CLI_TREE_MAX_DEPTH);
	if (ret == -EINVAL)
		return refuse(t, "expected a key as links.0.to");
	if (ret)
		return ret;
	if (!t->tree->root) {
		t->tree->root = create_empty(t);
		if (!t->tree->root)
			return full(t);
		t->tree->root->type = CLI_NODE_MAP;
		/* The missing parts of an empty file are not this one's fault. */
		t->tree->root->place = (struct cli_place){ .line = 1, .column = 1 };
	}
	node = t->tree->root;
	for (size_t i = 0; i < n; i++) {
		ret = step(t, node, parts[i], &node);
		if (ret)
			return ret;
	}
	*out = node;
	return 0;
}

static unsigned levels_above(const struct cli_node *node)
{
	unsigned n = 0;

	while ((node = node->parent))
		n++;
	return n;
}

static unsigned levels_below(const struct cli_node *node)
{
	unsigned most = 0;

	for (const struct cli_node *child = node->first; child; child = child->next) {
		unsigned n = 1 + levels_below(child);

		most = n > most ? n : most;
	}
	return most;
}

static int put(struct target *t, const char *path, struct cli_node *value)
{
	struct cli_node *node;
	int ret = locate(t, path, &node);

	if (ret)
		return ret;
	if (levels_above(node) + levels_below(value) > CLI_TREE_MAX_DEPTH)
		return refuse(t, "expected at most %d levels", CLI_TREE_MAX_DEPTH);
	value->assigned = true;
	cli_node_replace(node, value);
	return 0;
}

/* As a file has to be, so that what is set can be written down. */
static int check_text(struct target *t, const char *text)
{
	char shown[CLI_QUOTE_MAX];

	if (cli_utf8_valid(text))
		return 0;
	return refuse(t, "expected UTF-8 text, got %s", cli_quote(shown, text));
}

static struct cli_node *literal(struct target *t, const char *text)
{
	struct cli_node *node = cli_node_create(t->tree, CLI_NODE_SCALAR, t->place);

	if (!node)
		return NULL;
	node->text = cli_arena_strdup(t->tree->arena, text);
	node->style = CLI_SCALAR_LITERAL;
	return node->text ? node : NULL;
}

static int read_value(struct target *t, const char *text, struct cli_node **out)
{
	int ret;

	if (!*text || !strchr("[{\"'", *text)) {
		*out = literal(t, text);
		return *out ? 0 : full(t);
	}
	ret = cli_yaml_read(t->tree, t->problems, text, strlen(text), t->place.origin, out);
	if (!ret && !*out)
		*out = literal(t, "");
	if (!ret && !*out)
		return full(t);
	return ret;
}

/* The '=' that ends the path; one after a backslash does too, since no key needs it. */
int cli_assign(struct cli_tree *tree, struct cli_problems *problems, const char *assignment)
{
	const char *equals = strchr(assignment, '=');
	struct target t = { .tree = tree, .problems = problems };
	struct cli_node *value;
	char shown[CLI_QUOTE_MAX];
	const char *path;
	int ret;

	if (!equals || equals == assignment || !cli_utf8_valid(assignment)) {
		t.place.origin = "--set";
		return refuse(&t, "expected KEY.PATH=VALUE in UTF-8, got %s",
			      cli_quote(shown, assignment));
	}
	path = cli_arena_strndup(tree->arena, assignment, (size_t)(equals - assignment));
	if (!path)
		return -ENOMEM;
	t.place.origin = cli_arena_printf(tree->arena, "--set %s", path);
	if (!t.place.origin)
		return -ENOMEM;
	ret = read_value(&t, equals + 1, &value);
	if (ret)
		return ret;
	return put(&t, path, value);
}

int cli_assign_texts(struct cli_tree *tree, struct cli_problems *problems, const char *path,
		     bool list, const char *const *texts, size_t n, const char *origin)
{
	struct target t = { .tree = tree, .problems = problems, .by_option = true };
	struct cli_node *value;
	int ret = 0;

	t.place.origin = cli_arena_strdup(tree->arena, origin);
	if (!t.place.origin)
		return -ENOMEM;
	for (size_t i = 0; i < n && !ret; i++)
		ret = check_text(&t, texts[i]);
	if (ret)
		return ret;
	if (!list) {
		value = literal(&t, texts[0]);
		return value ? put(&t, path, value) : full(&t);
	}
	value = cli_node_create(tree, CLI_NODE_LIST, t.place);
	if (!value)
		return full(&t);
	for (size_t i = 0; i < n; i++) {
		struct cli_node *child = literal(&t, texts[i]);

		if (!child)
			return full(&t);
		cli_node_append(value, child);
	}
	return put(&t, path, value);
}
