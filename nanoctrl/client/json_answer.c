/* SPDX-License-Identifier: Apache-2.0 */
/* The contents of answers: agents, regions, offers, links. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "nanoctrl/client/json_document.h"
#include "nanoctrl/client/json_member.h"

static void copy(char *out, size_t len, const json_t *root, const char *key)
{
	const char *text = json_string_value(json_object_get(root, key));

	if (text)
		snprintf(out, len, "%s", text);
}

static void read_holder(const json_t *o, struct nc_holder *out)
{
	int ret = 0;
	const json_t *left = json_object_get(o, "lease_left_ms");
	struct nc_holder h = {
		.registered_at_ms = nc_number_or(o, "registered_at_ms", 0),
		.at_ms = nc_number_of(o, "at_ms", &ret),
		.lease_left_ms = json_integer_value(left),
		.ttl_ms = nc_ms_of(o, "ttl_ms", &ret),
		.wait_ms = nc_ms_of(o, "wait_ms", &ret),
	};

	if (ret || !json_is_integer(left))
		return;
	copy(h.address, sizeof(h.address), o, "address");
	copy(h.incarnation, sizeof(h.incarnation), o, "incarnation");
	*out = h;
}

/* A text for people, of any source. */
static void copy_shown(char *out, size_t len, const json_t *root, const char *key)
{
	copy(out, len, root, key);
	sl_utf8_make_printable(out);
}

void nc_json_error(struct nc_json *json, struct nc_error *error)
{
	copy(error->code, sizeof(error->code), json->root, "code");
	copy_shown(error->field, sizeof(error->field), json->root, "field");
	copy_shown(error->message, sizeof(error->message), json->root, "message");
	read_holder(json_object_get(json->root, "holder"), &error->holder);
	error->order = nc_number_or(json->root, "order", 0);
}

int nc_json_grant(struct nc_json *json, struct nc_json_grant *out)
{
	const json_t *o = json->root;
	int ret = 0;

	*out = (struct nc_json_grant){
		.lease = nc_text_of(o, "lease", &ret),
		.grant = {
			.epoch = nc_number_of(o, "epoch", &ret),
			.generation = nc_number_of(o, "generation", &ret),
			.resumed = json_is_true(json_object_get(o, "resumed")),
			.ttl_ms = nc_ms_of(o, "ttl_ms", &ret),
			.beat_ms = nc_ms_of(o, "beat_ms", &ret),
			.grace_ms = nc_ms_of(o, "grace_ms", &ret),
		},
	};
	return ret;
}

int nc_json_epoch(struct nc_json *json, uint64_t *out)
{
	int ret = 0;
	uint64_t epoch = nc_number_of(json->root, "epoch", &ret);

	if (!ret)
		*out = epoch;
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
	list = nc_json_allocate(json, json_array_size(array), size);
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

	service->name = nc_text_of(o, "name", &ret);
	service->attributes = nc_pairs_of(json, o, "attributes", &ret);
	return ret;
}

