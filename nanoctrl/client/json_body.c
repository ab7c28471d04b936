/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of requests. A member that could not be made fails the whole at the end. */
#include <openssl/evp.h>
#include <stdlib.h>

#include "nanoctrl/client/json_member.h"

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

static void put_services(struct body *b, const struct nc_service *list, size_t n)
{
	json_t *services = json_array();

	for (size_t i = 0; i < n; i++) {
		json_t *service = json_object();

		put_text(b, service, "name", list[i].name);
		put_pairs(b, service, "attributes", list[i].attributes);
		append(b, services, service);
	}
	put(b, b->root, "services", services);
}

char *nc_json_registration(const struct nc_registration *r, bool again, uint64_t epoch,
			   uint64_t generation)
{
	struct body b = { .root = json_object() };

	put_text(&b, b.root, "incarnation", r->incarnation);
	put_text(&b, b.root, "owner_key", r->owner_key);
	put_text(&b, b.root, "address", r->address);
	put_pairs(&b, b.root, "labels", r->labels);
	put_pairs(&b, b.root, "attributes", r->attributes);
	put_services(&b, r->services, r->n_services);
	if (again) {
		json_t *previous = json_object();

		put_number(&b, previous, "epoch", epoch);
		put_number(&b, previous, "generation", generation);
		put(&b, b.root, "previous", previous);
	}
	return finish(&b);
}

char *nc_json_change(const struct nc_change *change)
{
	struct body b = { .root = json_object() };

	put_number(&b, b.root, "revision", change->revision);
	put_text(&b, b.root, "address", change->address);
	if (change->labels)
		put_pairs(&b, b.root, "labels", *change->labels);
	if (change->attributes)
		put_pairs(&b, b.root, "attributes", *change->attributes);
	if (change->services || change->no_services)
		put_services(&b, change->services, change->n_services);
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
	put_text(&b, b.root, "state", nc_state_words[link->state]);
	put_text(&b, b.root, "cause", link->cause);
	put_number(&b, b.root, "age_ms", link->age_ms);
	put_text(&b, b.root, "transport", link->transport);
	if (link->connection_epoch)
		put_number(&b, b.root, "connection_epoch", link->connection_epoch);
	put_text(&b, b.root, "peer_incarnation", link->peer_incarnation);
	if (link->attributes.n)
		put_pairs(&b, b.root, "attributes", link->attributes);
	return finish(&b);
}

char *nc_json_beat(const char *cursor)
{
	struct body b = { .root = json_object() };

	put_text(&b, b.root, "type", "beat");
	put_text(&b, b.root, "cursor", cursor);
	return finish(&b);
}
