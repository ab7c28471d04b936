/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/order.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include <slime/export.h>

#include "text/json_slice.h"

#define DEPTH_MAX 16

static int refuse(char why[ORDER_WHY_MAX], const char *fmt, ...) SLIME_PRINTF(2, 3);

static int refuse(char why[ORDER_WHY_MAX], const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(why, ORDER_WHY_MAX, fmt, args);
	va_end(args);
	return -EINVAL;
}

static bool is_json(const char *text, size_t len)
{
	json_t *root;

	if (json_too_deep(text, len, DEPTH_MAX))
		return false;
	if (json_is_plain(text, len, DEPTH_MAX))
		return true;
	/* Integers of any size are well-formed; the one that is too large is named below. */
	root = json_loadb(text, len, JSON_DECODE_INT_AS_REAL, NULL);
	json_decref(root);
	return root;
}

static int take_name(struct json_slice value, char **out, char why[ORDER_WHY_MAX])
{
	char *name = malloc(value.len + 1);
	long len = name ? json_unquote(value, name) : 0;

	if (!name)
		return -ENOMEM;
	if (len < 0 && strspn(value.at, "-0123456789") >= value.len) {
		memcpy(name, value.at, value.len);
		name[value.len] = '\0';
		len = (long)value.len;
	}
	if (len >= 0 && strlen(name) == (size_t)len && len <= DIRECTORY_PEER_MAX) {
		*out = name;
		return 0;
	}
	free(name);
	return refuse(why, "peer_agent_id: expected a string of at most %d bytes",
		      DIRECTORY_PEER_MAX);
}

static int take_number(const char *name, struct json_slice value, uint64_t *out,
		       char why[ORDER_WHY_MAX])
{
	if (!value.at)
		return refuse(why, "missing field: '%s'", name);
	if (value.len > 2 && *value.at == '"')
		value = (struct json_slice){ value.at + 1, value.len - 2 };
	return json_u64(value, UINT64_MAX, out)
		       ? 0
		       : refuse(why, "%s: expected an integer from 0 to 2^64 - 1", name);
}

static bool is_key(struct json_slice key, const char *name)
{
	return key.len == strlen(name) + 2 && !memcmp(key.at + 1, name, key.len - 2);
}

/* ---- assignments ---- */

static int take_piece(struct json_slice object, struct directory_piece *out,
		      char why[ORDER_WHY_MAX])
{
	static const char *const names[] = { "mr_key", "remote_mr_key", "target_offset",
					     "source_offset", "length" };
	uint64_t *const to[] = { &out->mr_key, &out->remote_mr_key, &out->target_offset,
				 &out->source_offset, &out->length };
	struct json_slice key, value, members[5] = { { NULL, 0 } };
	struct json_walk w;
	int ret = 0;

	if (!json_walk_init(&w, object) || !w.object)
		return refuse(why, "assignments: expected objects");
	while (json_walk_next(&w, &key, &value))
		for (size_t i = 0; i < 5; i++)
			if (is_key(key, names[i]))
				members[i] = value;
	for (size_t i = 0; i < 5 && !ret; i++)
		ret = take_number(names[i], members[i], to[i], why);
	return ret;
}

static int take_list(struct json_slice array, struct order *out, char why[ORDER_WHY_MAX])
{
	struct json_slice key, value;
	struct json_walk w;
	int ret = 0;

	if (!array.at)
		return refuse(why, "missing field: 'assignments'");
	if (!json_walk_init(&w, array) || w.object)
		return refuse(why, "assignments: expected a list");
	while (json_walk_next(&w, &key, &value))
		out->n++;
	out->list = calloc(out->n + 1, sizeof(*out->list));
	if (!out->list)
		return -ENOMEM;
	json_walk_init(&w, array);
	for (size_t i = 0; !ret && json_walk_next(&w, &key, &value); i++)
		ret = take_piece(value, &out->list[i], why);
	return ret;
}

/* ---- the body ---- */

static int read_members(struct json_slice body, enum order_kind kind, struct order *out,
			char why[ORDER_WHY_MAX])
{
	struct json_slice key, value, peer = { NULL, 0 }, version = peer, assignments = peer;
	struct json_walk w;
	int ret;

	if (!json_walk_init(&w, body) || !w.object)
		return refuse(why, "request body must be a JSON object");
	while (json_walk_next(&w, &key, &value)) {
		if (is_key(key, "peer_agent_id"))
			peer = value;
		else if (is_key(key, "version"))
			version = value;
		else if (is_key(key, "assignments"))
			assignments = value;
	}
	if (!peer.at)
		return refuse(why, "missing field: 'peer_agent_id'");
	ret = take_name(peer, &out->peer, why);
	if (ret)
		return ret;
	return kind == ORDER_STORE ? take_list(assignments, out, why)
				   : take_number("version", version, &out->version, why);
}

int order_read(const char *text, size_t len, enum order_kind kind, struct order *out,
	       char why[ORDER_WHY_MAX])
{
	int ret;

	*out = (struct order){ .peer = NULL };
	if (!len)
		text = "{}", len = 2;
	if (!is_json(text, len))
		return refuse(why, "request body is not JSON");
	ret = read_members(json_first(text, len), kind, out, why);
	if (ret)
		order_fini(out);
	return ret;
}

void order_fini(struct order *o)
{
	free(o->peer);
	free(o->list);
	*o = (struct order){ .peer = NULL };
}
