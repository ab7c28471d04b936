/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nanoctrl/client/json.h"

struct block {
	struct block *next;
	max_align_t bytes[];
};

struct nc_json {
	json_t *root;
	struct block *blocks; /* what decoders allocated */
};

int nc_json_parse(const char *text, size_t len, struct nc_json **out)
{
	struct nc_json *json = calloc(1, sizeof(*json));
	json_error_t error;

	if (!json)
		return -ENOMEM;
	json->root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
	if (!json_is_object(json->root)) {
		bool no_memory = !json->root && json_error_code(&error) == json_error_out_of_memory;

		nc_json_free(json);
		return no_memory ? -ENOMEM : -EPROTO;
	}
	*out = json;
	return 0;
}

void nc_json_free(struct nc_json *json)
{
	struct block *b;

	if (!json)
		return;
	while ((b = json->blocks)) {
		json->blocks = b->next;
		free(b);
	}
	json_decref(json->root);
	free(json);
}

static void *allocate(struct nc_json *json, size_t n, size_t size)
{
	struct block *b = calloc(1, sizeof(*b) + n * size);

	if (!b)
		return NULL;
	b->next = json->blocks;
	json->blocks = b;
	return b->bytes;
}

/* --- members: *ret keeps the first failure, so that a decoder looks once --- */

static const char *text_of(const json_t *o, const char *key, int *ret)
{
	const char *text = json_string_value(json_object_get(o, key));

	if (!text)
		*ret = *ret ? *ret : -EPROTO;
	return text ? text : "";
}

static const char *text_or(const json_t *o, const char *key, const char *otherwise)
{
	const char *text = json_string_value(json_object_get(o, key));

	return text ? text : otherwise;
}

static uint64_t number_of(const json_t *o, const char *key, int *ret)
{
	const json_t *v = json_object_get(o, key);

	if (!json_is_integer(v) || json_integer_value(v) < 0) {
		*ret = *ret ? *ret : -EPROTO;
		return 0;
	}
	return (uint64_t)json_integer_value(v);
}

static uint64_t number_or(const json_t *o, const char *key, uint64_t otherwise)
{
	int ret = 0;
	uint64_t v = number_of(o, key, &ret);

	return ret ? otherwise : v;
}

static uint32_t ms_of(const json_t *o, const char *key, int *ret)
{
	uint64_t v = number_of(o, key, ret);

	return v > INT32_MAX ? INT32_MAX : (uint32_t)v;
}

static struct nc_pairs pairs_of(struct nc_json *json, json_t *o, const char *key, int *ret)
{
	json_t *map = json_object_get(o, key), *value;
	struct nc_pair *list;
	const char *name;
	size_t n = 0;

	if (!json_object_size(map))
		return (struct nc_pairs){ 0 };
	list = allocate(json, json_object_size(map), sizeof(*list));
	if (!list) {
		*ret = -ENOMEM;
		return (struct nc_pairs){ 0 };
	}
	json_object_foreach(map, name, value)
	{
		if (json_is_string(value))
			list[n++] = (struct nc_pair){ name, json_string_value(value) };
	}
	return (struct nc_pairs){ list, n };
}

/* --- base64 --- */

static bool is_base64(const char *text, size_t len)
{
	size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");

	if (len % 4 || len - n > 2)
		return false;
	return strspn(text + n, "=") == len - n;
}

/* Absent is no error: not everybody may have a descriptor. */
static const void *descriptor_of(struct nc_json *json, const json_t *o, size_t *out_len, int *ret)
{
	const json_t *v = json_object_get(o, "descriptor");
	const char *text = json_string_value(v);
	size_t len = json_string_length(v);
	unsigned char *bytes;

	*out_len = 0;
	if (!v)
		return NULL;
	if (!text || !is_base64(text, len) || len / 4 * 3 > NC_DESCRIPTOR_MAX + 2) {
		*ret = *ret ? *ret : -EPROTO;
		return NULL;
	}
	bytes = allocate(json, len / 4 * 3 + 1, 1);
	if (!bytes) {
		*ret = -ENOMEM;
		return NULL;
	}
	EVP_DecodeBlock(bytes, (const unsigned char *)text, (int)len);
	*out_len = len / 4 * 3 - (len && text[len - 1] == '=') - (len && text[len - 2] == '=');
	return bytes;
}

