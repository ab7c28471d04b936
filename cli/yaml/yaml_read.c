/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <yaml.h>

#include "cli/yaml/arena.h"
#include "cli/output/quote.h"
#include "cli/yaml/yaml.h"

struct reader {
	yaml_parser_t parser;
	struct cli_tree *tree;
	struct cli_problems *problems;
	const char *origin;
	const char *text;
	size_t len;

	struct cli_node *root;
	struct cli_node *open; /* the map or list of the next children */
	unsigned depth;
	const char *key; /* read, its value comes */
	struct cli_place key_place;
	bool ended; /* the document is complete */
};

static struct cli_place place_of(const struct reader *r, const yaml_mark_t *mark)
{
	return (struct cli_place){ .origin = r->origin,
				   .line = (unsigned)mark->line + 1,
				   .column = (unsigned)mark->column + 1 };
}

#define refuse(r, mark, ...) \
	cli_problems_add((r)->problems, place_of((r), (mark)), NULL, __VA_ARGS__)

/* libyaml gives bad bytes by their offset only. */
static struct cli_place place_of_offset(const struct reader *r)
{
	struct cli_place place = { .origin = r->origin, .line = 1, .column = 1 };

	for (size_t i = 0; i < r->parser.problem_offset && i < r->len; i++) {
		unsigned char c = (unsigned char)r->text[i];

		if (c == '\n') {
			place.line++;
			place.column = 1;
		} else if ((c & 0xc0) != 0x80) {
			place.column++;
		}
	}
	return place;
}

static int syntax_error(struct reader *r)
{
	const yaml_parser_t *p = &r->parser;
	struct cli_place place;

	if (p->error == YAML_MEMORY_ERROR)
		return -ENOMEM;
	place = p->error == YAML_READER_ERROR ? place_of_offset(r) : place_of(r, &p->problem_mark);
	return cli_problems_add(r->problems, place, NULL, "expected valid YAML: %s%s%s",
				p->problem ? p->problem : "unreadable", p->context ? " " : "",
				p->context ? p->context : "");
}

static int full(struct reader *r, const yaml_mark_t *mark)
{
	size_t most = cli_tree_max_nodes(r->tree);

	if (r->tree->n_nodes < most)
		return -ENOMEM;
	return refuse(r, mark, "expected at most %zu values in all", most);
}

/* Gives node its place in the tree: as the root, the next element, or the value of the key before
 * it. */
static int attach(struct reader *r, struct cli_node *node, const yaml_mark_t *mark)
{
	if (!r->open) {
		r->root = node;
		return 0;
	}
	if (r->open->type == CLI_NODE_MAP) {
		if (r->open->n == CLI_TREE_MAX_KEYS)
			return refuse(r, mark, "expected at most %d keys in a map",
				      CLI_TREE_MAX_KEYS);
		node->key = r->key;
		node->key_place = r->key_place;
		r->key = NULL;
	}
	cli_node_append(r->open, node);
	return 0;
}

static int start(struct reader *r, enum cli_node_type type, const yaml_event_t *e)
{
	struct cli_node *node;
	int ret;

	if (r->open && r->open->type == CLI_NODE_MAP && !r->key)
		return refuse(r, &e->start_mark, "expected a word as key, got a map or list");
	if (r->depth == CLI_TREE_MAX_DEPTH)
		return refuse(r, &e->start_mark, "expected at most %d levels", CLI_TREE_MAX_DEPTH);
	node = cli_node_create(r->tree, type, place_of(r, &e->start_mark));
	if (!node)
		return full(r, &e->start_mark);
	ret = attach(r, node, &e->start_mark);
	if (ret)
		return ret;
	r->open = node;
	r->depth++;
	return 0;
}

