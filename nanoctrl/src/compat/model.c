/* SPDX-License-Identifier: Apache-2.0 */
#include "compat/model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include "text/json_slice.h"
#include "model/json_path.h"

#define DEPTH_MAX   127
#define TARGETS_MAX 1024 /* names of a list */

/* ---- what a request has ---- */

enum need {
	NEEDED,
	NULLABLE,  /* absent and null are the same: nothing */
	DEFAULTED, /* absent is the default, null is a mistake */
};

enum type { NAME, NAMES, ANY, FLAG, NUMBER32, NUMBER64 };

struct field {
	const char *name;
	enum type type;
	enum need need;
	size_t offset;
	const char *def;
};

#define FIELD(member) offsetof(struct compat_request, member)
#define MAX_FIELDS    8

#define F(member, name, type, need)                   \
	{                                             \
		name, type, need, FIELD(member), NULL \
	}
#define D(member, name, type, def)                        \
	{                                                 \
		name, type, DEFAULTED, FIELD(member), def \
	}

/* The members of each form, in the order in which an array gives them. */
static const struct field forms[][MAX_FIELDS + 1] = {
	[COMPAT_HEARTBEAT] = { F(type, "entity_type", NAME, NEEDED),
			       F(id, "entity_id", NAME, NEEDED),
			       F(scope, "scope", NAME, NULLABLE) },
	[COMPAT_REGISTER] = { D(type, "entity_type", NAME, "service"),
			      F(id, "entity_id", NAME, NEEDED), F(kind, "kind", NAME, NEEDED),
			      F(endpoint, "endpoint", ANY, NULLABLE),
			      D(metadata, "metadata", ANY, "{}"),
			      F(resource, "resource", ANY, NULLABLE),
			      F(scope, "scope", NAME, NULLABLE) },
	[COMPAT_UNREGISTER] = { D(type, "entity_type", NAME, "service"),
				F(id, "entity_id", NAME, NEEDED),
				F(scope, "scope", NAME, NULLABLE) },
	[COMPAT_GET_ENTITY] = { D(type, "entity_type", NAME, "service"),
				F(id, "entity_id", NAME, NEEDED),
				F(scope, "scope", NAME, NULLABLE) },
	[COMPAT_LIST_ENTITIES] = { F(type, "entity_type", NAME, NULLABLE),
				   F(kind, "kind", NAME, NULLABLE),
				   F(scope, "scope", NAME, NULLABLE) },
	[COMPAT_START_PEER] = { F(name, "alias", NAME, NULLABLE),
				F(device, "device", NAME, NULLABLE),
				F(port, "ib_port", NUMBER32, NULLABLE),
				F(link_type, "link_type", NAME, NULLABLE),
				F(address, "address", NAME, NEEDED),
				D(prefix, "name_prefix", NAME, "agent"),
				F(scope, "scope", NAME, NULLABLE),
				F(resource, "resource", ANY, NULLABLE) },
	[COMPAT_QUERY] = { F(scope, "scope", NAME, NULLABLE) },
	[COMPAT_CLEANUP] = { F(name, "agent_name", NAME, NEEDED),
			     F(scope, "scope", NAME, NULLABLE) },
	[COMPAT_TOPOLOGY] = { F(targets, "target_peers", NAMES, NEEDED),
			      F(min_bw, "min_bw", NAME, NULLABLE),
			      D(symmetric, "symmetric", FLAG, "false"),
			      F(scope, "scope", NAME, NULLABLE) },
	[COMPAT_REGISTER_MR] = { F(name, "agent_name", NAME, NEEDED),
				 F(mr, "mr_name", NAME, NEEDED), F(addr, "addr", NUMBER64, NEEDED),
				 F(length, "length", NUMBER64, NEEDED),
				 F(rkey, "rkey", NUMBER32, NEEDED), D(lkey, "lkey", NUMBER32, "0"),
				 F(scope, "scope", NAME, NULLABLE) },
	[COMPAT_GET_MR] = { F(src, "src", NAME, NEEDED), F(name, "dst", NAME, NEEDED),
			    F(mr, "mr_name", NAME, NEEDED), F(scope, "scope", NAME, NULLABLE) },
	[COMPAT_NOTHING] = { { NULL, NAME, NULLABLE, 0, NULL } },
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

/* The JSON that the body begins with; what follows it is not looked at. */
static int check_value(const char *body, size_t len, struct json_slice *value,
		       struct model_error *err)
{
	json_error_t why;
	json_t *root;

	if (json_is_plain(body, len, DEPTH_MAX)) {
		*value = json_of_plain(body, len);
		return 0;
	}
	if (json_too_deep(body, len, DEPTH_MAX))
		return refuse(err, 400, "bad_json", "", "nested more than 127 deep");
	root = json_path_parse(body, len,
			       JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL |
				       JSON_DECODE_ANY,
			       &why);
	if (!root && json_error_code(&why) == json_error_out_of_memory)
		return -ENOMEM;
	if (!root) {
		refuse(err, 400, "bad_json", "", "");
		snprintf(err->message, sizeof(err->message), "line %d column %d: %.100s", why.line,
			 why.column, why.text);
		return -EINVAL;
	}
	json_decref(root);
	*value = json_first(body, len);
	return 0;
}

static bool is_name(const char *field, const char *name, long len)
{
	return len == (long)strlen(field) && !memcmp(field, name, (size_t)len);
}

/* The values that the body has for the fields of its form; name has room for any in it. */
static int match(const struct field *form, struct json_slice body, char *name,
		 struct json_slice values[MAX_FIELDS], struct model_error *err)
{
	struct json_slice key, value;
	struct json_walk w;
	size_t position = 0;

	if (!json_walk_init(&w, body))
		return refuse(err, 422, "bad_type", "", "the body is not an object");
	while (json_walk_next(&w, &key, &value)) {
		size_t i = position;

		if (w.object) {
			long n = json_unquote(key, name);

			for (i = 0; form[i].name && !is_name(form[i].name, name, n); i++)
				;
		} else if (i == MAX_FIELDS || !form[i].name) {
			break;
		} else {
			position++;
		}
		if (!form[i].name)
			continue;
		if (values[i].at)
			return refuse(err, 422, "duplicate_field", form[i].name, "is there twice");
		values[i] = value;
	}
	return 0;
}

static int bad_type(const struct field *f, const char *expected, struct model_error *err)
{
	return refuse(err, 422, "bad_type", f->name, expected);
}

/* A name of a list, or by itself. */
static int take_name(const struct field *f, struct json_slice value, struct store_text *to,
		     char **heap, struct model_error *err)
{
	long len = json_unquote(value, *heap);

	if (len < 0)
		return bad_type(f, "is not text", err);
	if (len > COMPAT_NAME_MAX)
		return refuse(err, 422, "bad_value", f->name, "is longer than 1024 bytes");
	*to = (struct store_text){ *heap, (size_t)len };
	*heap += len + 1;
	return 0;
}

static int take_names(const struct field *f, struct json_slice value, struct compat_request *out,
		      char **heap, struct model_error *err)
{
	struct json_slice key, item;
	struct json_walk w;
	int ret = 0;

	if (!json_walk_init(&w, value) || w.object)
		return bad_type(f, "is not a list", err);
	out->targets = calloc(TARGETS_MAX, sizeof(*out->targets));
	if (!out->targets)
		return -ENOMEM;
	while (!ret && json_walk_next(&w, &key, &item)) {
		if (out->n_targets == TARGETS_MAX)
			return refuse(err, 422, "bad_value", f->name, "has more than 1024 names");
		ret = take_name(f, item, &out->targets[out->n_targets++], heap, err);
	}
	return ret;
}

/* Kept as its text: it was looked at only. */
static int take_text(const struct field *f, struct json_slice value, struct store_text *to,
		     char **heap, struct model_error *err)
{
	uint64_t max = f->type == NUMBER32 ? UINT32_MAX : UINT64_MAX, n;
	size_t len;

	if (f->type == FLAG && !json_is(value, "true") && !json_is(value, "false"))
		return bad_type(f, "is neither true nor false", err);
	if ((f->type == NUMBER32 || f->type == NUMBER64) && !json_u64(value, max, &n))
		return bad_type(f,
				f->type == NUMBER32 ? "is not an integer from 0 to 2^32 - 1"
						    : "is not an integer from 0 to 2^64 - 1",
				err);
	len = json_compact(value, *heap);
	*to = (struct store_text){ *heap, len };
	*heap += len + 1;
	return 0;
}

/* Puts the value where it belongs; *heap has room for it. */
static int take(const struct field *f, struct json_slice value, struct compat_request *out,
		char **heap, struct model_error *err)
{
	struct store_text *to = (struct store_text *)((char *)out + f->offset);

	if (!value.at && f->need == NEEDED)
		return refuse(err, 422, "missing_field", f->name, "is missing");
	if (!value.at && f->need == DEFAULTED)
		*to = (struct store_text){ f->def, strlen(f->def) };
	if (!value.at || (f->need == NULLABLE && json_is(value, "null")))
		return 0;
	if (f->type == NAME)
		return take_name(f, value, to, heap, err);
	if (f->type == NAMES)
		return take_names(f, value, out, heap, err);
	return take_text(f, value, to, heap, err);
}

int compat_parse(enum compat_form form, const char *body, size_t len, struct compat_request *out,
		 struct model_error *err)
{
	struct json_slice values[MAX_FIELDS] = { { NULL, 0 } };
	const struct field *fields = forms[form];
	struct json_slice value = { NULL, 0 };
	char *heap = NULL;
	int ret = check_value(body, len, &value, err);

	memset(out, 0, sizeof(*out));
	out->scope.at = "";
	if (!ret) {
		/* each name of a list has its quotes, which make room for its NUL */
		heap = out->heap = malloc(len + MAX_FIELDS + 1);
		ret = heap ? 0 : -ENOMEM;
	}
	if (!ret)
		ret = match(fields, value, heap, values, err);
	for (size_t i = 0; !ret && fields[i].name; i++)
		ret = take(&fields[i], values[i], out, &heap, err);
	/* As the original has it: no type is none, while no kind is a kind. */
	if (!ret && form == COMPAT_LIST_ENTITIES && !out->type.len)
		out->type.at = NULL;
	if (ret == -ENOMEM)
		refuse(err, 500, "internal", "", "out of memory");
	if (ret)
		compat_request_fini(out);
	return ret;
}

void compat_request_fini(struct compat_request *r)
{
	free(r->targets);
	free(r->heap);
	memset(r, 0, sizeof(*r));
}

/* ---- writing ---- */

char *compat_message(const char *status, const char *before, struct store_text a,
		     const char *between, struct store_text b, const char *behind)
{
	struct out o = { .at = NULL };

	out_words(&o, "{\"status\":\"");
	out_words(&o, status);
	out_words(&o, "\",\"message\":\"");
	out_words(&o, before);
	out_escaped(&o, a);
	out_words(&o, between);
	out_escaped(&o, b);
	out_words(&o, behind);
	out_words(&o, "\"}");
	return out_finish(&o);
}

char *compat_entity(const struct compat_request *r)
{
	struct out o = { .at = NULL };

	out_words(&o, "{\"endpoint\":");
	out_json(&o, r->endpoint);
	out_member(&o, ",\"entity_id\":", r->id);
	out_member(&o, ",\"entity_type\":", r->type);
	out_member(&o, ",\"id\":", r->id);
	out_member(&o, ",\"kind\":", r->kind);
	out_words(&o, ",\"metadata\":");
	out_json(&o, r->metadata);
	out_words(&o, ",\"resource\":");
	out_json(&o, r->resource);
	out_words(&o, "}");
	return out_finish(&o);
}

char *compat_event(const struct compat_request *r)
{
	struct out o = { .at = NULL };

	out_member(&o, "{\"entity_id\":", r->id);
	out_member(&o, ",\"entity_type\":", r->type);
	out_member(&o, ",\"event_type\":\"ADD\",\"kind\":", r->kind);
	out_words(&o, ",\"payload\":");
	return out_finish(&o);
}

bool compat_is_json(struct store_text t, char first)
{
	json_error_t why;
	json_t *v;
	bool fits;

	if (!t.len || (first && *t.at != first))
		return false;
	if (json_is_plain(t.at, t.len, DEPTH_MAX + 1))
		return true;
	if (json_too_deep(t.at, t.len, DEPTH_MAX + 1))
		return false;
	v = json_path_parse(t.at, t.len, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL | JSON_DECODE_ANY,
			    &why);
	fits = v != NULL;
	json_decref(v);
	return fits;
}

char *compat_found(const struct store_entities *found)
{
	struct out o = { .at = NULL };
	bool stored = found && found->n;
	bool there = stored && compat_is_json(found->info[0], '{');

	if (stored && !there)
		model_note_junk();
	out_words(&o, there ? "{\"status\":\"ok\",\"entity_info\":"
			    : "{\"status\":\"not_found\",\"entity_info\":");
	out_json(&o, there ? found->info[0] : (struct store_text){ NULL, 0 });
	out_words(&o, "}");
	return out_finish(&o);
}

void compat_listed(struct out *o, const struct store_entities *found)
{
	const char *head = "{\"status\":\"ok\",\"entities\":[";

	for (size_t i = 0; i < found->n; i++) {
		if (!compat_is_json(found->info[i], '{')) {
			model_note_junk();
			continue;
		}
		out_words(o, o->len ? "," : head);
		out_bytes(o, found->info[i].at, found->info[i].len);
	}
	if (found->more)
		return;
	if (!o->len)
		out_words(o, head);
	out_words(o, "]}");
}
