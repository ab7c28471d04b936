/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <yaml.h>

#include "cli/yaml/yaml.h"

/* libyaml only reads these texts, but its declarations say otherwise. */
static yaml_char_t *bytes(const char *text)
{
	union {
		const char *from;
		yaml_char_t *to;
	} u = { .from = text };

	return u.to;
}

static int write_to_file(void *arg, unsigned char *text, size_t len)
{
	return fwrite(text, 1, len, arg) == len;
}

/* yaml_emitter_emit() takes the event over, also when it fails. */
static int emit(yaml_emitter_t *emitter, int initialized, yaml_event_t *event)
{
	if (!initialized)
		return -ENOMEM;
	if (yaml_emitter_emit(emitter, event))
		return 0;
	return emitter->error == YAML_MEMORY_ERROR ? -ENOMEM : -EIO;
}

static int write_scalar(yaml_emitter_t *emitter, const char *text, bool quoted)
{
	yaml_event_t e;
	yaml_scalar_style_t style =
		quoted ? YAML_DOUBLE_QUOTED_SCALAR_STYLE : YAML_PLAIN_SCALAR_STYLE;

	return emit(emitter,
		    yaml_scalar_event_initialize(&e, NULL, NULL, bytes(text), (int)strlen(text), 1,
						 1, style),
		    &e);
}

/* A text that would read as nothing is quoted even when it came from a command line, which says it
 * literally. */
static bool needs_quotes(const struct cli_node *node)
{
	struct cli_node plain = *node;

	plain.style = CLI_SCALAR_PLAIN;
	return node->style == CLI_SCALAR_QUOTED ||
	       (node->style == CLI_SCALAR_LITERAL && cli_node_is_nothing(&plain));
}

static int write_node(yaml_emitter_t *emitter, const struct cli_node *node);

static int write_children(yaml_emitter_t *emitter, const struct cli_node *node)
{
	int ret = 0;

	for (const struct cli_node *child = node->first; child && !ret; child = child->next) {
		if (child->key)
			ret = write_scalar(emitter, child->key, false);
		if (!ret)
			ret = write_node(emitter, child);
	}
	return ret;
}

static int write_map(yaml_emitter_t *emitter, const struct cli_node *node)
{
	yaml_event_t e;
	int ret = emit(
		emitter,
		yaml_mapping_start_event_initialize(&e, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE),
		&e);

	if (!ret)
		ret = write_children(emitter, node);
	if (!ret)
		ret = emit(emitter, yaml_mapping_end_event_initialize(&e), &e);
	return ret;
}

static int write_list(yaml_emitter_t *emitter, const struct cli_node *node)
{
	bool flow = !node->first || node->first->type == CLI_NODE_SCALAR;
	yaml_sequence_style_t style = flow ? YAML_FLOW_SEQUENCE_STYLE : YAML_BLOCK_SEQUENCE_STYLE;
	yaml_event_t e;
	int ret = emit(emitter, yaml_sequence_start_event_initialize(&e, NULL, NULL, 1, style), &e);

	if (!ret)
		ret = write_children(emitter, node);
	if (!ret)
		ret = emit(emitter, yaml_sequence_end_event_initialize(&e), &e);
	return ret;
}

static int write_node(yaml_emitter_t *emitter, const struct cli_node *node)
{
	if (node->type == CLI_NODE_MAP)
		return write_map(emitter, node);
	if (node->type == CLI_NODE_LIST)
		return write_list(emitter, node);
	return write_scalar(emitter, node->text, needs_quotes(node));
}

static int write_document(yaml_emitter_t *emitter, const struct cli_node *node)
{
	yaml_event_t e;
	int ret = emit(emitter, yaml_stream_start_event_initialize(&e, YAML_UTF8_ENCODING), &e);

	if (!ret)
		ret = emit(emitter, yaml_document_start_event_initialize(&e, NULL, NULL, NULL, 1),
			   &e);
	if (!ret)
		ret = write_node(emitter, node);
	if (!ret)
		ret = emit(emitter, yaml_document_end_event_initialize(&e, 1), &e);
	if (!ret)
		ret = emit(emitter, yaml_stream_end_event_initialize(&e), &e);
	return ret;
}

int cli_yaml_write(const struct cli_node *node, FILE *to)
{
	yaml_emitter_t emitter;
	int ret;

	if (!yaml_emitter_initialize(&emitter))
		return -ENOMEM;
	yaml_emitter_set_output(&emitter, write_to_file, to);
	yaml_emitter_set_unicode(&emitter, 1);
	ret = write_document(&emitter, node);
	yaml_emitter_delete(&emitter);
	if (!ret && fflush(to))
		ret = -errno;
	return ret;
}