static int take_key(struct reader *r, const char *key, const yaml_event_t *e)
{
	const struct cli_node *twin = cli_node_find(r->open, key);
	char shown[CLI_QUOTE_MAX];

	if (twin && twin->key_place.origin)
		return refuse(r, &e->start_mark, "expected each key once, got %s twice",
			      cli_quote(shown, key));
	if (twin)
		return refuse(r, &e->start_mark,
			      "expected each key once, got %s again after line %u",
			      cli_quote(shown, key), twin->key_place.line);
	r->key = key;
	r->key_place = place_of(r, &e->start_mark);
	return 0;
}

static int scalar(struct reader *r, const yaml_event_t *e)
{
	const char *value = (const char *)e->data.scalar.value;
	size_t len = e->data.scalar.length;
	struct cli_node *node;
	const char *text;

	if (memchr(value, '\0', len))
		return refuse(r, &e->start_mark, "expected text without NUL characters");
	text = cli_arena_strndup(r->tree->arena, value, len);
	if (!text)
		return -ENOMEM;
	if (r->open && r->open->type == CLI_NODE_MAP && !r->key)
		return take_key(r, text, e);

	node = cli_node_create(r->tree, CLI_NODE_SCALAR, place_of(r, &e->start_mark));
	if (!node)
		return full(r, &e->start_mark);
	node->text = text;
	node->style = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE ? CLI_SCALAR_PLAIN
								      : CLI_SCALAR_QUOTED;
	return attach(r, node, &e->start_mark);
}

static int end(struct reader *r)
{
	r->open = r->open->parent;
	r->depth--;
	return 0;
}

static int refuse_marks(struct reader *r, const yaml_event_t *e, const yaml_char_t *anchor,
			const yaml_char_t *tag)
{
	if (anchor)
		return refuse(r, &e->start_mark, "expected a plain value: anchors are not taken");
	if (tag)
		return refuse(r, &e->start_mark, "expected a plain value: tags are not taken");
	return 0;
}

static int take_event(struct reader *r, const yaml_event_t *e)
{
	int ret;

	switch (e->type) {
	case YAML_DOCUMENT_START_EVENT:
		if (r->ended)
			return refuse(r, &e->start_mark, "expected one document, got a second");
		return 0;
	case YAML_DOCUMENT_END_EVENT:
		r->ended = true;
		return 0;
	case YAML_ALIAS_EVENT:
		return refuse(r, &e->start_mark, "expected a value: aliases are not taken");
	case YAML_SCALAR_EVENT:
		ret = refuse_marks(r, e, e->data.scalar.anchor, e->data.scalar.tag);
		return ret ? ret : scalar(r, e);
	case YAML_MAPPING_START_EVENT:
		ret = refuse_marks(r, e, e->data.mapping_start.anchor, e->data.mapping_start.tag);
		return ret ? ret : start(r, CLI_NODE_MAP, e);
	case YAML_SEQUENCE_START_EVENT:
		ret = refuse_marks(r, e, e->data.sequence_start.anchor, e->data.sequence_start.tag);
		return ret ? ret : start(r, CLI_NODE_LIST, e);
	case YAML_MAPPING_END_EVENT:
	case YAML_SEQUENCE_END_EVENT:
		return end(r);
	default:
		return 0;
	}
}

static int read_all(struct reader *r)
{
	for (;;) {
		yaml_event_t event;
		yaml_event_type_t type;
		int ret;

		if (!yaml_parser_parse(&r->parser, &event))
			return syntax_error(r);
		type = event.type;
		ret = take_event(r, &event);
		yaml_event_delete(&event);
		if (ret || type == YAML_STREAM_END_EVENT)
			return ret;
	}
}

int cli_yaml_read(struct cli_tree *tree, struct cli_problems *problems, const char *text,
		  size_t len, const char *origin, struct cli_node **out)
{
	struct reader r = {
		.tree = tree, .problems = problems, .origin = origin, .text = text, .len = len
	};
	int ret;

	if (!yaml_parser_initialize(&r.parser))
		return -ENOMEM;
	yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
	ret = read_all(&r);
	yaml_parser_delete(&r.parser);
	if (ret)
		return ret;
	*out = r.root && cli_node_is_nothing(r.root) ? NULL : r.root;
	return 0;
}
