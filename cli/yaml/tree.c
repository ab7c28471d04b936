/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/yaml/arena.h"
#include "cli/yaml/tree.h"

size_t cli_tree_max_nodes(const struct cli_tree *tree)
{
	return tree->max_nodes ? tree->max_nodes : CLI_TREE_MAX_NODES;
}

struct cli_node *cli_node_create(struct cli_tree *tree, enum cli_node_type type,
				 struct cli_place place)
{
	struct cli_node *node = NULL;

	if (tree->n_nodes < cli_tree_max_nodes(tree))
		node = cli_arena_alloc(tree->arena, 1, sizeof(*node));
	if (!node)
		return NULL;
	tree->n_nodes++;
	node->type = type;
	node->place = place;
	return node;
}

struct cli_node *cli_node_create_default(struct cli_tree *tree, enum cli_node_type type)
{
	struct cli_node *node = cli_arena_alloc(tree->arena, 1, sizeof(*node));

	if (!node)
		return NULL;
	node->type = type;
	node->is_default = true;
	return node;
}

void cli_node_append(struct cli_node *parent, struct cli_node *child)
{
	child->parent = parent;
	child->prev = parent->last;
	child->next = NULL;
	if (parent->last)
		parent->last->next = child;
	else
		parent->first = child;
	parent->last = child;
	parent->n++;
}

void cli_node_remove(struct cli_node *child)
{
	struct cli_node *parent = child->parent;

	if (child->prev)
		child->prev->next = child->next;
	else
		parent->first = child->next;
	if (child->next)
		child->next->prev = child->prev;
	else
		parent->last = child->prev;
	parent->n--;
	child->parent = child->prev = child->next = NULL;
}

void cli_node_replace(struct cli_node *node, struct cli_node *from)
{
	node->type = from->type;
	node->first = from->first;
	node->last = from->last;
	node->n = from->n;
	node->text = from->text;
	node->style = from->style;
	node->place = from->place;
	node->assigned = from->assigned;
	node->is_default = from->is_default;
	for (struct cli_node *child = node->first; child; child = child->next)
		child->parent = node;
}

struct cli_node *cli_node_find(const struct cli_node *map, const char *key)
{
	for (struct cli_node *child = map->first; child; child = child->next)
		if (!strcmp(child->key, key))
			return child;
	return NULL;
}

struct cli_node *cli_node_index(const struct cli_node *list, size_t i)
{
	struct cli_node *child = list->first;

	while (child && i--)
		child = child->next;
	return child;
}

bool cli_node_is_nothing(const struct cli_node *node)
{
	return node->type == CLI_NODE_SCALAR && node->style == CLI_SCALAR_PLAIN &&
	       (!*node->text || !strcmp(node->text, "~") || !strcmp(node->text, "null") ||
		!strcmp(node->text, "Null") || !strcmp(node->text, "NULL"));
}

static size_t index_of(const struct cli_node *node)
{
	size_t i = 0;

	while ((node = node->prev))
		i++;
	return i;
}

static char *escape(const char *key, struct cli_arena *arena)
{
	char *out = cli_arena_alloc(arena, 2 * strlen(key) + 1, 1);
	char *to = out;

	if (!out)
		return NULL;
	for (; *key; key++) {
		if (*key == '.' || *key == '\\')
			*to++ = '\\';
		*to++ = *key;
	}
	return out;
}

char *cli_node_path(const struct cli_node *node, struct cli_arena *arena)
{
	char *before, *part;

	if (!node->parent)
		return cli_arena_strdup(arena, "");
	before = cli_node_path(node->parent, arena);
	part = node->key ? escape(node->key, arena)
			 : cli_arena_printf(arena, "%zu", index_of(node));
	if (!before || !part)
		return NULL;
	return cli_arena_printf(arena, "%s%s%s", before, *before ? "." : "", part);
}

/* Reads one part up to its dot; NULL when it is not well formed. */
static const char *read_part(const char *path, char *out)
{
	for (; *path && *path != '.'; path++) {
		if (*path == '\\') {
			path++;
			if (*path != '.' && *path != '\\')
				return NULL;
		}
		*out++ = *path;
	}
	*out = '\0';
	return path;
}

int cli_path_split(struct cli_arena *arena, const char *path, const char **parts, size_t max,
		   size_t *n)
{
	size_t count = 0;

	for (;;) {
		char *part = cli_arena_alloc(arena, strlen(path) + 1, 1);

		if (!part)
			return -ENOMEM;
		path = read_part(path, part);
		if (!path || !*part)
			return -EINVAL;
		if (count == max)
			return -E2BIG;
		parts[count++] = part;
		if (!*path)
			break;
		path++;
	}
	*n = count;
	return 0;
}

bool cli_path_index(const char *part, size_t *out)
{
	size_t i = 0;

	for (const char *c = part; *c; c++) {
		if (!isdigit((unsigned char)*c))
			return false;
		i = i > CLI_TREE_MAX_NODES ? SIZE_MAX / 16 : i * 10 + (size_t)(*c - '0');
	}
	*out = i > CLI_TREE_MAX_NODES ? SIZE_MAX : i;
	return true;
}