static json_t *encode_base64(const void *bytes, size_t len)
{
	char *text = malloc((len + 2) / 3 * 4 + 1);
	json_t *v;

	if (!text)
		return NULL;
	EVP_EncodeBlock((unsigned char *)text, bytes, (int)len);
	v = json_string(text);
	free(text);
	return v;
}

/* --- answers --- */

static void copy(char *out, size_t len, const json_t *root, const char *key)
{
	const char *text = json_string_value(json_object_get(root, key));

	if (text)
		snprintf(out, len, "%s", text);
}

void nc_json_error(struct nc_json *json, struct nc_error *error)
{
	copy(error->code, sizeof(error->code), json->root, "code");
	copy(error->field, sizeof(error->field), json->root, "field");
	copy(error->message, sizeof(error->message), json->root, "message");
}

int nc_json_grant(struct nc_json *json, struct nc_json_grant *out)
{
	const json_t *o = json->root;
	int ret = 0;

	*out = (struct nc_json_grant){
		.lease = text_of(o, "lease", &ret),
		.grant = {
			.epoch = number_of(o, "epoch", &ret),
			.generation = number_of(o, "generation", &ret),
			.resumed = json_is_true(json_object_get(o, "resumed")),
			.ttl_ms = ms_of(o, "ttl_ms", &ret),
			.beat_ms = ms_of(o, "beat_ms", &ret),
			.grace_ms = ms_of(o, "grace_ms", &ret),
		},
	};
	return ret;
}

typedef int element_fn(struct nc_json *json, json_t *o, void *out);

/* Every element of the array under key; *out is an array of structs of this size. */
static int read_array(struct nc_json *json, json_t *o, const char *key, size_t size,
		      element_fn *element, void *out, size_t *n)
{
	json_t *array = json_object_get(o, key), *value;
	char *list;
	size_t i;

	if (!json_is_array(array))
		return -EPROTO;
	list = allocate(json, json_array_size(array), size);
	if (!list)
		return -ENOMEM;
	json_array_foreach(array, i, value)
	{
		int ret = json_is_object(value) ? element(json, value, list + i * size) : -EPROTO;

		if (ret)
			return ret;
	}
	memcpy(out, &list, sizeof(list));
	*n = json_array_size(array);
	return 0;
}

static int read_service(struct nc_json *json, json_t *o, void *out)
{
	struct nc_service *service = out;
	int ret = 0;

	service->name = text_of(o, "name", &ret);
	service->attributes = pairs_of(json, o, "attributes", &ret);
	return ret;
}

static int read_agent(struct nc_json *json, json_t *o, void *out)
{
	struct nc_agent *agent = out;
	const json_t *left = json_object_get(o, "lease_left_ms");
	int ret = 0;

	*agent = (struct nc_agent){
		.name = text_of(o, "name", &ret),
		.epoch = number_of(o, "epoch", &ret),
		.generation = number_of(o, "generation", &ret),
		.revision = number_or(o, "revision", 0),
		.incarnation = text_of(o, "incarnation", &ret),
		.address = text_or(o, "address", ""),
		.labels = pairs_of(json, o, "labels", &ret),
		.attributes = pairs_of(json, o, "attributes", &ret),
		.lease_left_ms = json_integer_value(left),
		.session = json_is_true(json_object_get(o, "session")),
	};
	if (!ret && json_object_get(o, "services"))
		ret = read_array(json, o, "services", sizeof(struct nc_service), read_service,
				 &agent->services, &agent->n_services);
	return ret;
}

static int read_access(const json_t *o, unsigned *access)
{
	const json_t *array = json_object_get(o, "access"), *value;
	size_t i;

	if (!json_is_array(array))
		return -EPROTO;
	*access = 0;
	json_array_foreach(array, i, value)
	{
		const char *word = json_string_value(value);

		if (word && !strcmp(word, "read"))
			*access |= NC_READ;
		else if (word && !strcmp(word, "write"))
			*access |= NC_WRITE;
	}
	return 0;
}

