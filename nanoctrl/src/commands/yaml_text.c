/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/yaml_text.h"

#include <string.h>
#include <strings.h>

#include "model/out.h"

static void add_indent(struct out *o, unsigned depth)
{
	while (depth--)
		out_words(o, "  ");
}

/* Words that either version of YAML reads as something else than a string. */
static bool is_special(const char *at, size_t len)
{
	static const char *const words[] = { "true", "false", "null", "yes", "no",
					     "on",   "off",   "y",    "n" };

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strlen(words[i]) == len && !strncasecmp(words[i], at, len))
			return true;
	return false;
}

/* A string in quotes that YAML reads as the same without them. */
static bool is_plain(struct json_slice s)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	static const char others[] = "0123456789_./-";

	if (s.len < 3 || *s.at != '"' || !strchr(letters, s.at[1]))
		return false;
	for (size_t i = 1; i + 1 < s.len; i++)
		if (!s.at[i] || (!strchr(letters, s.at[i]) && !strchr(others, s.at[i])))
			return false;
	return !is_special(s.at + 1, s.len - 2);
}

static void add_scalar(struct out *o, struct json_slice s)
{
	if (is_plain(s))
		out_bytes(o, s.at + 1, s.len - 2);
	else
		out_bytes(o, s.at, s.len);
}

static bool is_empty(struct json_slice value)
{
	struct json_slice key, one;
	struct json_walk w;

	return !json_walk_init(&w, value) || !json_walk_next(&w, &key, &one);
}

static void add_value(struct out *o, struct json_slice value, unsigned depth, bool first_in_line);

/* Behind its key or dash. */
static void add_behind(struct out *o, struct json_slice value, unsigned depth, bool in_list)
{
	if (is_empty(value)) {
		out_words(o, " ");
		if (*value.at == '{' || *value.at == '[')
			out_words(o, *value.at == '{' ? "{}" : "[]");
		else
			add_scalar(o, value);
		out_words(o, "\n");
		return;
	}
	out_words(o, in_list ? " " : "\n");
	add_value(o, value, depth, in_list);
}

/* A map or a list that is not empty; first_in_line: its first line is begun already. */
static void add_value(struct out *o, struct json_slice value, unsigned depth, bool first_in_line)
{
	struct json_slice key, one;
	struct json_walk w;

	json_walk_init(&w, value);
	while (json_walk_next(&w, &key, &one)) {
		if (!first_in_line)
			add_indent(o, depth);
		first_in_line = false;
		if (w.object) {
			add_scalar(o, key);
			out_words(o, ":");
		} else {
			out_words(o, "-");
		}
		add_behind(o, one, depth + 1, !w.object);
	}
}

void yaml_text(struct out *o, struct json_slice value)
{
	if (!is_empty(value)) {
		add_value(o, value, 0, false);
		return;
	}
	if (*value.at == '{' || *value.at == '[')
		out_words(o, *value.at == '{' ? "{}" : "[]");
	else
		add_scalar(o, value);
	out_words(o, "\n");
}
