/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/expected.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "commands/links_json.h"
#include "commands/rows.h"
#include "model/out.h"
#include "model/topology.h"

struct checking {
	struct out *o;
	struct obs_source *source;
	const char *scope;
	char selector[OBS_TEXT + 8];
	size_t n_problems;
	char *why;
	size_t room;
};

static void add_problem(struct checking *l, const char *text)
{
	char word[2048];

	snprintf(word, sizeof(word), "%s", text);
	out_member(l->o, l->n_problems++ ? "," : "", (struct store_text){ word, strlen(word) });
}

static int read_rows(struct checking *l, const char *kind, struct rows *out)
{
	struct rows_query query = { .kind = kind_find(kind),
				    .scope = l->scope,
				    .selector = l->selector };

	*out = (struct rows){ .n = 0 };
	return rows_read(out, l->source, &query, l->why, l->room);
}

static void compare_labels(struct checking *l, struct json_slice wanted, const struct rows *agents)
{
	struct json_slice key, value;
	struct json_walk w;

	if (!json_walk_init(&w, wanted))
		return;
	while (json_walk_next(&w, &key, &value))
		for (size_t i = 0; i < agents->n; i++) {
			char name[OBS_TEXT], label[OBS_TEXT], want[OBS_TEXT], have[OBS_TEXT];
			char text[5 * OBS_TEXT];

			obs_text(agents->at[i].doc, "name", name, sizeof(name));
			snprintf(label, sizeof(label), "%.*s", (int)key.len - 2, key.at + 1);
			obs_text(wanted, label, want, sizeof(want));
			obs_text(obs_member(agents->at[i].doc, "labels"), label, have,
				 sizeof(have));
			if (!strcmp(want, have))
				continue;
			snprintf(text, sizeof(text), "%s has label %s=%s, and %s is expected", name,
				 label, have, want);
			add_problem(l, text);
		}
}

static const struct row *region_of(const struct rows *regions, const char *agent, const char *name)
{
	char text[OBS_TEXT];

	for (size_t i = 0; i < regions->n; i++) {
		obs_text(regions->at[i].doc, "agent", text, sizeof(text));
		if (strcmp(text, agent) != 0)
			continue;
		obs_text(regions->at[i].doc, "name", text, sizeof(text));
		if (!strcmp(text, name))
			return &regions->at[i];
	}
	return NULL;
}

static void compare_region(struct checking *l, struct json_slice wanted, const char *agent,
			   const struct rows *regions)
{
	char name[OBS_TEXT], size[32], have[OBS_WORD], text[4 * OBS_TEXT];
	const struct row *region;
	uint64_t least = 0;

	obs_text(wanted, "name", name, sizeof(name));
	obs_text(wanted, "min_size", size, sizeof(size));
	region = region_of(regions, agent, name);
	if (!region)
		snprintf(text, sizeof(text), "%s offers no region %s", agent, name);
	else if (model_size(size, &least) && obs_number(region->doc, "size") < least)
		snprintf(text, sizeof(text), "region %s of %s has %s, and %s is expected", name,
			 agent, obs_bytes(obs_number(region->doc, "size"), have), size);
	else
		return;
	add_problem(l, text);
}

static int compare_regions(struct checking *l, struct json_slice wanted, const struct rows *agents)
{
	struct json_slice key, one;
	struct json_walk w;
	struct rows regions;
	char name[OBS_TEXT];
	int ret;

	if (!wanted.at || !agents->n)
		return 0;
	ret = read_rows(l, "regions", &regions);
	for (size_t i = 0; i < agents->n && !ret; i++) {
		obs_text(agents->at[i].doc, "name", name, sizeof(name));
		if (json_walk_init(&w, wanted))
			while (json_walk_next(&w, &key, &one))
				compare_region(l, one, name, &regions);
	}
	rows_clear(&regions);
	return ret;
}

static int check_one(struct checking *l, struct json_slice e)
{
	char who[OBS_TEXT], text[OBS_TEXT + 80];
	struct rows agents;
	uint64_t count;
	int ret;

	obs_text(e, "select", who, sizeof(who));
	count = obs_member(e, "count").at ? obs_number(e, "count") : 1;
	snprintf(l->selector, sizeof(l->selector), "%s", who);
	if (!*who || !strchr(who, '=')) {
		if (!*who)
			obs_text(e, "name", who, sizeof(who));
		snprintf(l->selector, sizeof(l->selector), "name=%s", who);
	}
	ret = read_rows(l, "agents", &agents);
	if (ret)
		return ret;
	l->n_problems = 0;
	links_json_text(l->o, "{", "agents", who);
	links_json_number(l->o, "expected", count);
	links_json_number(l->o, "registered", agents.n);
	out_words(l->o, ",\"problems\":[");
	if (agents.n < count) {
		snprintf(text, sizeof(text), "%" PRIu64 " of %" PRIu64 " are absent",
			 count - agents.n, count);
		add_problem(l, text);
	}
	compare_labels(l, obs_member(e, "labels"), &agents);
	ret = compare_regions(l, obs_member(e, "regions"), &agents);
	out_words(l->o, "]}");
	rows_clear(&agents);
	return ret;
}

int expected_write(struct out *o, struct obs_source *source, const char *scope,
		   struct json_slice topology, char *why, size_t room)
{
	struct checking l = { .o = o, .source = source, .scope = scope, .why = why, .room = room };
	struct json_slice key, one;
	struct json_walk w;
	size_t n = 0;
	int ret = 0;

	out_words(o, "[");
	if (json_walk_init(&w, obs_member(topology, "agents")))
		while (!ret && json_walk_next(&w, &key, &one)) {
			out_words(o, n++ ? "," : "");
			ret = check_one(&l, one);
		}
	out_words(o, "]");
	return ret;
}
