/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots: what an agent may say of what it does, and what is told of all of them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include <base/utf8.h>
#include "text/json_slice.h"
#include "model/model.h"
#include "model/out.h"
#include "model/json_path.h"
#include "store/store.h"

#define TEXT_MAX	1024
#define NICS_MAX	16
#define CONNECTIONS_MAX 1024
#define DOC_MAX		(256 * 1024)
#define DEPTH_MAX	32
#define INTERVAL_MAX_MS 3600000
#define TTL_LEAST_MS	180000 /* as agents of DLSlime's NanoCtrl have it */

/* Members that nanoctrl sets, in place of those of the body. */
static const char *const ours[] = { "schema_version", "reported_at_ms", "peer_id", "status",
				    "registered" };

/* ---- one ---- */

static int check_objects(const struct json_path *p, const char *name, size_t max)
{
	json_t *array, *item;
	struct json_path in;
	size_t i;
	int ret = json_path_member(p, name, OPTIONAL, JSON_ARRAY, &array);

	if (ret || !array)
		return ret;
	if (json_array_size(array) > max)
		return json_path_refuse(p, "bad_value", name, "are more than %zu", max);
	json_array_foreach(array, i, item)
	{
		json_path_element(p, name, i, item, &in);
		if (!json_is_object(item))
			return json_path_bad_type(&in, "", "an object");
	}
	return 0;
}

static int check(const struct json_path *p, uint64_t *interval_ms)
{
	static const char *const texts[] = { "session_id", "host" };
	static const char *const numbers[] = { "pid", "uptime_ms", "rss_bytes" };
	const char *text = NULL;
	uint64_t n = 0;
	json_t *summary;
	int ret = json_path_number(p, "interval_ms", REQUIRED, 1, interval_ms);

	if (!ret && *interval_ms > INTERVAL_MAX_MS)
		ret = json_path_bad_value(p, "interval_ms", "at most an hour");
	for (size_t i = 0; !ret && i < sizeof(texts) / sizeof(*texts); i++)
		ret = json_path_text(p, texts[i], OPTIONAL, TEXT_MAX, &text);
	for (size_t i = 0; !ret && i < sizeof(numbers) / sizeof(*numbers); i++)
		ret = json_path_number(p, numbers[i], OPTIONAL, 0, &n);
	if (!ret)
		ret = json_path_member(p, "summary", REQUIRED, JSON_OBJECT, &summary);
	if (!ret)
		ret = check_objects(p, "nics", NICS_MAX);
	return ret ? ret : check_objects(p, "connections", CONNECTIONS_MAX);
}

static int make_doc(const struct json_path *p, const char *agent, struct model_snapshot *out)
{
	for (size_t i = 0; i < sizeof(ours) / sizeof(*ours); i++)
		json_object_del(p->in, ours[i]);
	if (json_object_set_new(p->in, "peer_id", json_string(agent)))
		return json_path_no_memory(p);
	out->text = json_dumps(p->in, JSON_COMPACT);
	if (!out->text)
		return json_path_no_memory(p);
	out->doc = (struct store_text){ out->text, strlen(out->text) };
	if (out->doc.len <= DOC_MAX)
		return 0;
	model_snapshot_fini(out);
	return json_path_refuse(p, "bad_value", "", "the body is longer than %d bytes", DOC_MAX);
}

int model_parse_snapshot(const char *body, size_t len, const char *agent,
			 struct model_snapshot *out, struct model_error *err)
{
	uint64_t interval_ms = 0;
	struct json_path p;
	int ret = json_path_load(&p, body, len, err);

	*out = (struct model_snapshot){ .text = NULL };
	if (!ret)
		ret = check(&p, &interval_ms);
	if (!ret)
		ret = make_doc(&p, agent, out);
	if (!ret)
		out->ttl_ms =
			3 * interval_ms > TTL_LEAST_MS ? (uint32_t)(3 * interval_ms) : TTL_LEAST_MS;
	json_decref(p.in);
	return ret;
}

void model_snapshot_fini(struct model_snapshot *m)
{
	free(m->text);
	*m = (struct model_snapshot){ .text = NULL };
}

/* ---- all ---- */

bool model_is_snapshot(struct store_text doc)
{
	json_error_t why;
	json_t *v = !doc.len || json_too_deep(doc.at, doc.len, DEPTH_MAX)
			    ? NULL
			    : json_path_parse(doc.at, doc.len,
					      JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &why);
	bool fits = json_is_object(v);

	json_decref(v);
	return fits;
}

/* The document, with whether its agent is registered as its first member. Documents of native
 * agents begin so; another one was written by others. */
static void out_snapshot(struct out *o, struct store_text doc, enum store_registered registered)
{
	if (registered == STORE_REGISTERED_UNKNOWN || doc.len < 2 ||
	    memcmp(doc.at, "{\"", 2) != 0) {
		out_bytes(o, doc.at, doc.len);
		return;
	}
	out_words(o, registered == STORE_REGISTERED_YES ? "{\"registered\":true,"
							: "{\"registered\":false,");
	out_bytes(o, doc.at + 1, doc.len - 1);
}

char *model_snapshots(const struct store_snapshots *page, const char *selector)
{
	struct out o = { .at = NULL };
	const char *comma = "";
	char now[32];

	snprintf(now, sizeof(now), "%" PRIu64, page->now_ms);
	out_words(&o, "{\"status\":\"ok\",\"now_ms\":");
	out_words(&o, now);
	out_words(&o, ",\"snapshots\":[");
	for (size_t i = 0; i < page->n; i++) {
		if (selector && !model_selector_matches(selector, &page->owners[i]))
			continue;
		if (!model_is_snapshot(page->docs[i])) {
			model_note_junk();
			continue;
		}
		out_words(&o, comma);
		out_snapshot(&o, page->docs[i], page->registered[i]);
		comma = ",";
	}
	out_words(&o, "],\"next\":");
	if (page->next.len && sl_utf8_valid(page->next.at, page->next.len))
		out_member(&o, "", page->next);
	else
		out_words(&o, "null");
	out_words(&o, "}");
	return out_finish(&o);
}