static int read_allow(struct nc_json *json, const json_t *o, struct nc_region *region)
{
	const json_t *array = json_object_get(o, "allow"), *value;
	const char **list;
	size_t i;

	if (!json_is_array(array))
		return 0;
	list = allocate(json, json_array_size(array), sizeof(*list));
	if (!list)
		return -ENOMEM;
	json_array_foreach(array, i, value)
	{
		list[i] = json_string_value(value);
		if (!list[i])
			return -EPROTO;
	}
	region->allow = list;
	region->n_allow = json_array_size(array);
	return 0;
}

static int read_region(struct nc_json *json, json_t *o, void *out)
{
	struct nc_region *region = out;
	int ret = 0;

	*region = (struct nc_region){
		.agent = text_of(o, "agent", &ret),
		.name = text_of(o, "name", &ret),
		.generation = number_of(o, "generation", &ret),
		.incarnation = text_of(o, "incarnation", &ret),
		.revision = number_of(o, "revision", &ret),
		.size = number_of(o, "size", &ret),
		.attributes = pairs_of(json, o, "attributes", &ret),
	};
	region->descriptor = descriptor_of(json, o, &region->descriptor_len, &ret);
	if (!ret)
		ret = read_access(o, &region->access);
	return ret ? ret : read_allow(json, o, region);
}

static int read_offer(struct nc_json *json, json_t *o, void *out)
{
	struct nc_offer *offer = out;
	int ret = 0;

	*offer = (struct nc_offer){
		.from = text_of(o, "from", &ret),
		.to = text_of(o, "to", &ret),
		.profile = text_of(o, "profile", &ret),
		.generation = number_of(o, "generation", &ret),
		.incarnation = text_of(o, "incarnation", &ret),
		.peer_generation = number_of(o, "peer_generation", &ret),
		.connection_epoch = number_of(o, "connection_epoch", &ret),
	};
	offer->descriptor = descriptor_of(json, o, &offer->descriptor_len, &ret);
	return ret;
}

static const char *const state_words[] = { "connecting", "connected", "broken" };

static int read_link(struct nc_json *json, json_t *o, void *out)
{
	struct nc_link *link = out;
	const char *state;
	int ret = 0;

	(void)json;
	*link = (struct nc_link){
		.agent = text_of(o, "agent", &ret),
		.peer = text_of(o, "peer", &ret),
		.profile = text_of(o, "profile", &ret),
		.generation = number_of(o, "generation", &ret),
		.revision = number_of(o, "revision", &ret),
		.cause = text_or(o, "cause", NULL),
		.age_ms = number_or(o, "age_ms", 0),
		.transport = text_or(o, "transport", NULL),
		.connection_epoch = number_or(o, "connection_epoch", 0),
		.peer_incarnation = text_or(o, "peer_incarnation", NULL),
	};
	state = text_of(o, "state", &ret);
	for (int i = 0; i < 3 && !ret; i++)
		if (!strcmp(state, state_words[i])) {
			link->state = (enum nc_link_state)i;
			return 0;
		}
	return -EPROTO;
}

static int read_one(struct nc_json *json, const char *key, element_fn *element, void *out)
{
	json_t *o = json_object_get(json->root, key);

	return json_is_object(o) ? element(json, o, out) : -EPROTO;
}

int nc_json_agent(struct nc_json *json, struct nc_agent *out)
{
	return read_one(json, "agent", read_agent, out);
}

int nc_json_region(struct nc_json *json, struct nc_region *out)
{
	return read_one(json, "region", read_region, out);
}

int nc_json_offer(struct nc_json *json, struct nc_offer *out)
{
	return read_one(json, "offer", read_offer, out);
}

static struct nc_page page_of(const struct nc_json *json)
{
	return (struct nc_page){ .next = text_or(json->root, "next", NULL) };
}

int nc_json_agents(struct nc_json *json, struct nc_page *out)
{
	*out = page_of(json);
	return read_array(json, json->root, "agents", sizeof(struct nc_agent), read_agent,
			  &out->agents, &out->n);
}

int nc_json_regions(struct nc_json *json, struct nc_page *out)
{
	*out = page_of(json);
	return read_array(json, json->root, "regions", sizeof(struct nc_region), read_region,
			  &out->regions, &out->n);
}

