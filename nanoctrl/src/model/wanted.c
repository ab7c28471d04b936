/* SPDX-License-Identifier: Apache-2.0 */
/* Topologies and lists of wanted links, as JSON for clients. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include "model/out.h"
#include "model/json_path.h"
#include "model/topology.h"
#include "text/json_slice.h"

static void out_number(struct out *o, const char *before, uint64_t n)
{
	char text[24];

	out_words(o, before);
	snprintf(text, sizeof(text), "%" PRIu64, n);
	out_words(o, text);
}

static void out_text(struct out *o, const char *before, const char *text)
{
	out_member(o, before, (struct store_text){ text, strlen(text) });
}

/* ---- topologies ---- */

static void out_topology(struct out *o, const struct store_topology *t)
{
	out_text(o, "{\"name\":", t->name);
	out_number(o, ",\"revision\":", t->revision);
	out_number(o, ",\"created\":", t->created);
	out_number(o, ",\"changed_at_ms\":", t->changed_at_ms);
	out_words(o, ",\"result\":");
	out_json(o, t->report);
	out_words(o, ",\"topology\":");
	out_json(o, t->doc);
	out_words(o, "}");
}

static void out_head(struct out *o, const char *scope, const struct store_topologies *t)
{
	out_text(o, "{\"status\":\"ok\",\"scope\":", scope);
	out_number(o, ",\"now_ms\":", t->now_ms);
	out_number(o, ",\"revision\":", t->revision);
}

char *model_topologies(const char *scope, const struct store_topologies *t)
{
	struct out o = { .at = NULL };

	out_head(&o, scope, t);
	out_words(&o, ",\"topologies\":[");
	for (size_t i = 0; i < t->n; i++) {
		out_words(&o, i ? "," : "");
		out_topology(&o, &t->list[i]);
	}
	out_words(&o, "]}");
	return out_finish(&o);
}

char *model_topology(const char *scope, const struct store_topologies *t, const char *name)
{
	struct out o = { .at = NULL };
	size_t i = 0;

	while (i < t->n && strcmp(t->list[i].name, name) != 0)
		i++;
	if (i == t->n)
		return NULL;
	out_head(&o, scope, t);
	out_words(&o, ",\"topology\":");
	out_topology(&o, &t->list[i]);
	out_words(&o, "}");
	return out_finish(&o);
}

char *model_topology_report(const struct expanded_topology *t, uint64_t revision)
{
	static const char *const states[] = { [TOPOLOGY_OK] = "ok",
					      [TOPOLOGY_WAITING] = "waiting",
					      [TOPOLOGY_CONFLICTED] = "Conflicted",
					      [TOPOLOGY_TOO_MANY_LINKS] = "TooManyLinks" };
	struct out o = { .at = NULL };

	out_text(&o, "{\"state\":", states[t->state]);
	out_number(&o, ",\"revision\":", revision);
	out_number(&o, ",\"links\":", t->n_links);
	out_number(&o, ",\"conflicts\":", t->n_conflicts);
	out_number(&o, ",\"absent\":", t->n_absent);
	out_number(&o, ",\"n_notes\":", t->n_notes);
	out_words(&o, ",\"notes\":[");
	for (size_t i = 0; i < t->n_notes && i < EXPANDED_NOTES_MAX; i++)
		out_text(&o, i ? "," : "", t->notes[i]);
	out_words(&o, "]}");
	return out_finish(&o);
}

/* ---- labels ---- */

int model_labels(struct store_text labels, struct topology_label **out, size_t *n, void **memory)
{
	json_error_t why;
	json_t *root = labels.len ? json_path_parse(labels.at, labels.len, 0, &why) : NULL, *value;
	const char *key;

	*n = 0;
	*memory = NULL;
	*out = calloc(json_object_size(root) + 1, sizeof(**out));
	if (!*out) {
		json_decref(root);
		return -ENOMEM;
	}
	if (labels.len && !json_is_object(root))
		model_note_junk();
	json_object_foreach(root, key, value) if (json_is_string(value))(*out)[(*n)++] =
		(struct topology_label){ key, json_string_value(value) };
	*memory = root;
	return 0;
}

void model_labels_fini(struct topology_label *labels, void *memory)
{
	free(labels);
	json_decref(memory);
}

/* ---- lists ---- */

/* turned: as the other end of the wish has it. */
static void out_params(struct out *o, const struct topology_params *p, bool turned)
{
	const char *devices = turned ? p->peer_devices : p->devices;
	const char *peer_devices = turned ? p->devices : p->peer_devices;

	out_text(o, ",\"profile\":", p->profile);
	for (int i = 0; i < TOPOLOGY_N_TRANSPORTS && p->transports[i]; i++)
		out_text(o, i ? "," : ",\"transports\":[", p->transports[i]);
	out_words(o, p->transports[0] ? "]" : "");
	if (p->qps)
		out_number(o, ",\"qps\":", p->qps);
	if (p->rails == TOPOLOGY_RAILS_ALL)
		out_words(o, ",\"rails\":\"all\"");
	else if (p->rails)
		out_number(o, ",\"rails\":", p->rails);
	if (p->min_bandwidth)
		out_number(o, ",\"min_bandwidth\":", p->min_bandwidth);
	if (devices)
		out_text(o, ",\"devices\":", devices);
	if (peer_devices)
		out_text(o, ",\"peer_devices\":", peer_devices);
}

