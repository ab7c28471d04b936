/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include "key.h"

#define DEPTH_MAX	   32
#define NUMBER_MAX	   (INT64_C(1) << 53)
#define ITEMS_MAX	   64 /* labels, services, selectors of a region */
#define LABEL_MAX	   63
#define TEXT_MAX	   253
#define ATTRIBUTES_MAX	   16384
#define OBJ_ATTRIBUTES_MAX 4096
#define BLOB_MAX	   65536 /* decoded */
#define OWNER_KEY_DIGITS   64

/* ---- errors ---- */

static int refuse(struct model_error *err, int status, const char *code, const char *field,
		  const char *fmt, ...) __attribute__((format(printf, 5, 6)));

static int refuse(struct model_error *err, int status, const char *code, const char *field,
		  const char *fmt, ...)
{
	va_list ap;

	err->status = status;
	err->code = code;
	snprintf(err->field, sizeof(err->field), "%s", field);
	va_start(ap, fmt);
	vsnprintf(err->message, sizeof(err->message), fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static int bad_value(struct model_error *err, const char *field, const char *expected)
{
	return refuse(err, 422, "bad_value", field, "%s is not %s", field, expected);
}

static int no_memory(struct model_error *err)
{
	refuse(err, 500, "internal", "", "out of memory");
	return -ENOMEM;
}

/* ---- reading a document ---- */

/* Brackets open at once, outside strings; enough to bound the parser's recursion. */
static bool too_deep(const char *text, size_t len)
{
	unsigned depth = 0;
	bool quoted = false;

	for (size_t i = 0; i < len; i++) {
		char c = text[i];

		if (quoted) {
			if (c == '\\')
				i++;
			else if (c == '"')
				quoted = false;
		} else if (c == '"') {
			quoted = true;
		} else if (c == '{' || c == '[') {
			if (++depth > DEPTH_MAX)
				return true;
		} else if ((c == '}' || c == ']') && depth) {
			depth--;
		}
	}
	return false;
}

static int load(const char *body, size_t len, json_t **out, struct model_error *err)
{
	json_error_t why;
	json_t *root;

	if (too_deep(body, len))
		return refuse(err, 400, "bad_json", "", "nested more than %d deep", DEPTH_MAX);
	root = json_loadb(body, len, JSON_REJECT_DUPLICATES, &why);
	if (!root && json_error_code(&why) == json_error_duplicate_key)
		return refuse(err, 422, "duplicate_field", "", "line %d column %d: %.100s",
			      why.line, why.column, why.text);
	if (!root)
		return refuse(err, 400, "bad_json", "", "line %d column %d: %.100s", why.line,
			      why.column, why.text);
	if (!json_is_object(root)) {
		json_decref(root);
		return refuse(err, 422, "bad_type", "", "the body is not an object");
	}
	*out = root;
	return 0;
}

enum need { OPTIONAL, REQUIRED };

/* The member, checked for its type; NULL in *out when it is optional and absent or null. */
static int member(const json_t *root, const char *name, enum need need, json_type type,
		  const char *type_name, json_t **out, struct model_error *err)
{
	json_t *v = json_object_get(root, name);

	*out = NULL;
	if (!v || json_is_null(v)) {
		if (need == OPTIONAL)
			return 0;
		return refuse(err, 422, "missing_field", name, "%s is missing", name);
	}
	if (json_typeof(v) != type)
		return refuse(err, 422, "bad_type", name, "%s is not %s", name, type_name);
	*out = v;
	return 0;
}

static int get_number(const json_t *root, const char *name, enum need need, uint64_t min,
		      uint64_t *out, struct model_error *err)
{
	json_t *v;
	int ret = member(root, name, need, JSON_INTEGER, "an integer", &v, err);

	if (ret || !v)
		return ret;
	if (json_integer_value(v) < (json_int_t)min || json_integer_value(v) >= NUMBER_MAX)
		return bad_value(err, name, min ? "from 1 to 2^53" : "from 0 to 2^53");
	*out = (uint64_t)json_integer_value(v);
	return 0;
}

static int get_text(const json_t *root, const char *name, enum need need, size_t max,
		    const char **out, struct model_error *err)
{
	json_t *v;
	int ret = member(root, name, need, JSON_STRING, "a string", &v, err);

	if (ret || !v)
		return ret;
	if (json_string_length(v) > max)
		return refuse(err, 422, "bad_value", name, "%s is longer than %zu bytes", name,
			      max);
	*out = json_string_value(v);
	return 0;
}

static int get_incarnation(const json_t *root, const char *name, enum need need, const char **out,
			   struct model_error *err)
{
	int ret = get_text(root, name, need, 64, out, err);

	if (ret || !*out)
		return ret;
	if (!key_name_valid(*out) || strpbrk(*out, ":@"))
		return bad_value(err, name, "1 to 64 of [A-Za-z0-9._-]");
	return 0;
}

static int dump(const json_t *v, char **out, struct model_error *err)
{
	*out = json_dumps(v, JSON_COMPACT);
	return *out ? 0 : no_memory(err);
}

static struct store_text as_text(const char *s)
{
	return (struct store_text){ s, s ? strlen(s) : 0 };
}

static int check_labels(const json_t *labels, struct model_error *err)
{
	const char *key;
	json_t *value;
	char field[80];

	if (json_object_size(labels) > ITEMS_MAX)
		return refuse(err, 422, "bad_value", "labels", "more than %d labels", ITEMS_MAX);
	json_object_foreach((json_t *)(uintptr_t)labels, key, value)
	{
		snprintf(field, sizeof(field), "labels.%.63s", key);
		if (!key_name_valid(key) || strlen(key) > LABEL_MAX)
			return bad_value(err, field, "named with 1 to 63 of [A-Za-z0-9._:@-]");
		if (!json_is_string(value))
			return refuse(err, 422, "bad_type", field, "%s is not a string", field);
		if (json_string_length(value) > TEXT_MAX)
			return bad_value(err, field, "at most 253 bytes");
	}
	return 0;
}

static int check_services(const json_t *services, struct model_error *err)
{
	const json_t *item;
	size_t i;
	char field[80];

	if (json_array_size(services) > ITEMS_MAX)
		return refuse(err, 422, "bad_value", "services", "more than %d services",
			      ITEMS_MAX);
	json_array_foreach(services, i, item)
	{
		const json_t *name = json_object_get(item, "name");
		const json_t *attributes = json_object_get(item, "attributes");

		snprintf(field, sizeof(field), "services[%zu].name", i);
		if (!name)
			return refuse(err, 422, "missing_field", field, "%s is missing", field);
		if (!json_is_string(name) || !key_name_valid(json_string_value(name)))
			return bad_value(err, field, "1 to 253 of [A-Za-z0-9._:@-]");
		snprintf(field, sizeof(field), "services[%zu].attributes", i);
		if (attributes && !json_is_object(attributes))
			return refuse(err, 422, "bad_type", field, "%s is not an object", field);
	}
	return 0;
}

/* An object or array member as text of its own. */
static int get_json(const json_t *root, const char *name, json_type type, size_t max, char **out,
		    int (*check)(const json_t *, struct model_error *), struct model_error *err)
{
	json_t *v;
	int ret = member(root, name, OPTIONAL, type, type == JSON_OBJECT ? "an object" : "an array",
			 &v, err);

	if (ret || !v)
		return ret;
	if (check)
		ret = check(v, err);
	if (!ret)
		ret = dump(v, out, err);
	if (!ret && strlen(*out) > max)
		ret = refuse(err, 422, "bad_value", name, "%s is longer than %zu bytes", name, max);
	return ret;
}

static int get_profile(struct model_agent *m, struct model_error *err)
{
	const char *address = NULL;
	int ret = get_text(m->root, "address", OPTIONAL, TEXT_MAX, &address, err);

	if (!ret)
		ret = get_json(m->root, "labels", JSON_OBJECT, SIZE_MAX, &m->texts[0], check_labels,
			       err);
	if (!ret)
		ret = get_json(m->root, "services", JSON_ARRAY, 65536, &m->texts[1], check_services,
			       err);
	if (!ret)
		ret = get_json(m->root, "attributes", JSON_OBJECT, ATTRIBUTES_MAX, &m->texts[2],
			       NULL, err);
	m->profile.address = as_text(address);
	m->profile.labels = as_text(m->texts[0]);
	m->profile.services = as_text(m->texts[1]);
	m->profile.attributes = as_text(m->texts[2]);
	return ret;
}

static int get_previous(const json_t *root, bool *out, struct model_error *err)
{
	json_t *v;
	uint64_t n = 0;
	int ret = member(root, "previous", OPTIONAL, JSON_OBJECT, "an object", &v, err);

	if (ret || !v)
		return ret;
	*out = true;
	ret = get_number(v, "epoch", REQUIRED, 0, &n, err);
	return ret ? ret : get_number(v, "generation", REQUIRED, 0, &n, err);
}

int model_parse_registration(const char *body, size_t len, struct model_agent *out,
			     struct model_error *err)
{
	struct model_agent m = { .root = NULL };
	json_t *root = NULL;
	int ret = load(body, len, &root, err);

	m.root = root;
	if (!ret)
		ret = get_incarnation(root, "incarnation", REQUIRED, &m.incarnation, err);
	if (!ret)
		ret = get_text(root, "owner_key", REQUIRED, OWNER_KEY_DIGITS, &m.owner_key, err);
	if (!ret && strspn(m.owner_key, "0123456789abcdefABCDEF") != OWNER_KEY_DIGITS)
		ret = bad_value(err, "owner_key", "64 hexadecimal digits");
	if (!ret)
		ret = get_previous(root, &m.again, err);
	if (!ret)
		ret = get_profile(&m, err);
	if (ret)
		model_agent_fini(&m);
	else
		*out = m;
	return ret;
}

int model_parse_update(const char *body, size_t len, struct model_agent *out,
		       struct model_error *err)
{
	struct model_agent m = { .root = NULL };
	json_t *root = NULL;
	int ret = load(body, len, &root, err);

	m.root = root;
	if (!ret)
		ret = get_number(root, "revision", REQUIRED, 1, &m.revision, err);
	if (!ret)
		ret = get_profile(&m, err);
	if (ret)
		model_agent_fini(&m);
	else
		*out = m;
	return ret;
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
static int get_blob(const json_t *root, struct store_text *out, struct model_error *err)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *text = NULL;
	int ret = get_text(root, "descriptor", REQUIRED, (BLOB_MAX + 2) / 3 * 4, &text, err);
	size_t n;

	if (ret)
		return ret;
	out->at = text;
	out->len = strlen(text);
	n = strspn(text, digits);
	if (!out->len || out->len % 4 || out->len - n > 2 || strspn(text + n, "=") != out->len - n)
		return bad_value(err, "descriptor", "base64");
	return 0;
}

static int check_access(const json_t *access, struct model_error *err)
{
	const json_t *item;
	size_t i;

	json_array_foreach(access, i, item)
	{
		const char *word = json_string_value(item);

		if (!word || (strcmp(word, "read") != 0 && strcmp(word, "write") != 0) || i > 1)
			return bad_value(err, "access", "a list of read and write");
	}
	return 0;
}

static int check_allow(const json_t *allow, struct model_error *err)
{
	const json_t *item;
	size_t i;
	char field[80];

	if (json_array_size(allow) > ITEMS_MAX)
		return refuse(err, 422, "bad_value", "allow", "more than %d selectors", ITEMS_MAX);
	json_array_foreach(allow, i, item)
	{
		const char *s = json_string_value(item);

		snprintf(field, sizeof(field), "allow[%zu]", i);
		if (!s || strchr(s, ',') || !model_selector_valid(s))
			return bad_value(err, field, "label=value or name=AGENT");
	}
	return 0;
}

/* The public part of an object is made of these of its members. */
static int make_doc(struct model_object *m, const char *const *names, struct model_error *err)
{
	json_t *doc = json_object();
	int ret = doc ? 0 : no_memory(err);

	for (; !ret && *names; names++) {
		json_t *v = json_object_get(m->root, *names);

		if (v && !json_is_null(v) && json_object_set(doc, *names, v))
			ret = no_memory(err);
	}
	if (!ret)
		ret = dump(doc, &m->text, err);
	json_decref(doc);
	m->doc = as_text(m->text);
	return ret;
}

static int check_attributes(const json_t *root, struct model_error *err)
{
	char *text = NULL;
	int ret = get_json(root, "attributes", JSON_OBJECT, OBJ_ATTRIBUTES_MAX, &text, NULL, err);

	free(text);
	return ret;
}

int model_parse_region(const char *body, size_t len, struct model_object *out,
		       struct model_error *err)
{
	static const char *const names[] = { "size", "access", "allow", "attributes", NULL };
	struct model_object m = { .root = NULL };
	uint64_t size = 0;
	json_t *root = NULL;
	json_t *v;
	int ret = load(body, len, &root, err);

	m.root = root;
	if (!ret)
		ret = get_number(root, "revision", REQUIRED, 1, &m.revision, err);
	if (!ret)
		ret = get_number(root, "size", REQUIRED, 0, &size, err);
	if (!ret)
		ret = member(root, "access", REQUIRED, JSON_ARRAY, "an array", &v, err);
	if (!ret)
		ret = check_access(v, err);
	if (!ret)
		ret = member(root, "allow", OPTIONAL, JSON_ARRAY, "an array", &v, err);
	if (!ret && v)
		ret = check_allow(v, err);
	if (!ret)
		ret = check_attributes(root, err);
	if (!ret)
		ret = get_blob(root, &m.blob, err);
	if (!ret)
		ret = make_doc(&m, names, err);
	if (ret)
		model_object_fini(&m);
	else
		*out = m;
	return ret;
}

static int check_state(const json_t *root, struct model_error *err)
{
	const char *state = NULL;
	int ret = get_text(root, "state", REQUIRED, TEXT_MAX, &state, err);

	if (ret)
		return ret;
	if (strcmp(state, "connecting") != 0 && strcmp(state, "connected") != 0 &&
	    strcmp(state, "broken") != 0)
		return bad_value(err, "state", "connecting, connected or broken");
	return 0;
}

int model_parse_link(const char *body, size_t len, struct model_object *out,
		     struct model_error *err)
{
	static const char *const names[] = { "state",
					     "cause",
					     "age_ms",
					     "transport",
					     "connection_epoch",
					     "peer_incarnation",
					     "attributes",
					     NULL };
	struct model_object m = { .root = NULL };
	const char *text = NULL, *incarnation = NULL;
	uint64_t n = 0;
	json_t *root = NULL;
	int ret = load(body, len, &root, err);

	m.root = root;
	if (!ret)
		ret = get_number(root, "revision", REQUIRED, 1, &m.revision, err);
	if (!ret)
		ret = check_state(root, err);
	if (!ret)
		ret = get_text(root, "cause", OPTIONAL, TEXT_MAX, &text, err);
	if (!ret)
		ret = get_text(root, "transport", OPTIONAL, TEXT_MAX, &text, err);
	if (!ret)
		ret = get_number(root, "age_ms", OPTIONAL, 0, &n, err);
	if (!ret)
		ret = get_number(root, "connection_epoch", OPTIONAL, 0, &n, err);
	if (!ret)
		ret = get_incarnation(root, "peer_incarnation", OPTIONAL, &incarnation, err);
	if (!ret)
		ret = check_attributes(root, err);
	if (!ret)
		ret = make_doc(&m, names, err);
	if (ret)
		model_object_fini(&m);
	else
		*out = m;
	return ret;
}

int model_parse_offer(const char *body, size_t len, struct model_object *out,
		      struct model_error *err)
{
	struct model_object m = { .root = NULL };
	json_t *root = NULL;
	int ret = load(body, len, &root, err);

	m.root = root;
	if (!ret)
		ret = get_number(root, "connection_epoch", REQUIRED, 1, &m.revision, err);
	if (!ret)
		ret = get_incarnation(root, "peer_incarnation", OPTIONAL, &m.peer_incarnation, err);
	if (!ret)
		ret = get_blob(root, &m.blob, err);
	if (ret)
		model_object_fini(&m);
	else
		*out = m;
	return ret;
}

void model_object_fini(struct model_object *m)
{
	json_decref(m->root);
	free(m->text);
	memset(m, 0, sizeof(*m));
}

/* ---- beats ---- */

static int get_cursor(const json_t *root, struct store_cursor *out, struct model_error *err)
{
	const char *text = NULL;
	int ret = get_text(root, "cursor", OPTIONAL, MODEL_CURSOR_MAX, &text, err);

	*out = (struct store_cursor){ 0 };
	if (ret || !text)
		return ret;
	return model_parse_cursor(text, out) ? 0 : bad_value(err, "cursor", "EPOCH:ID");
}

int model_parse_heartbeat(const char *body, size_t len, struct store_cursor *cursor,
			  struct model_error *err)
{
	json_t *root = NULL;
	int ret;

	*cursor = (struct store_cursor){ 0 };
	if (!len)
		return 0;
	ret = load(body, len, &root, err);
	if (!ret)
		ret = get_cursor(root, cursor, err);
	json_decref(root);
	return ret;
}

int model_parse_message(const char *text, size_t len, struct store_cursor *cursor,
			struct model_error *err)
{
	const char *type = NULL;
	json_t *root = NULL;
	int ret = load(text, len, &root, err);

	if (!ret)
		ret = get_text(root, "type", REQUIRED, TEXT_MAX, &type, err);
	if (!ret && strcmp(type, "beat") != 0)
		ret = bad_value(err, "type", "beat");
	if (!ret)
		ret = get_cursor(root, cursor, err);
	json_decref(root);
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

void model_format_cursor(char out[MODEL_CURSOR_MAX], const struct store_cursor *c)
{
	snprintf(out, MODEL_CURSOR_MAX, "%" PRIu64 ":%" PRIu64, c->epoch, c->id);
}