int nc_json_offers(struct nc_json *json, struct nc_page *out)
{
	*out = page_of(json);
	return read_array(json, json->root, "offers", sizeof(struct nc_offer), read_offer,
			  &out->offers, &out->n);
}

int nc_json_links(struct nc_json *json, struct nc_page *out)
{
	*out = page_of(json);
	return read_array(json, json->root, "links", sizeof(struct nc_link), read_link, &out->links,
			  &out->n);
}

/* --- the session --- */

static const struct {
	const char *name;
	enum nc_event_type type;
} event_names[] = {
	{ "registered", NC_EVENT_REGISTERED },
	{ "changed", NC_EVENT_CHANGED },
	{ "left", NC_EVENT_LEFT },
	{ "expired", NC_EVENT_EXPIRED },
	{ "region", NC_EVENT_REGION },
	{ "region_gone", NC_EVENT_REGION_GONE },
	{ "offer", NC_EVENT_OFFER },
	{ "offer_gone", NC_EVENT_OFFER_GONE },
};

static const struct {
	const char *name;
	enum nc_message_type type;
} message_names[] = {
	{ "hello", NC_MESSAGE_HELLO },		 { "beat", NC_MESSAGE_BEAT },
	{ "reset", NC_MESSAGE_RESET },		 { "resync", NC_MESSAGE_RESYNC },
	{ "superseded", NC_MESSAGE_SUPERSEDED }, { "goaway", NC_MESSAGE_GOAWAY },
	{ "error", NC_MESSAGE_ERROR },
};

static int read_event(const json_t *o, enum nc_event_type type, struct nc_message *out)
{
	bool offer = type == NC_EVENT_OFFER || type == NC_EVENT_OFFER_GONE;
	bool region = type == NC_EVENT_REGION || type == NC_EVENT_REGION_GONE;
	int ret = 0;

	out->type = NC_MESSAGE_EVENT;
	out->cursor = text_of(o, "cursor", &ret);
	out->event = (struct nc_event){
		.type = type,
		.epoch = strtoull(out->cursor, NULL, 10),
		.generation = number_of(o, "generation", &ret),
		.agent = text_of(o, offer ? "from" : "agent", &ret),
		.incarnation = text_or(o, "incarnation", ""),
		.region = region ? text_of(o, "region", &ret) : "",
		.profile = offer ? text_of(o, "profile", &ret) : "",
		.revision = number_or(o, "revision", 0),
		.connection_epoch = number_or(o, "connection_epoch", 0),
	};
	return ret;
}

static int read_message(const json_t *o, enum nc_message_type type, struct nc_message *out)
{
	int ret = 0;

	out->type = type;
	switch (type) {
	case NC_MESSAGE_HELLO:
		out->beat_ms = ms_of(o, "beat_ms", &ret);
		/* fall through */
	case NC_MESSAGE_RESET:
		out->cursor = text_of(o, "cursor", &ret);
		break;
	case NC_MESSAGE_GOAWAY:
		out->reason = text_of(o, "reason", &ret);
		/* fall through */
	case NC_MESSAGE_RESYNC:
		out->spread_ms = json_object_get(o, "spread_ms") ? ms_of(o, "spread_ms", &ret) : 0;
		break;
	case NC_MESSAGE_ERROR:
		out->reason = text_or(o, "message", "");
		break;
	default:
		break;
	}
	return ret;
}

int nc_json_message(struct nc_json *json, struct nc_message *out)
{
	int ret = 0;
	const char *type = text_of(json->root, "type", &ret);

	*out = (struct nc_message){ .type = NC_MESSAGE_OTHER };
	if (ret)
		return ret;
	for (size_t i = 0; i < sizeof(event_names) / sizeof(event_names[0]); i++)
		if (!strcmp(type, event_names[i].name))
			return read_event(json->root, event_names[i].type, out);
	for (size_t i = 0; i < sizeof(message_names) / sizeof(message_names[0]); i++)
		if (!strcmp(type, message_names[i].name))
			return read_message(json->root, message_names[i].type, out);
	return 0;
}

/* --- requests: a member that could not be made fails the whole at the end --- */

struct body {
	json_t *root;
	bool failed;
};

