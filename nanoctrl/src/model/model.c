/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include "store/key.h"
#include "model/json_path.h"

#define ITEMS_MAX	   64 /* labels, services, selectors of a region */
#define LABEL_MAX	   63
#define TEXT_MAX	   253
#define CAUSE_MAX	   1023 /* of a link */
#define SERVICES_MAX	   65536
#define ATTRIBUTES_MAX	   16384
#define OBJ_ATTRIBUTES_MAX 4096
#define ALLOW_MAX	   8192
#define BLOB_MAX	   65536 /* decoded */
#define OWNER_KEY_DIGITS   64

static int get_incarnation(const struct json_path *p, const char *name, enum json_path_need need,
			   const char **out)
{
	int ret = json_path_text(p, name, need, 64, out);

	if (ret || !*out)
		return ret;
	if (!key_name_valid(*out) || strpbrk(*out, ":@"))
		return json_path_bad_value(p, name, "1 to 64 of [A-Za-z0-9._-]");
	return 0;
}

static int dump(const struct json_path *p, const json_t *v, char **out)
{
	*out = json_dumps(v, JSON_COMPACT);
	return *out ? 0 : json_path_no_memory(p);
}

static struct store_text as_text(const char *s)
{
	return (struct store_text){ s, s ? strlen(s) : 0 };
}

/* A member's value, once its type was checked. */
typedef int check_fn(const struct json_path *p, const char *name, json_t *value);

/* An object or array member, checked, as text of its own. */
static int get_json(const struct json_path *p, const char *name, json_type type, size_t max,
		    check_fn *check, char **out)
{
	json_t *v;
	int ret = json_path_member(p, name, OPTIONAL, type, &v);

	if (ret || !v)
		return ret;
	if (check)
		ret = check(p, name, v);
	if (!ret)
		ret = dump(p, v, out);
	if (!ret && strlen(*out) > max)
		ret = json_path_refuse(p, "bad_value", name, "is longer than %zu bytes", max);
	return ret;
}

/* ---- agents ---- */

static int check_labels(const struct json_path *p, const char *name, json_t *labels)
{
	const struct json_path in = { .in = labels, .path = "labels", .err = p->err };
	const char *key;
	json_t *value;

	if (json_object_size(labels) > ITEMS_MAX)
		return json_path_refuse(p, "bad_value", name, "are more than %d", ITEMS_MAX);
	json_object_foreach(labels, key, value)
	{
		if (!key_name_valid(key) || strlen(key) > LABEL_MAX)
			return json_path_bad_value(&in, key,
						   "named with 1 to 63 of [A-Za-z0-9._:@-]");
		if (!json_is_string(value))
			return json_path_bad_type(&in, key, "a string");
		if (json_string_length(value) > TEXT_MAX)
			return json_path_bad_value(&in, key, "at most 253 bytes");
	}
	return 0;
}

static int check_service(const struct json_path *p)
{
	const char *name = NULL;
	json_t *attributes;
	int ret = json_path_text(p, "name", REQUIRED, TEXT_MAX, &name);

	if (!ret && !key_name_valid(name))
		ret = json_path_bad_value(p, "name", "1 to 253 of [A-Za-z0-9._:@-]");
	return ret ? ret : json_path_member(p, "attributes", OPTIONAL, JSON_OBJECT, &attributes);
}

/* Services are few: each is compared with those before it. */
static int check_services(const struct json_path *p, const char *name, json_t *services)
{
	struct json_path in;
	json_t *item;
	size_t i;

	if (json_array_size(services) > ITEMS_MAX)
		return json_path_refuse(p, "bad_value", name, "are more than %d", ITEMS_MAX);
	json_array_foreach(services, i, item)
	{
		int ret;

		json_path_element(p, name, i, item, &in);
		ret = json_is_object(item) ? check_service(&in)
					   : json_path_bad_type(&in, "", "an object");
		if (ret)
			return ret;
		for (size_t k = 0; k < i; k++)
			if (json_equal(json_object_get(item, "name"),
				       json_object_get(json_array_get(services, k), "name")))
				return json_path_refuse(&in, "bad_value", "name",
							"is the same as %s[%zu].name", name, k);
	}
	return 0;
}

