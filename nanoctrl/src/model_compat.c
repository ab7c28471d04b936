/* SPDX-License-Identifier: Apache-2.0 */
#include "model_compat.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include "json_slice.h"

#define DEPTH_MAX 127
#define NAME_MAX  1024 /* bytes of a name */

/* ---- what a request has ---- */

enum need {
	NEEDED,
	NULLABLE,  /* absent and null are the same: nothing */
	DEFAULTED, /* absent is the default, null is a mistake */
};

enum type { NAME, ANY };

struct field {
	const char *name;
	enum type type;
	enum need need;
	size_t offset;
	const char *def;
};

#define FIELD(member) offsetof(struct compat_request, member)
#define MAX_FIELDS    7

static const struct field scope = { "scope", NAME, NULLABLE, FIELD(scope), NULL };
static const struct field type = { "entity_type", NAME, DEFAULTED, FIELD(type), "service" };
static const struct field id = { "entity_id", NAME, NEEDED, FIELD(id), NULL };

/* In the order in which an array gives them. */
static const struct field *const forms[][MAX_FIELDS + 1] = {
	[COMPAT_HEARTBEAT] = { &(const struct field){ "entity_type", NAME, NEEDED, FIELD(type),
						      NULL },
			       &id, &scope },
	[COMPAT_REGISTER] = { &type, &id,
			      &(const struct field){ "kind", NAME, NEEDED, FIELD(kind), NULL },
			      &(const struct field){ "endpoint", ANY, NULLABLE, FIELD(endpoint),
						     NULL },
			      &(const struct field){ "metadata", ANY, DEFAULTED, FIELD(metadata),
						     "{}" },
			      &(const struct field){ "resource", ANY, NULLABLE, FIELD(resource),
						     NULL },
			      &scope },
	[COMPAT_UNREGISTER] = { &type, &id, &scope },
	[COMPAT_GET_ENTITY] = { &type, &id, &scope },
	[COMPAT_LIST_ENTITIES] = { &(const struct field){ "entity_type", NAME, NULLABLE,
							  FIELD(type), NULL },
				   &(const struct field){ "kind", NAME, NULLABLE, FIELD(kind),
							  NULL },
				   &scope },
};

/* ---- reading ---- */

static int refuse(struct model_error *err, int status, const char *code, const char *field,
		  const char *what)
{
	err->status = status;
	err->code = code;
	snprintf(err->field, sizeof(err->field), "%s", field);
	snprintf(err->message, sizeof(err->message), "%s%s%s", field, *field ? " " : "", what);
	return -EINVAL;
}

/* The first value of the body, which is JSON; what follows it is not looked at. */
static int find_value(const char *body, size_t len, struct json_slice *out, struct model_error *err)
{
	json_error_t why;
	json_t *root;

	if (json_too_deep(body, len, DEPTH_MAX))
		return refuse(err, 400, "bad_json", "", "nested more than 127 deep");
	root = json_loadb(body, len,
			  JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL |
				  JSON_DECODE_ANY,
			  &why);
	if (!root) {
		refuse(err, 400, "bad_json", "", "");
		snprintf(err->message, sizeof(err->message), "line %d column %d: %.100s", why.line,
			 why.column, why.text);
		return -EINVAL;
	}
	json_decref(root);
	*out = json_first(body, len);
	return 0;
}

static bool is_name(const char *field, const char *name, long len)
{
	return len == (long)strlen(field) && !memcmp(field, name, (size_t)len);
}

/* The values that the body has for the fields of its form. */
static int match(const struct field *const *form, struct json_slice body,
		 struct json_slice values[MAX_FIELDS], struct model_error *err)
{
	struct json_slice key, value;
	struct json_walk w;
	size_t position = 0;
	char *name;

	if (!json_walk_init(&w, body))
		return refuse(err, 422, "bad_type", "", "the body is not an object");
	name = malloc(body.len + 1);
	if (!name)
		return -ENOMEM;
	while (json_walk_next(&w, &key, &value)) {
		size_t i = position;

		if (w.object) {
			long n = json_unquote(key, name);

			for (i = 0; form[i] && !is_name(form[i]->name, name, n); i++)
				;
		} else if (i == MAX_FIELDS || !form[i]) {
			break;
		} else {
			position++;
		}
		if (!form[i])
			continue;
		if (values[i].at) {
			free(name);
			return refuse(err, 422, "duplicate_field", form[i]->name, "is there twice");
		}
		values[i] = value;
	}
	free(name);
	return 0;
}

/* Puts the value where it belongs; *heap has room for it. */
static int take(const struct field *f, struct json_slice value, struct compat_request *out,
		char **heap, struct model_error *err)
{
	struct store_text *to = (struct store_text *)((char *)out + f->offset);
	long len;

	if (!value.at && f->need == NEEDED)
		return refuse(err, 422, "missing_field", f->name, "is missing");
	if (!value.at && f->need == DEFAULTED)
		*to = (struct store_text){ f->def, strlen(f->def) };
	if (!value.at || (f->need == NULLABLE && json_is(value, "null")))
		return 0;
	len = f->type == ANY ? (long)json_compact(value, *heap) : json_unquote(value, *heap);
	if (len < 0)
		return refuse(err, 422, "bad_type", f->name, "is not a string");
	if (f->type == NAME && len > NAME_MAX)
		return refuse(err, 422, "bad_value", f->name, "is longer than 1024 bytes");
	*to = (struct store_text){ *heap, (size_t)len };
	*heap += len + 1;
	return 0;
}

