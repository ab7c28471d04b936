/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "commands/explain.h"
#include "commands/links_json.h"
#include "model/out.h"
#include "text/json_text.h"

static void add_flag(struct out *o, const char *name, bool on)
{
	out_words(o, ",\"");
	out_words(o, name);
	out_words(o, on ? "\":true" : "\":false");
}

static void add_agent(struct out *o, const struct explanation *x)
{
	const struct explain_agent *a = &x->agent;
	char word[64];

	links_json_text(o, "", "name", a->name);
	links_json_text(o, ",", "scope", x->scope);
	links_json_text(o, ",", "state", explain_life_names[a->life]);
	add_flag(o, "registered", a->registered);
	if (a->registered) {
		links_json_text(o, ",", "incarnation", a->incarnation);
		links_json_number(o, "generation", a->generation);
		links_json_text(o, ",", "address", a->address);
		links_json_number(o, "registered_at_ms", a->registered_at_ms);
		snprintf(word, sizeof(word), ",\"lease_left_ms\":%" PRId64, a->lease_left_ms);
		out_words(o, word);
		add_flag(o, "session", a->session);
	}
	if (a->snapshot) {
		links_json_text(o, ",", "host", a->snapshot->host);
		links_json_number(o, "pid", a->snapshot->pid);
		links_json_number(o, "uptime_ms", obs_number(a->snapshot->doc, "uptime_ms"));
		links_json_number(o, "snapshot_age_ms", a->snapshot->age_ms);
	}
}

/* "shm,tcp" as an array. */
static void add_list(struct out *o, const char *name, const char *words)
{
	char word[64], shown[6 * sizeof(word)];
	const char *comma = "";

	out_words(o, ",\"");
	out_words(o, name);
	out_words(o, "\":[");
	while (*words) {
		size_t len = strcspn(words, ",");

		snprintf(word, sizeof(word), "%.*s", (int)len, words);
		json_text(shown, sizeof(shown), word);
		out_words(o, comma);
		out_words(o, shown);
		comma = ",";
		words += len + (words[len] == ',');
	}
	out_words(o, "]");
}

static void add_end(struct out *o, const char *before, const struct links_end *e)
{
	out_words(o, before);
	if (!e) {
		out_words(o, "null");
		return;
	}
	out_words(o, "{");
	links_json_members(o, e);
	if (e->story) {
		add_list(o, "transports", e->story->transports);
		links_json_text(o, ",", "order", e->story->order);
		links_json_text(o, ",", "passed_over", e->story->passed_over);
		links_json_text(o, ",", "no_foreign_memory", e->story->no_foreign_memory);
		links_json_text(o, ",", "last_error", e->story->last_error);
		links_json_number(o, "max_bandwidth", e->story->max_bandwidth);
		links_json_number(o, "connects", e->story->n_connects);
		links_json_number(o, "failures", e->story->n_failures);
	}
	out_words(o, "}");
}

int explain_print_json(const struct explanation *x)
{
	struct out o = { .at = NULL };

	out_words(&o, "{\"agent\":{");
	add_agent(&o, x);
	out_words(&o, "},\"links\":[");
	for (size_t i = 0; i < x->n; i++) {
		const struct explain_link *k = &x->links[i];

		out_words(&o, i ? ",\n {" : "\n {");
		links_json_text(&o, "", "peer", k->peer);
		links_json_text(&o, ",", "profile", k->profile);
		links_json_text(&o, ",", "peer_state", explain_life_names[k->peer_life]);
		add_flag(&o, "agree", explain_ends_agree(k));
		add_end(&o, ",\"own\":", k->own);
		add_end(&o, ",\"other\":", k->other);
		out_words(&o, "}");
	}
	out_words(&o, x->n ? "\n]}\n" : "]}\n");
	return links_json_print(&o);
}