static int read_profile(struct model_agent *m, const struct json_path *p)
{
	const char *address = NULL;
	int ret = json_path_text(p, "address", OPTIONAL, TEXT_MAX, &address);

	if (!ret)
		ret = get_json(p, "labels", JSON_OBJECT, SIZE_MAX, check_labels, &m->texts[0]);
	if (!ret)
		ret = get_json(p, "services", JSON_ARRAY, SERVICES_MAX, check_services,
			       &m->texts[1]);
	if (!ret)
		ret = get_json(p, "attributes", JSON_OBJECT, ATTRIBUTES_MAX, NULL, &m->texts[2]);
	m->profile.address = as_text(address);
	m->profile.labels = as_text(m->texts[0]);
	m->profile.services = as_text(m->texts[1]);
	m->profile.attributes = as_text(m->texts[2]);
	return ret;
}

static int read_previous(const struct json_path *p, bool *out)
{
	struct json_path previous;
	uint64_t n = 0;
	int ret = json_path_object(p, "previous", OPTIONAL, &previous, out);

	if (ret || !*out)
		return ret;
	ret = json_path_number(&previous, "epoch", REQUIRED, 0, &n);
	return ret ? ret : json_path_number(&previous, "generation", REQUIRED, 0, &n);
}

static int read_registration(void *to, const struct json_path *p)
{
	struct model_agent *m = to;
	int ret = get_incarnation(p, "incarnation", REQUIRED, &m->incarnation);

	if (!ret)
		ret = json_path_text(p, "owner_key", REQUIRED, OWNER_KEY_DIGITS, &m->owner_key);
	if (!ret && strspn(m->owner_key, "0123456789abcdefABCDEF") != OWNER_KEY_DIGITS)
		ret = json_path_bad_value(p, "owner_key", "64 hexadecimal digits");
	if (!ret)
		ret = read_previous(p, &m->again);
	return ret ? ret : read_profile(m, p);
}

static int read_update(void *to, const struct json_path *p)
{
	struct model_agent *m = to;
	int ret = json_path_number(p, "revision", REQUIRED, 1, &m->revision);

	return ret ? ret : read_profile(m, p);
}

/* Reads a document into what becomes a model; what it has got so far is in there also on errors. */
typedef int read_fn(void *to, const struct json_path *p);

static int parse(const char *body, size_t len, read_fn *read, void *to, void **root,
		 struct model_error *err)
{
	struct json_path p;
	int ret = json_path_load(&p, body, len, err);

	*root = p.in;
	return ret ? ret : read(to, &p);
}

/* Reads a body, and hands out what it says or leaves nothing behind. */
static int parse_agent(const char *body, size_t len, read_fn *read, struct model_agent *out,
		       struct model_error *err)
{
	struct model_agent m = { .root = NULL };
	int ret = parse(body, len, read, &m, &m.root, err);

	if (ret)
		model_agent_fini(&m);
	else
		*out = m;
	return ret;
}

int model_parse_registration(const char *body, size_t len, struct model_agent *out,
			     struct model_error *err)
{
	return parse_agent(body, len, read_registration, out, err);
}

int model_parse_update(const char *body, size_t len, struct model_agent *out,
		       struct model_error *err)
{
	return parse_agent(body, len, read_update, out, err);
}

void model_agent_fini(struct model_agent *m)
{
	json_decref(m->root);
	for (size_t i = 0; i < sizeof(m->texts) / sizeof(*m->texts); i++)
		free(m->texts[i]);
	memset(m, 0, sizeof(*m));
}

/* ---- objects ---- */

/* Base64 with its padding, of at most BLOB_MAX bytes. It is kept as it is. */
static int get_blob(const struct json_path *p, struct store_text *out)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *text = NULL;
	int ret = json_path_text(p, "descriptor", REQUIRED, (BLOB_MAX + 2) / 3 * 4, &text);
	size_t n;

	if (ret)
		return ret;
	out->at = text;
	out->len = strlen(text);
	n = strspn(text, digits);
	if (!out->len || out->len % 4 || out->len - n > 2 || strspn(text + n, "=") != out->len - n)
		return json_path_bad_value(p, "descriptor", "base64");
	if (out->len / 4 * 3 - (out->len - n) > BLOB_MAX)
		return json_path_bad_value(p, "descriptor", "at most 64 KiB decoded");
	return 0;
}