static void put(struct body *b, json_t *o, const char *key, json_t *value)
{
	if (json_object_set_new(o, key, value))
		b->failed = true;
}

static void append(struct body *b, json_t *array, json_t *value)
{
	if (json_array_append_new(array, value))
		b->failed = true;
}

static void put_text(struct body *b, json_t *o, const char *key, const char *text)
{
	if (text)
		put(b, o, key, json_string(text));
}

static void put_pairs(struct body *b, json_t *o, const char *key, struct nc_pairs pairs)
{
	json_t *map = json_object();

	for (size_t i = 0; i < pairs.n; i++)
		put_text(b, map, pairs.list[i].key, pairs.list[i].value);
	put(b, o, key, map);
}

static void put_number(struct body *b, json_t *o, const char *key, uint64_t v)
{
	put(b, o, key, json_integer((json_int_t)v));
}

static char *finish(struct body *b)
{
	char *text = b->failed ? NULL : json_dumps(b->root, JSON_COMPACT);

	json_decref(b->root);
	return text;
}

char *nc_json_registration(const struct nc_registration *r, bool again, uint64_t epoch,
			   uint64_t generation)
{
	struct body b = { .root = json_object() };
	json_t *services = json_array();

	put_text(&b, b.root, "incarnation", r->incarnation);
	put_text(&b, b.root, "owner_key", r->owner_key);
	put_text(&b, b.root, "address", r->address);
	put_pairs(&b, b.root, "labels", r->labels);
	put_pairs(&b, b.root, "attributes", r->attributes);
	for (size_t i = 0; i < r->n_services; i++) {
		json_t *service = json_object();

		put_text(&b, service, "name", r->services[i].name);
		put_pairs(&b, service, "attributes", r->services[i].attributes);
		append(&b, services, service);
	}
	put(&b, b.root, "services", services);
	if (again) {
		json_t *previous = json_object();

		put_number(&b, previous, "epoch", epoch);
		put_number(&b, previous, "generation", generation);
		put(&b, b.root, "previous", previous);
	}
	return finish(&b);
}

char *nc_json_publication(const struct nc_region *region)
{
	struct body b = { .root = json_object() };
	json_t *access = json_array(), *allow = json_array();

	put_number(&b, b.root, "revision", region->revision);
	put_number(&b, b.root, "size", region->size);
	if (region->access & NC_READ)
		append(&b, access, json_string("read"));
	if (region->access & NC_WRITE)
		append(&b, access, json_string("write"));
	put(&b, b.root, "access", access);
	for (size_t i = 0; i < region->n_allow; i++)
		append(&b, allow, json_string(region->allow[i]));
	if (region->allow)
		put(&b, b.root, "allow", allow);
	else
		json_decref(allow);
	put_pairs(&b, b.root, "attributes", region->attributes);
	put(&b, b.root, "descriptor", encode_base64(region->descriptor, region->descriptor_len));
	return finish(&b);
}

char *nc_json_posting(uint64_t connection_epoch, const char *peer_incarnation,
		      const void *descriptor, size_t len)
{
	struct body b = { .root = json_object() };

	put_number(&b, b.root, "connection_epoch", connection_epoch);
	put_text(&b, b.root, "peer_incarnation", peer_incarnation);
	put(&b, b.root, "descriptor", encode_base64(descriptor, len));
	return finish(&b);
}

char *nc_json_report(const struct nc_link *link)
{
	struct body b = { .root = json_object() };

	put_number(&b, b.root, "revision", link->revision);
	put_text(&b, b.root, "state", state_words[link->state]);
	put_text(&b, b.root, "cause", link->cause);
	put_number(&b, b.root, "age_ms", link->age_ms);
	put_text(&b, b.root, "transport", link->transport);
	if (link->connection_epoch)
		put_number(&b, b.root, "connection_epoch", link->connection_epoch);
	put_text(&b, b.root, "peer_incarnation", link->peer_incarnation);
	return finish(&b);
}

char *nc_json_beat(const char *cursor)
{
	struct body b = { .root = json_object() };

	put_text(&b, b.root, "type", "beat");
	put_text(&b, b.root, "cursor", cursor);
	return finish(&b);
}