int compat_parse(enum compat_form form, const char *body, size_t len, struct compat_request *out,
		 struct model_error *err)
{
	struct json_slice values[MAX_FIELDS] = { { NULL, 0 } };
	const struct field *const *fields = forms[form];
	struct json_slice value;
	char *heap;
	int ret = find_value(body, len, &value, err);

	memset(out, 0, sizeof(*out));
	out->scope.at = "";
	if (!ret)
		ret = match(fields, value, values, err);
	if (!ret) {
		heap = out->heap = malloc(len + MAX_FIELDS + 1);
		ret = heap ? 0 : -ENOMEM;
	}
	for (size_t i = 0; !ret && fields[i]; i++)
		ret = take(fields[i], values[i], out, &heap, err);
	if (ret == -ENOMEM)
		refuse(err, 500, "internal", "", "out of memory");
	if (ret)
		compat_request_fini(out);
	return ret;
}

void compat_request_fini(struct compat_request *r)
{
	free(r->heap);
	memset(r, 0, sizeof(*r));
}

/* ---- writing ---- */

/* A text that grows. */
struct out {
	char *at;
	size_t len, room;
	bool failed;
};

static void put(struct out *o, const char *text, size_t len)
{
	if (!o->failed && o->len + len + 1 > o->room) {
		size_t room = 2 * (o->len + len + 1);
		char *bigger = realloc(o->at, room);

		o->failed = !bigger;
		if (bigger) {
			o->at = bigger;
			o->room = room;
		}
	}
	if (o->failed)
		return;
	memcpy(o->at + o->len, text, len);
	o->len += len;
	o->at[o->len] = '\0';
}

static void put_json(struct out *o, struct store_text t)
{
	put(o, t.len ? t.at : "null", t.len ? t.len : 4);
}

static void put_words(struct out *o, const char *words)
{
	put(o, words, strlen(words));
}

/* The bytes of a JSON string, which came out of one: they are UTF-8. */
static void put_escaped(struct out *o, struct store_text t)
{
	char escape[8];

	for (size_t i = 0; i < t.len; i++) {
		unsigned char c = (unsigned char)t.at[i];

		if (c == '"' || c == '\\') {
			put(o, c == '"' ? "\\\"" : "\\\\", 2);
		} else if (c < 0x20) {
			snprintf(escape, sizeof(escape), "\\u%04x", c);
			put(o, escape, 6);
		} else {
			put(o, t.at + i, 1);
		}
	}
}

static void put_member(struct out *o, const char *before, struct store_text t)
{
	put_words(o, before);
	put_words(o, "\"");
	put_escaped(o, t);
	put_words(o, "\"");
}

static char *finish(struct out *o)
{
	if (!o->failed)
		return o->at;
	free(o->at);
	return NULL;
}

char *compat_message(const char *status, const char *before, struct store_text a,
		     const char *between, struct store_text b, const char *behind)
{
	struct out o = { .at = NULL };

	put_words(&o, "{\"status\":\"");
	put_words(&o, status);
	put_words(&o, "\",\"message\":\"");
	put_words(&o, before);
	put_escaped(&o, a);
	put_words(&o, between);
	put_escaped(&o, b);
	put_words(&o, behind);
	put_words(&o, "\"}");
	return finish(&o);
}

char *compat_entity(const struct compat_request *r)
{
	struct out o = { .at = NULL };

	put_words(&o, "{\"endpoint\":");
	put_json(&o, r->endpoint);
	put_member(&o, ",\"entity_id\":", r->id);
	put_member(&o, ",\"entity_type\":", r->type);
	put_member(&o, ",\"id\":", r->id);
	put_member(&o, ",\"kind\":", r->kind);
	put_words(&o, ",\"metadata\":");
	put_json(&o, r->metadata);
	put_words(&o, ",\"resource\":");
	put_json(&o, r->resource);
	put_words(&o, "}");
	return finish(&o);
}

char *compat_event(const struct compat_request *r, const char *entity)
{
	struct out o = { .at = NULL };

	put_member(&o, "{\"entity_id\":", r->id);
	put_member(&o, ",\"entity_type\":", r->type);
	put_member(&o, ",\"event_type\":\"ADD\",\"kind\":", r->kind);
	put_words(&o, ",\"payload\":");
	put_words(&o, entity);
	return finish(&o);
}

/* Whether a value of the store may stand in an answer. */
static bool is_object(struct store_text t)
{
	json_t *v =
		json_too_deep(t.at, t.len, DEPTH_MAX + 1)
			? NULL
			: json_loadb(t.at, t.len, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
	bool object = json_is_object(v);

	json_decref(v);
	return object;
}

char *compat_found(const struct store_entities *found)
{
	struct out o = { .at = NULL };
	bool there = found && found->n && is_object(found->info[0]);

	put_words(&o, there ? "{\"status\":\"ok\",\"entity_info\":"
			    : "{\"status\":\"not_found\",\"entity_info\":");
	put_json(&o, there ? found->info[0] : (struct store_text){ NULL, 0 });
	put_words(&o, "}");
	return finish(&o);
}

char *compat_listed(const struct store_entities *found)
{
	struct out o = { .at = NULL };
	const char *comma = "";

	put_words(&o, "{\"status\":\"ok\",\"entities\":[");
	for (size_t i = 0; i < found->n; i++) {
		if (!is_object(found->info[i]))
			continue;
		put_words(&o, comma);
		put(&o, found->info[i].at, found->info[i].len);
		comma = ",";
	}
	put_words(&o, "]}");
	return finish(&o);
}