static int check_access(const struct json_path *p, const char *name, json_t *access)
{
	json_t *item;
	size_t i;

	if (!json_array_size(access))
		return json_path_refuse(p, "bad_value", name,
					"is empty: expected read, write or both");
	json_array_foreach(access, i, item)
	{
		const char *word = json_string_value(item);
		struct json_path in;

		json_path_element(p, name, i, item, &in);
		if (!word)
			return json_path_bad_type(&in, "", "a string");
		if (strcmp(word, "read") != 0 && strcmp(word, "write") != 0)
			return json_path_bad_value(&in, "", "read or write");
		for (size_t k = 0; k < i; k++)
			if (json_equal(item, json_array_get(access, k)))
				return json_path_refuse(&in, "bad_value", "",
							"is the same as %s[%zu]", name, k);
	}
	return 0;
}

static int check_allow(const struct json_path *p, const char *name, json_t *allow)
{
	json_t *item;
	size_t i;

	if (json_array_size(allow) > ITEMS_MAX)
		return json_path_refuse(p, "bad_value", name, "are more than %d selectors",
					ITEMS_MAX);
	json_array_foreach(allow, i, item)
	{
		const char *s = json_string_value(item);
		struct json_path in;

		json_path_element(p, name, i, item, &in);
		if (!s)
			return json_path_bad_type(&in, "", "a string");
		if (strchr(s, ',') || !model_selector_valid(s))
			return json_path_bad_value(&in, "", "label=value or name=AGENT");
	}
	return 0;
}

/* The public part of an object is made of these of its members. */
static int make_doc(struct model_object *m, const struct json_path *p, const char *const *names)
{
	json_t *doc = json_object();
	int ret = doc ? 0 : json_path_no_memory(p);

	for (; !ret && *names; names++) {
		json_t *v = json_object_get(p->in, *names);

		if (v && !json_is_null(v) && json_object_set(doc, *names, v))
			ret = json_path_no_memory(p);
	}
	if (!ret)
		ret = dump(p, doc, &m->text);
	json_decref(doc);
	m->doc = as_text(m->text);
	return ret;
}

/* A member that stays part of the document: its form, and its length as it is stored. */
static int check_json(const struct json_path *p, const char *name, json_type type, size_t max,
		      check_fn *check)
{
	char *text = NULL;
	int ret = get_json(p, name, type, max, check, &text);

	free(text);
	return ret;
}

static int check_attributes(const struct json_path *p)
{
	return check_json(p, "attributes", JSON_OBJECT, OBJ_ATTRIBUTES_MAX, NULL);
}

static int read_region(void *to, const struct json_path *p)
{
	struct model_object *m = to;
	static const char *const names[] = { "size", "access", "allow", "attributes", NULL };
	uint64_t size = 0;
	json_t *v;
	int ret = json_path_number(p, "revision", REQUIRED, 1, &m->revision);

	if (!ret)
		ret = json_path_number(p, "size", REQUIRED, 0, &size);
	if (!ret)
		ret = json_path_member(p, "access", REQUIRED, JSON_ARRAY, &v);
	if (!ret)
		ret = check_access(p, "access", v);
	if (!ret)
		ret = check_json(p, "allow", JSON_ARRAY, ALLOW_MAX, check_allow);
	if (!ret)
		ret = check_attributes(p);
	if (!ret)
		ret = get_blob(p, &m->blob);
	return ret ? ret : make_doc(m, p, names);
}

static int check_state(const struct json_path *p)
{
	const char *state = NULL;
	int ret = json_path_text(p, "state", REQUIRED, TEXT_MAX, &state);

	if (ret)
		return ret;
	if (strcmp(state, "connecting") != 0 && strcmp(state, "connected") != 0 &&
	    strcmp(state, "broken") != 0 && strcmp(state, "refused") != 0)
		return json_path_bad_value(p, "state", "connecting, connected, broken or refused");
	return 0;
}