static int read_agent(struct nc_json *json, json_t *o, void *out)
{
	struct nc_agent *agent = out;
	const json_t *left = json_object_get(o, "lease_left_ms");
	int ret = 0;

	*agent = (struct nc_agent){
		.name = nc_text_of(o, "name", &ret),
		.epoch = nc_number_of(o, "epoch", &ret),
		.generation = nc_number_of(o, "generation", &ret),
		.revision = nc_number_or(o, "revision", 0),
		.incarnation = nc_text_of(o, "incarnation", &ret),
		.address = nc_text_or(o, "address", ""),
		.labels = nc_pairs_of(json, o, "labels", &ret),
		.attributes = nc_pairs_of(json, o, "attributes", &ret),
		.lease_left_ms = json_integer_value(left),
		.session = json_is_true(json_object_get(o, "session")),
		.registered_at_ms = nc_number_or(o, "registered_at_ms", 0),
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

/* A list of texts. -EPROTO: it has something else; -ENOMEM. */
static int read_texts(struct nc_json *json, const json_t *array, const char *const **out, size_t *n)
{
	const char **list = nc_json_allocate(json, json_array_size(array), sizeof(*list));
	const json_t *value;
	size_t i;

	if (!list)
		return -ENOMEM;
	json_array_foreach(array, i, value)
	{
		list[i] = json_string_value(value);
		if (!list[i])
			return -EPROTO;
	}
	*out = list;
	*n = json_array_size(array);
	return 0;
}

static int read_allow(struct nc_json *json, const json_t *o, struct nc_region *region)
{
	const json_t *array = json_object_get(o, "allow");

	return json_is_array(array) ? read_texts(json, array, &region->allow, &region->n_allow) : 0;
}

static int read_region(struct nc_json *json, json_t *o, void *out)
{
	struct nc_region *region = out;
	int ret = 0;

	*region = (struct nc_region){
		.agent = nc_text_of(o, "agent", &ret),
		.name = nc_text_of(o, "name", &ret),
		.generation = nc_number_of(o, "generation", &ret),
		.incarnation = nc_text_of(o, "incarnation", &ret),
		.revision = nc_number_of(o, "revision", &ret),
		.size = nc_number_of(o, "size", &ret),
		.attributes = nc_pairs_of(json, o, "attributes", &ret),
	};
	region->descriptor = nc_descriptor_of(json, o, &region->descriptor_len, &ret);
	if (!ret)
		ret = read_access(o, &region->access);
	return ret ? ret : read_allow(json, o, region);
}

static int read_offer(struct nc_json *json, json_t *o, void *out)
{
	struct nc_offer *offer = out;
	int ret = 0;

	*offer = (struct nc_offer){
		.from = nc_text_of(o, "from", &ret),
		.to = nc_text_of(o, "to", &ret),
		.profile = nc_text_of(o, "profile", &ret),
		.generation = nc_number_of(o, "generation", &ret),
		.incarnation = nc_text_of(o, "incarnation", &ret),
		.peer_generation = nc_number_of(o, "peer_generation", &ret),
		.connection_epoch = nc_number_of(o, "connection_epoch", &ret),
	};
	offer->descriptor = nc_descriptor_of(json, o, &offer->descriptor_len, &ret);
	return ret;
}

static int read_link(struct nc_json *json, json_t *o, void *out)
{
	struct nc_link *link = out;
	const char *state;
	int ret = 0;

	*link = (struct nc_link){
		.agent = nc_text_of(o, "agent", &ret),
		.peer = nc_text_of(o, "peer", &ret),
		.profile = nc_text_of(o, "profile", &ret),
		.generation = nc_number_of(o, "generation", &ret),
		.revision = nc_number_of(o, "revision", &ret),
		.cause = nc_text_or(o, "cause", NULL),
		.age_ms = nc_number_or(o, "age_ms", 0),
		.transport = nc_text_or(o, "transport", NULL),
		.connection_epoch = nc_number_or(o, "connection_epoch", 0),
		.peer_incarnation = nc_text_or(o, "peer_incarnation", NULL),
		.attributes = nc_pairs_of(json, o, "attributes", &ret),
	};
	state = nc_text_of(o, "state", &ret);
	for (int i = 0; i < NC_N_STATES && !ret; i++)
		if (!strcmp(state, nc_state_words[i])) {
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
	return (struct nc_page){ .next = nc_text_or(json->root, "next", NULL),
				 .cursor = nc_text_or(json->root, "cursor", NULL) };
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

static int read_provider(struct nc_json *json, json_t *o, void *out)
{
	struct nc_provider *provider = out;
	int ret = 0;

	*provider = (struct nc_provider){
		.service = nc_text_of(o, "name", &ret),
		.attributes = nc_pairs_of(json, o, "attributes", &ret),
		.agent = nc_text_of(o, "agent", &ret),
		.generation = nc_number_of(o, "generation", &ret),
		.incarnation = nc_text_of(o, "incarnation", &ret),
		.address = nc_text_or(o, "address", ""),
	};
	return ret;
}

int nc_json_providers(struct nc_json *json, struct nc_page *out)
{
	*out = page_of(json);
	return read_array(json, json->root, "services", sizeof(struct nc_provider), read_provider,
			  &out->providers, &out->n);
}

static int read_transports(struct nc_json *json, const json_t *o, struct nc_wanted_link *out)
{
	return read_texts(json, json_object_get(o, "transports"), &out->transports,
			  &out->n_transports);
}

static uint32_t small_or_all(const json_t *o, const char *key)
{
	uint64_t n;

	if (json_is_string(json_object_get(o, key)))
		return NC_RAILS_ALL;
	n = nc_number_or(o, key, 0);
	return n < NC_RAILS_ALL ? (uint32_t)n : NC_RAILS_ALL;
}

static int read_wanted(struct nc_json *json, json_t *o, void *out)
{
	struct nc_wanted_link *link = out;
	int ret = 0;

	*link = (struct nc_wanted_link){
		.peer = nc_text_of(o, "peer", &ret),
		.profile = nc_text_of(o, "profile", &ret),
		.topology = nc_text_of(o, "topology", &ret),
		.qps = small_or_all(o, "qps"),
		.rails = small_or_all(o, "rails"),
		.min_bandwidth = nc_number_or(o, "min_bandwidth", 0),
		.devices = nc_text_or(o, "devices", ""),
		.peer_devices = nc_text_or(o, "peer_devices", ""),
	};
	return ret ? ret : read_transports(json, o, link);
}

int nc_json_wanted(struct nc_json *json, struct nc_wanted *out)
{
	*out = (struct nc_wanted){
		.revision = nc_number_or(json->root, "revision", 0),
		.known = json_is_true(json_object_get(json->root, "known")),
		.next = nc_text_or(json->root, "next", NULL),
	};
	return read_array(json, json->root, "links", sizeof(struct nc_wanted_link), read_wanted,
			  &out->list, &out->n);
}
