/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contents of a configuration, before its meaning is known: maps, lists and scalars, each with
 * its place. Nodes belong to the tree, which is bounded in given nodes, keys of a map and depth.
 */
#ifndef CLI_TREE_H
#define CLI_TREE_H

#include <stdbool.h>
#include <stddef.h>

#define CLI_TREE_MAX_NODES 65536
#define CLI_TREE_MAX_KEYS  1024
#define CLI_TREE_MAX_DEPTH 16

enum cli_node_type { CLI_NODE_SCALAR, CLI_NODE_LIST, CLI_NODE_MAP };

enum cli_scalar_style {
	CLI_SCALAR_PLAIN,   /* as the table wants to read it; empty, ~ and null are nothing */
	CLI_SCALAR_QUOTED,  /* a string */
	CLI_SCALAR_LITERAL, /* from a command line: any type, and never nothing */
};

struct cli_place {
	const char *origin; /* "--set links.0.to"; NULL: the file, at line and column */
	unsigned line;	    /* from 1; 0 is no place in particular */
	unsigned column;
};

struct cli_node {
	enum cli_node_type type;
	struct cli_node *parent, *prev, *next;
	struct cli_node *first, *last;
	size_t n;	 /* children */
	const char *key; /* in a map */
	struct cli_place key_place;
	struct cli_place place;
	bool assigned;	  /* origin named this very node, not one around it */
	bool is_default;  /* it was not given */
	const char *text; /* scalars */
	enum cli_scalar_style style;
};

struct cli_arena;

struct cli_tree {
	struct cli_arena *arena; /* the caller's */
	struct cli_node *root;	 /* NULL while nothing was said */
	size_t n_nodes;		 /* without defaults, of which there are some for each map */
	size_t max_nodes;	 /* 0: CLI_TREE_MAX_NODES */
};

size_t cli_tree_max_nodes(const struct cli_tree *tree);

/* A node without a parent; NULL without memory, or when the tree is full (then n_nodes is the
 * maximum). */
struct cli_node *cli_node_create(struct cli_tree *tree, enum cli_node_type type,
				 struct cli_place place);

/* A node that was not given, at no place: there is always room for it. NULL without memory. */
struct cli_node *cli_node_create_default(struct cli_tree *tree, enum cli_node_type type);

void cli_node_append(struct cli_node *parent, struct cli_node *child);
void cli_node_remove(struct cli_node *child);

/* Takes the children and text of from, which stands alone; key, parent and neighbours stay. */
void cli_node_replace(struct cli_node *node, struct cli_node *from);

struct cli_node *cli_node_find(const struct cli_node *map, const char *key);
struct cli_node *cli_node_index(const struct cli_node *list, size_t i);

/* A scalar that says nothing: an empty value, ~, null. */
bool cli_node_is_nothing(const struct cli_node *node);

/* "links.0.to" with "\." for a dot in a key; of the root "". NULL without memory. */
char *cli_node_path(const struct cli_node *node, struct cli_arena *arena);

/*
 * The parts of a path, at most max of them, without their backslashes. 0; -EINVAL for an empty part
 * or a backslash before anything but . and \; -E2BIG; -ENOMEM.
 */
int cli_path_split(struct cli_arena *arena, const char *path, const char **parts, size_t max,
		   size_t *n);

/* Whether part is an index; *out is SIZE_MAX for one beyond any list. */
bool cli_path_index(const char *part, size_t *out);

#endif
