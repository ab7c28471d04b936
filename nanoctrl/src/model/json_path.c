/* SPDX-License-Identifier: Apache-2.0 */
#include "model/json_path.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <base/log.h>
#include "text/json_slice.h"

#define DEPTH_MAX  32
#define NUMBER_MAX (INT64_C(1) << 53)

static int refuse(struct model_error *err, int status, const char *code, const char *field,
		  const char *fmt, ...) SLIME_PRINTF(5, 6);

static int refuse(struct model_error *err, int status, const char *code, const char *field,
		  const char *fmt, ...)
{
	va_list args;

	err->status = status;
	err->code = code;
	snprintf(err->field, sizeof(err->field), "%s", field);
	va_start(args, fmt);
	vsnprintf(err->message, sizeof(err->message), fmt, args);
	va_end(args);
	return -EINVAL;
}

/* ---- memory ---- */

/* jansson doubles the text of a string from 16 bytes on and does not notice when there is no memory
 * for that: it goes on as if the whole string was there, and writes beyond what it has. The buckets
 * of an object's names are as many bytes as some text: for want of them, which it notices, we end
 * too. */
#define TEXT_FIRST 16

static void *(*get_memory)(size_t) = malloc;
static _Thread_local bool parsing, was_short;

static void *get_or_end(size_t size)
{
	void *memory = get_memory(size);

	if (memory || !parsing)
		return memory;
	was_short = true;
	if (size > TEXT_FIRST && !(size & (size - 1))) {
		sl_error("model", "no memory for %zu bytes while JSON is read: ending", size);
		abort();
	}
	return NULL;
}

void model_memory(void *(*get)(size_t), void (*give_back)(void *))
{
	get_memory = get;
	json_set_alloc_funcs(get_or_end, give_back);
}

json_t *json_path_parse(const char *text, size_t len, size_t flags, json_error_t *why)
{
	json_t *root;

	parsing = true;
	was_short = false;
	root = json_loadb(text, len, flags, why);
	parsing = false;
	/* of which it says "invalid token" */
	if (!root && was_short)
		why->text[sizeof(why->text) - 1] = json_error_out_of_memory;
	return root;
}

/* ---- the document ---- */

/* An open bracket on the way to a byte. */
struct level {
	const char *key; /* the last one of an object, as it was written; NULL in an array */
	size_t len;
	size_t index; /* in an array */
	bool object;
};

static void format_path(const struct level *level, unsigned depth, char out[JSON_PATH_MAX])
{
	size_t at = 0;

	out[0] = '\0';
	for (unsigned i = 0; i < depth && at < JSON_PATH_MAX; i++) {
		const struct level *l = &level[i];

		if (!l->object)
			at += (size_t)snprintf(out + at, JSON_PATH_MAX - at, "[%zu]", l->index);
		else if (l->key)
			at += (size_t)snprintf(out + at, JSON_PATH_MAX - at, "%s%.*s",
					       at ? "." : "", (int)l->len, l->key);
	}
}

/* The path of the member that ends at a byte of a text that is well-formed up to there, and not too
 * deep. */
static void path_at(const char *text, size_t end, char out[JSON_PATH_MAX])
{
	struct level level[DEPTH_MAX + 1] = { { 0 } };
	unsigned depth = 0;
	bool key_next = false;

	for (size_t i = 0; i < end; i++) {
		struct level *top = &level[depth ? depth - 1 : 0];
		size_t from = i + 1;

		switch (text[i]) {
		case '{':
		case '[':
			level[depth++] = (struct level){ .object = text[i] == '{' };
			key_next = text[i] == '{';
			break;
		case '}':
		case ']':
			depth -= depth > 0;
			key_next = false;
			break;
		case ',':
			top->index++;
			key_next = top->object;
			break;
		case '"':
			while (++i < end && text[i] != '"')
				i += text[i] == '\\';
			if (key_next)
				top->key = text + from, top->len = (i < end ? i : end) - from;
			key_next = false;
			break;
		default:
			break;
		}
	}
	format_path(level, depth, out);
}

static int refuse_json(struct model_error *err, const char *body, size_t len,
		       const json_error_t *why)
{
	size_t at = why->position > 0 ? (size_t)why->position : 0;
	char path[JSON_PATH_MAX];

	path_at(body, at < len ? at : len, path);
	if (json_error_code(why) == json_error_out_of_memory) {
		refuse(err, 500, "internal", "", "out of memory");
		return -ENOMEM;
	}
	if (json_error_code(why) == json_error_duplicate_key)
		return refuse(err, 422, "duplicate_field", path, "%s is there twice", path);
	if (json_error_code(why) == json_error_numeric_overflow)
		return refuse(err, 422, "bad_value", path, "%s is too great a number", path);
	if (json_error_code(why) == json_error_null_character ||
	    json_error_code(why) == json_error_null_byte_in_key)
		return refuse(err, 422, "bad_value", path, "%s has a NUL character", path);
	return refuse(err, 400, "bad_json", "", "line %d column %d: %.100s", why->line, why->column,
		      why->text);
}