static int read_link(void *to, const struct json_path *p)
{
	struct model_object *m = to;
	static const char *const names[] = { "state",
					     "cause",
					     "age_ms",
					     "transport",
					     "connection_epoch",
					     "peer_incarnation",
					     "attributes",
					     NULL };
	const char *text = NULL, *incarnation = NULL;
	uint64_t n = 0;
	int ret = json_path_number(p, "revision", REQUIRED, 1, &m->revision);

	if (!ret)
		ret = check_state(p);
	if (!ret)
		ret = json_path_text(p, "cause", OPTIONAL, CAUSE_MAX, &text);
	if (!ret)
		ret = json_path_text(p, "transport", OPTIONAL, TEXT_MAX, &text);
	if (!ret)
		ret = json_path_number(p, "age_ms", OPTIONAL, 0, &n);
	if (!ret)
		ret = json_path_number(p, "connection_epoch", OPTIONAL, 0, &n);
	if (!ret)
		ret = get_incarnation(p, "peer_incarnation", OPTIONAL, &incarnation);
	if (!ret)
		ret = check_attributes(p);
	return ret ? ret : make_doc(m, p, names);
}

static int read_offer(void *to, const struct json_path *p)
{
	struct model_object *m = to;
	int ret = json_path_number(p, "connection_epoch", REQUIRED, 1, &m->revision);

	if (!ret)
		ret = get_incarnation(p, "peer_incarnation", OPTIONAL, &m->peer_incarnation);
	return ret ? ret : get_blob(p, &m->blob);
}

/* As parse_agent(). */
static int parse_object(const char *body, size_t len, read_fn *read, struct model_object *out,
			struct model_error *err)
{
	struct model_object m = { .root = NULL };
	int ret = parse(body, len, read, &m, &m.root, err);

	if (ret)
		model_object_fini(&m);
	else
		*out = m;
	return ret;
}

int model_parse_region(const char *body, size_t len, struct model_object *out,
		       struct model_error *err)
{
	return parse_object(body, len, read_region, out, err);
}

int model_parse_link(const char *body, size_t len, struct model_object *out,
		     struct model_error *err)
{
	return parse_object(body, len, read_link, out, err);
}

int model_parse_offer(const char *body, size_t len, struct model_object *out,
		      struct model_error *err)
{
	return parse_object(body, len, read_offer, out, err);
}

void model_object_fini(struct model_object *m)
{
	json_decref(m->root);
	free(m->text);
	memset(m, 0, sizeof(*m));
}

/* ---- beats ---- */

static int get_cursor(const struct json_path *p, struct store_cursor *out)
{
	const char *text = NULL;
	int ret = json_path_text(p, "cursor", OPTIONAL, MODEL_CURSOR_MAX, &text);

	if (ret || !text)
		return ret;
	return model_parse_cursor(text, out) ? 0 : json_path_bad_value(p, "cursor", "EPOCH:ID");
}

static int check_type(const struct json_path *p)
{
	const char *type = NULL;
	int ret = json_path_text(p, "type", REQUIRED, TEXT_MAX, &type);

	if (!ret && strcmp(type, "beat") != 0)
		ret = json_path_bad_value(p, "type", "beat");
	return ret;
}

int model_parse_heartbeat(const char *body, size_t len, struct store_cursor *cursor,
			  struct model_error *err)
{
	struct json_path p;
	int ret;

	*cursor = (struct store_cursor){ 0 };
	if (!len)
		return 0;
	ret = json_path_load(&p, body, len, err);
	if (!ret)
		ret = get_cursor(&p, cursor);
	json_decref(p.in);
	return ret;
}

int model_parse_message(const char *text, size_t len, struct store_cursor *cursor,
			struct model_error *err)
{
	struct json_path p;
	int ret = json_path_load(&p, text, len, err);

	*cursor = (struct store_cursor){ 0 };
	if (!ret)
		ret = check_type(&p);
	if (!ret)
		ret = get_cursor(&p, cursor);
	json_decref(p.in);
	return ret;
}

bool model_parse_cursor(const char *text, struct store_cursor *out)
{
	const char *colon = strchr(text, ':');
	size_t len = strlen(text);

	if (!colon || len >= MODEL_CURSOR_MAX || colon == text || !colon[1] || colon - text > 16 ||
	    strlen(colon + 1) > 16 || strspn(text, "0123456789") != (size_t)(colon - text) ||
	    colon[1 + strspn(colon + 1, "0123456789")])
		return false;
	out->epoch = strtoull(text, NULL, 10);
	out->id = strtoull(colon + 1, NULL, 10);
	return true;
}