char *model_wanted_list(const char *agent, const struct expanded_link *const *links, size_t n)
{
	struct out o = { .at = NULL };

	out_words(&o, "[");
	for (size_t i = 0; i < n; i++) {
		const struct expanded_link *l = links[i];

		bool is_lower = !strcmp(l->lower, agent);

		out_words(&o, i ? "," : "");
		out_text(&o, "{\"peer\":", is_lower ? l->upper : l->lower);
		out_params(&o, l->params, is_lower == l->from_upper);
		out_text(&o, ",\"topology\":", l->topology->name);
		out_words(&o, "}");
	}
	out_words(&o, "]");
	return out_finish(&o);
}

/* Elements from `from` on, at most `limit` of them. Whether there are more. */
static bool out_part(struct out *o, struct store_text list, uint64_t from, uint64_t limit)
{
	struct json_slice key, one;
	struct json_walk w;
	uint64_t i = 0;

	out_words(o, "[");
	if (!json_walk_init(&w, (struct json_slice){ list.at, list.len }))
		list.len = 0;
	while (list.len && i < from + limit && json_walk_next(&w, &key, &one)) {
		if (i >= from) {
			out_words(o, i > from ? "," : "");
			out_bytes(o, one.at, one.len);
		}
		i++;
	}
	out_words(o, "]");
	return list.len && json_walk_next(&w, &key, &one);
}

char *model_wanted(const struct store_wanted *w, uint64_t from, uint64_t limit)
{
	struct out o = { .at = NULL };

	out_number(&o, "{\"status\":\"ok\",\"revision\":", w->revision);
	out_words(&o, w->known ? ",\"known\":true,\"links\":" : ",\"known\":false,\"links\":");
	if (out_part(&o, w->list, from, limit)) {
		out_number(&o, ",\"next\":\"", w->revision);
		out_number(&o, ":", from + limit);
		out_words(&o, "\"}");
	} else {
		out_words(&o, ",\"next\":null}");
	}
	return out_finish(&o);
}

char *model_wanted_lists(const char *scope, const struct store_wanted *lists, size_t n,
			 const char *next)
{
	struct out o = { .at = NULL };

	out_text(&o, "{\"status\":\"ok\",\"scope\":", scope);
	out_words(&o, ",\"wanted\":[");
	for (size_t i = 0; i < n; i++) {
		out_text(&o, i ? ",{\"agent\":" : "{\"agent\":", lists[i].agent);
		out_number(&o, ",\"revision\":", lists[i].revision);
		out_words(&o, ",\"links\":");
		out_json(&o, lists[i].list);
		out_words(&o, "}");
	}
	out_words(&o, "],\"next\":");
	out_words(&o, strcmp(next, "0") ? "\"" : "null}");
	if (strcmp(next, "0") != 0) {
		out_words(&o, next);
		out_words(&o, "\"}");
	}
	return out_finish(&o);
}

static const struct topology *topology_named(const struct topology *t, size_t n, const char *name)
{
	for (size_t i = 0; name && i < n; i++)
		if (!strcmp(t[i].name, name))
			return &t[i];
	return NULL;
}

/* The entry in the list of one end; the other end has it as well. */
static bool read_link(const char *agent, const json_t *o, const struct topology *topologies,
		      size_t n, struct topology_params *params, struct expanded_link *out)
{
	const char *peer = json_string_value(json_object_get(o, "peer"));
	const json_t *rails = json_object_get(o, "rails"), *item;
	size_t i;

	out->topology =
		topology_named(topologies, n, json_string_value(json_object_get(o, "topology")));
	params->profile = json_string_value(json_object_get(o, "profile"));
	if (!peer || !out->topology || !params->profile)
		return false;
	json_array_foreach(json_object_get(o, "transports"), i, item) if (i < TOPOLOGY_N_TRANSPORTS)
		params->transports[i] = json_string_value(item);
	params->qps = (uint32_t)json_integer_value(json_object_get(o, "qps"));
	params->rails =
		json_is_string(rails) ? TOPOLOGY_RAILS_ALL : (uint32_t)json_integer_value(rails);
	params->min_bandwidth = (uint64_t)json_integer_value(json_object_get(o, "min_bandwidth"));
	params->devices = json_string_value(json_object_get(o, "devices"));
	params->peer_devices = json_string_value(json_object_get(o, "peer_devices"));
	out->from_upper = strcmp(agent, peer) > 0;
	out->lower = strcmp(agent, peer) < 0 ? agent : peer;
	out->upper = strcmp(agent, peer) < 0 ? peer : agent;
	out->params = params;
	return true;
}

int model_wanted_links(const struct store_wanted *lists, size_t n_lists,
		       const struct topology *topologies, size_t n, struct expanded_link **out,
		       size_t *n_out, void **memory)
{
	json_t *roots = json_array(), *root, *item;
	struct topology_params *params;
	size_t total = 0, i, j;

	*n_out = 0;
	*out = NULL;
	*memory = roots;
	for (i = 0; roots && i < n_lists; i++) {
		json_error_t why;

		root = json_path_parse(lists[i].list.at, lists[i].list.len, 0, &why);
		if (json_array_append_new(roots, root ? root : json_array()))
			return -ENOMEM;
		total += json_array_size(json_array_get(roots, i));
	}
	/* The parameters of all of them are behind the links. */
	*out = calloc(total + 1, sizeof(**out) + sizeof(*params));
	if (!roots || !*out)
		return -ENOMEM;
	params = (struct topology_params *)(void *)(*out + total + 1);
	json_array_foreach(roots, i, root) json_array_foreach(
		root, j, item) if (read_link(lists[i].agent, item, topologies, n, &params[*n_out],
					     &(*out)[*n_out]))++ *n_out;
	return 0;
}

void model_links_fini(struct expanded_link *links, void *memory)
{
	free(links);
	json_decref(memory);
}
