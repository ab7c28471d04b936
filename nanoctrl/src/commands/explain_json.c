/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "commands/explain.h"
#include "text/json_text.h"
#include "commands/links_json.h"

static void print_agent(const struct explanation *x)
{
	const struct explain_agent *a = &x->agent;

	links_json_text("", "name", a->name);
	links_json_text(",", "scope", x->scope);
	links_json_text(",", "state", explain_life_names[a->life]);
	printf(",\"registered\":%s", a->registered ? "true" : "false");
	if (a->registered) {
		links_json_text(",", "incarnation", a->incarnation);
		printf(",\"generation\":%" PRIu64, a->generation);
		links_json_text(",", "address", a->address);
		printf(",\"registered_at_ms\":%" PRIu64 ",\"lease_left_ms\":%" PRId64
		       ",\"session\":%s",
		       a->registered_at_ms, a->lease_left_ms, a->session ? "true" : "false");
	}
	if (a->snapshot) {
		links_json_text(",", "host", a->snapshot->host);
		printf(",\"pid\":%" PRIu64 ",\"uptime_ms\":%" PRIu64
		       ",\"snapshot_age_ms\":%" PRIu64,
		       a->snapshot->pid, obs_number(a->snapshot->doc, "uptime_ms"),
		       a->snapshot->age_ms);
	}
}

/* "shm,tcp" as an array. */
static void print_list(const char *name, const char *words)
{
	char word[64], shown[6 * sizeof(word)];
	const char *comma = "";

	printf(",\"%s\":[", name);
	while (*words) {
		size_t len = strcspn(words, ",");

		snprintf(word, sizeof(word), "%.*s", (int)len, words);
		json_text(shown, sizeof(shown), word);
		printf("%s%s", comma, shown);
		comma = ",";
		words += len + (words[len] == ',');
	}
	printf("]");
}

static void print_end(const char *name, const struct links_end *e)
{
	printf(",\"%s\":", name);
	if (!e) {
		printf("null");
		return;
	}
	printf("{");
	links_json_members(e);
	if (e->story) {
		print_list("transports", e->story->transports);
		links_json_text(",", "source", e->story->source);
		links_json_text(",", "order", e->story->order);
		links_json_text(",", "passed_over", e->story->passed_over);
		links_json_text(",", "no_foreign_memory", e->story->no_foreign_memory);
		links_json_text(",", "last_error", e->story->last_error);
		printf(",\"connects\":%" PRIu64 ",\"failures\":%" PRIu64, e->story->n_connects,
		       e->story->n_failures);
	}
	printf("}");
}

void explain_print_json(const struct explanation *x)
{
	printf("{\"agent\":{");
	print_agent(x);
	printf("},\"links\":[");
	for (size_t i = 0; i < x->n; i++) {
		const struct explain_link *k = &x->links[i];

		printf("%s\n {", i ? "," : "");
		links_json_text("", "peer", k->peer);
		links_json_text(",", "profile", k->profile);
		links_json_text(",", "peer_state", explain_life_names[k->peer_life]);
		printf(",\"agree\":%s", explain_ends_agree(k) ? "true" : "false");
		print_end("own", k->own);
		print_end("other", k->other);
		printf("}");
	}
	printf("%s]}\n", x->n ? "\n" : "");
}