int json_path_load(struct json_path *p, const char *body, size_t len, struct model_error *err)
{
	json_error_t why;
	json_t *root;

	*p = (struct json_path){ .err = err };
	/* bounds the parser's recursion */
	if (json_too_deep(body, len, DEPTH_MAX))
		return refuse(err, 400, "bad_json", "", "nested more than %d deep", DEPTH_MAX);
	root = json_path_parse(body, len, JSON_REJECT_DUPLICATES, &why);
	if (!root)
		return refuse_json(err, body, len, &why);
	if (!json_is_object(root)) {
		json_decref(root);
		return refuse(err, 422, "bad_type", "", "the body is not an object");
	}
	p->in = root;
	return 0;
}

/* ---- paths and refusals ---- */

/* A path that does not fit is cut: our names are short, and foreign ones are only for people to
 * recognise. */
static void set_path(char out[JSON_PATH_MAX], const char *fmt, ...) SLIME_PRINTF(2, 3);

static void set_path(char out[JSON_PATH_MAX], const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(out, JSON_PATH_MAX, fmt, args);
	va_end(args);
}

static void path_of(const struct json_path *p, const char *name, char out[JSON_PATH_MAX])
{
	set_path(out, "%s%s%s", p->path, *p->path && *name ? "." : "", name);
}

void json_path_element(const struct json_path *p, const char *name, size_t i, json_t *object,
		       struct json_path *out)
{
	*out = (struct json_path){ .in = object, .err = p->err };
	set_path(out->path, "%s%s%s[%zu]", p->path, *p->path ? "." : "", name, i);
}

int json_path_refuse(const struct json_path *p, const char *code, const char *name, const char *fmt,
		     ...)
{
	char path[JSON_PATH_MAX], what[120];
	va_list args;

	path_of(p, name, path);
	va_start(args, fmt);
	vsnprintf(what, sizeof(what), fmt, args);
	va_end(args);
	return refuse(p->err, 422, code, path, "%s %s", path, what);
}

int json_path_bad_value(const struct json_path *p, const char *name, const char *expected)
{
	return json_path_refuse(p, "bad_value", name, "is not %s", expected);
}

int json_path_bad_type(const struct json_path *p, const char *name, const char *expected)
{
	return json_path_refuse(p, "bad_type", name, "is not %s", expected);
}

int json_path_no_memory(const struct json_path *p)
{
	refuse(p->err, 500, "internal", "", "out of memory");
	return -ENOMEM;
}

/* ---- members ---- */

int json_path_member(const struct json_path *p, const char *name, enum json_path_need need,
		     json_type type, json_t **out)
{
	static const char *const words[] = {
		[JSON_OBJECT] = "an object",
		[JSON_ARRAY] = "an array",
		[JSON_STRING] = "a string",
		[JSON_INTEGER] = "an integer",
	};
	json_t *v = json_object_get(p->in, name);

	*out = NULL;
	if (!v || json_is_null(v))
		return need == OPTIONAL ? 0
					: json_path_refuse(p, "missing_field", name, "is missing");
	if (json_typeof(v) != type)
		return json_path_bad_type(p, name, words[type]);
	*out = v;
	return 0;
}

int json_path_number(const struct json_path *p, const char *name, enum json_path_need need,
		     uint64_t min, uint64_t *out)
{
	json_t *v;
	int ret = json_path_member(p, name, need, JSON_INTEGER, &v);

	if (ret || !v)
		return ret;
	if (json_integer_value(v) < (json_int_t)min || json_integer_value(v) >= NUMBER_MAX)
		return json_path_bad_value(p, name, min ? "from 1 to 2^53" : "from 0 to 2^53");
	*out = (uint64_t)json_integer_value(v);
	return 0;
}

int json_path_text(const struct json_path *p, const char *name, enum json_path_need need,
		   size_t max, const char **out)
{
	json_t *v;
	int ret = json_path_member(p, name, need, JSON_STRING, &v);

	if (ret || !v)
		return ret;
	if (json_string_length(v) > max)
		return json_path_refuse(p, "bad_value", name, "is longer than %zu bytes", max);
	*out = json_string_value(v);
	return 0;
}

int json_path_object(const struct json_path *p, const char *name, enum json_path_need need,
		     struct json_path *out, bool *there)
{
	json_t *v;
	int ret = json_path_member(p, name, need, JSON_OBJECT, &v);

	*there = !ret && v;
	*out = (struct json_path){ .in = v, .err = p->err };
	path_of(p, name, out->path);
	return ret;
}
