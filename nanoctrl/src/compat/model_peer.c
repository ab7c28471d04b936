/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of the compatible routes about agents and their memory. */
#include <stdlib.h>
#include <string.h>
#include <base/utf8.h>
#include "text/json_slice.h"
#include "compat/model.h"

static struct store_text text_of(const char *s)
{
	return (struct store_text){ s, strlen(s) };
}

char *compat_started(const struct compat_request *r, struct store_text name, const char *redis)
{
	struct out o = { .at = NULL };

	out_member(&o, "{\"status\":\"ok\",\"name\":", name);
	out_member(&o, ",\"redis_address\":", text_of(redis));
	if (r->resource.at) {
		out_words(&o, ",\"resource\":");
		out_json(&o, r->resource);
	}
	out_words(&o, "}");
	return out_finish(&o);
}

char *compat_redis(const char *address)
{
	struct out o = { .at = NULL };

	out_words(&o, "{\"status\":\"ok\",\"redis_address\":\"redis://");
	out_escaped(&o, text_of(address));
	out_words(&o, "\"}");
	return out_finish(&o);
}

/* A text that an agent may have written itself: as it is if it is valid, else counted and replaced.
 */
static struct store_text checked(struct store_text t, bool fine, const char *otherwise)
{
	if (t.len && fine)
		return t;
	if (t.len)
		model_note_junk();
	return text_of(otherwise);
}

static struct store_text checked_text(struct store_text t)
{
	return checked(t, sl_utf8_valid(t.at, t.len), "");
}

static void put_peer(struct out *o, const struct store_peer *p)
{
	struct json_slice port = { p->port.at, p->port.len };
	struct store_text resource = p->resource.len ? p->resource : p->topology;
	uint64_t n;

	out_member(o, "{\"name\":", p->name);
	out_member(o, ",\"device\":", checked_text(p->device));
	out_words(o, ",\"ib_port\":");
	out_json(o, checked(p->port, p->port.len && json_u64(port, UINT32_MAX, &n), "1"));
	out_member(o, ",\"link_type\":", checked_text(p->link_type));
	out_member(o, ",\"address\":", checked_text(p->address));
	out_words(o, ",\"resource\":");
	out_json(o, checked(resource, compat_is_json(resource, 0), ""));
	out_words(o, ",\"memory_keys\":");
	out_json(o, checked(p->memory_keys, compat_is_json(p->memory_keys, '['), "[]"));
	out_words(o, "}");
}

void compat_peers(struct out *o, const struct store_peer_list *found)
{
	for (size_t i = 0; i < found->n; i++) {
		if (!sl_utf8_valid(found->peers[i].name.at, found->peers[i].name.len)) {
			model_note_junk();
			continue;
		}
		out_words(o, o->len ? "," : "[");
		put_peer(o, &found->peers[i]);
	}
	if (!found->more)
		out_words(o, o->len ? "]" : "[]");
}

char *compat_spec(const struct compat_request *r)
{
	struct out o = { .at = NULL };

	out_words(&o, "{\"target_peers\":[");
	for (size_t i = 0; i < r->n_targets; i++)
		out_member(&o, i ? "," : "", r->targets[i]);
	out_words(&o, "],\"min_bw\":");
	if (r->min_bw.at)
		out_member(&o, "", r->min_bw);
	else
		out_words(&o, "null");
	out_words(&o, ",\"symmetric\":");
	out_json(&o, r->symmetric);
	out_words(&o, ",\"scope\":");
	if (r->scope.len)
		out_member(&o, "", r->scope);
	else
		out_words(&o, "null");
	out_words(&o, "}");
	return out_finish(&o);
}

static char *put_numbers(const char *before, const struct store_text value[4],
			 const char *const names[4], const char *behind)
{
	struct out o = { .at = NULL };

	out_words(&o, before);
	for (int i = 0; i < 4; i++) {
		out_words(&o, names[i]);
		out_json(&o, value[i]);
	}
	out_words(&o, behind);
	return out_finish(&o);
}

char *compat_mr(const struct compat_request *r)
{
	static const char *const names[] = { "\"addr\":", ",\"length\":", ",\"lkey\":",
					     ",\"rkey\":" };

	return put_numbers("{", (struct store_text[]){ r->addr, r->length, r->lkey, r->rkey },
			   names, "}");
}

/* Numbers that are there and in their range; false: what is stored is no region. */
static bool read_mr(struct store_text stored, struct store_text value[4])
{
	static const char *const keys[] = { "\"addr\"", "\"length\"", "\"rkey\"", "\"lkey\"" };
	static const uint64_t max[] = { UINT64_MAX, UINT64_MAX, UINT32_MAX, UINT32_MAX };
	struct json_slice key, v;
	struct json_walk w;
	unsigned seen = 0;
	uint64_t n;

	if (!compat_is_json(stored, '{') || !json_walk_init(&w, json_first(stored.at, stored.len)))
		return false;
	while (json_walk_next(&w, &key, &v)) {
		for (unsigned i = 0; i < 4; i++) {
			if (!json_is(key, keys[i]))
				continue;
			if (!json_u64(v, max[i], &n))
				return false;
			value[i] = (struct store_text){ v.at, v.len };
			seen |= 1u << i;
		}
	}
	return seen == 15;
}

char *compat_mr_info(const struct store_entities *found)
{
	static const char *const names[] = { "\"addr\":", ",\"length\":", ",\"rkey\":",
					     ",\"lkey\":" };
	struct store_text value[4];
	struct out none = { .at = NULL };

	if (found && read_mr(found->info[0], value))
		return put_numbers("{\"mr_info\":{", value, names, "}}");
	if (found)
		model_note_junk();
	out_words(&none, "{\"mr_info\":null}");
	return out_finish(&none);
}
