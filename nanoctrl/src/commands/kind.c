/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/kind.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/obs_snapshot.h"

/* ---- the table ---- */

static const struct kind_column topology_columns[] = {
	{ "NAME", "name", CELL_TEXT, false },
	{ "STATE", "result.state", CELL_TEXT, false },
	{ "LINKS", "result.links", CELL_NUMBER, false },
	{ "ABSENT", "result.absent", CELL_NUMBER, false },
	{ "CONFLICTS", "result.conflicts", CELL_NUMBER, false },
	{ "REVISION", "revision", CELL_NUMBER, false },
	{ "CHANGED", "changed_at_ms", CELL_SINCE, false },
	{ "NOTE", "result.notes", CELL_FIRST, false },
	{ NULL, NULL, CELL_TEXT, false },
};

static const struct kind_column agent_columns[] = {
	{ "NAME", "name", CELL_TEXT, false },
	{ "STATE", "session", CELL_HOLDER, false },
	{ "ADDRESS", "address", CELL_TEXT, false },
	{ "LABELS", "labels", CELL_PAIRS, false },
	{ "SERVICES", "services", CELL_NAMES, false },
	{ "REGISTERED", "registered_at_ms", CELL_SINCE, false },
	{ "LEASE", "lease_left_ms", CELL_AGE, true },
	{ "GENERATION", "generation", CELL_NUMBER, true },
	{ "INCARNATION", "incarnation", CELL_TEXT, true },
	{ NULL, NULL, CELL_TEXT, false },
};

static const struct kind_column link_columns[] = {
	{ "AGENT", "agent", CELL_TEXT, false },
	{ "PEER", "peer", CELL_TEXT, false },
	{ "PROFILE", "profile", CELL_TEXT, false },
	{ "STATE", "state", CELL_TEXT, false },
	{ "TRANSPORT", "transport", CELL_TEXT, false },
	{ "SINCE", "age_ms", CELL_AGE, false },
	{ "SOURCE", "source", CELL_TEXT, false },
	{ "NIC", "local_nic", CELL_TEXT, true },
	{ "PEER NIC", "remote_nic", CELL_TEXT, true },
	{ "BW", "ewma_bandwidth_bps", CELL_RATE, true },
	{ "BYTES", "completed_bytes_total", CELL_BYTES, true },
	{ "PENDING", "pending_ops", CELL_NUMBER, true },
	{ "ERRORS", "error_total", CELL_NUMBER, true },
	{ "CAUSE", "cause", CELL_TEXT, false },
	{ NULL, NULL, CELL_TEXT, false },
};

static const struct kind_column region_columns[] = {
	{ "AGENT", "agent", CELL_TEXT, false },
	{ "NAME", "name", CELL_TEXT, false },
	{ "SIZE", "size", CELL_BYTES, false },
	{ "ACCESS", "access", CELL_LIST, false },
	{ "GENERATION", "generation", CELL_NUMBER, false },
	{ "ALLOW", "allow", CELL_LIST, false },
	{ "REVISION", "revision", CELL_NUMBER, true },
	{ "INCARNATION", "incarnation", CELL_TEXT, true },
	{ "ATTRIBUTES", "attributes", CELL_PAIRS, true },
	{ NULL, NULL, CELL_TEXT, false },
};

static const struct kind_column service_columns[] = {
	{ "NAME", "name", CELL_TEXT, false },
	{ "AGENT", "agent", CELL_TEXT, false },
	{ "ADDRESS", "address", CELL_TEXT, false },
	{ "ATTRIBUTES", "attributes", CELL_PAIRS, false },
	{ "GENERATION", "generation", CELL_NUMBER, true },
	{ "INCARNATION", "incarnation", CELL_TEXT, true },
	{ NULL, NULL, CELL_TEXT, false },
};

static const struct kind_column event_columns[] = {
	{ "AGE", "at_ms", CELL_SINCE, false },
	{ "TYPE", "type", CELL_TEXT, false },
	{ "ABOUT", "agent|topology|from", CELL_TEXT, false },
	{ "OBJECT", "region|profile", CELL_TEXT, false },
	{ "GENERATION", "generation", CELL_NUMBER, true },
	{ "REVISION", "revision", CELL_NUMBER, true },
	{ "CURSOR", "cursor", CELL_TEXT, true },
	{ NULL, NULL, CELL_TEXT, false },
};

static const struct kind_column scope_columns[] = {
	{ "NAME", "name", CELL_TEXT, false },
	{ "AGENTS", "agents", CELL_NUMBER, false },
	{ "TOPOLOGIES", "topologies", CELL_NUMBER, false },
	{ NULL, NULL, CELL_TEXT, false },
};

static const struct kind kinds[] = {
	{ .name = "topologies", .one = "topology", .id = { "name" }, .columns = topology_columns },
	{ .name = "agents",
	  .one = "agent",
	  .id = { "name" },
	  .who = { "name" },
	  .labels = true,
	  .columns = agent_columns },
	{ .name = "links",
	  .one = "link",
	  .id = { "agent", "peer", "profile" },
	  .who = { "agent", "peer" },
	  .labels = true,
	  .columns = link_columns },
	{ .name = "regions",
	  .one = "region",
	  .id = { "agent", "name" },
	  .who = { "agent" },
	  .labels = true,
	  .columns = region_columns },
	{ .name = "services",
	  .one = "service",
	  .id = { "name", "agent" },
	  .who = { "agent" },
	  .labels = true,
	  .columns = service_columns },
	{ .name = "events",
	  .one = "event",
	  .id = { "cursor" },
	  .who = { "agent", "from", "to" },
	  .last = 1000,
	  .columns = event_columns },
	{ .name = "scopes",
	  .one = "scope",
	  .id = { "name" },
	  .scanned = true,
	  .columns = scope_columns },
};

const struct kind *kind_find(const char *name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(kinds[i].name, name) || !strcmp(kinds[i].one, name))
			return &kinds[i];
	return NULL;
}

/* ---- cells ---- */

/* The member of one path without '|'. */
static struct json_slice follow(struct json_slice at, const char *path, size_t len)
{
	while (len && at.at) {
		char name[32];
		size_t part = 0;

		while (part < len && path[part] != '.')
			part++;
		snprintf(name, sizeof(name), "%.*s", (int)part, path);
		at = obs_member(at, name);
		part += part < len;
		path += part;
		len -= part;
	}
	return at;
}

static struct json_slice find(struct json_slice row, const char *path)
{
	struct json_slice at = { NULL, 0 };

	while (*path && !at.at) {
		size_t len = strcspn(path, "|");

		at = follow(row, path, len);
		path += len + (path[len] == '|');
	}
	return at;
}

struct text {
	char *at;
	size_t len, room;
};

static void add(struct text *t, const char *words)
{
	int n = snprintf(t->at + t->len, t->room - t->len, "%s", words);

	t->len += (size_t)n < t->room - t->len ? (size_t)n : t->room - t->len - 1;
}

/* A string without its quotes, any other value as it is. */
static void add_value(struct text *t, struct json_slice v)
{
	char *text = malloc(v.len + 1);

	if (!text)
		return;
	if (json_unquote(v, text) < 0) {
		memcpy(text, v.at, v.len);
		text[v.len] = '\0';
	}
	add(t, text);
	free(text);
}

static void add_items(struct text *t, struct json_slice v, enum kind_cell cell)
{
	struct json_slice key, one;
	struct json_walk w;

	if (!json_walk_init(&w, v))
		return;
	while (json_walk_next(&w, &key, &one)) {
		add(t, t->len ? "," : "");
		if (cell == CELL_PAIRS) {
			add_value(t, key);
			add(t, "=");
		}
		if (cell == CELL_NAMES)
			one = obs_member(one, "name");
		if (one.at)
			add_value(t, one);
		if (cell == CELL_FIRST)
			break;
	}
}

static void add_holder(struct text *t, struct json_slice row)
{
	struct json_slice left = obs_member(row, "lease_left_ms");

	if (json_is(obs_member(row, "session"), "true"))
		add(t, "session");
	else
		add(t, left.at && *left.at == '-' ? "overdue" : "lease");
}

static uint64_t number_of(struct json_slice v)
{
	uint64_t n;
	char text[64];

	if (json_u64(v, UINT64_MAX, &n))
		return n;
	snprintf(text, sizeof(text), "%.*s", (int)v.len, v.at);
	return strtod(text, NULL) > 0 ? (uint64_t)strtod(text, NULL) : 0;
}

static void add_cell(struct text *t, const struct kind_column *c, struct json_slice row,
		     uint64_t now_ms, struct json_slice v)
{
	char word[OBS_WORD];
	uint64_t n;

	switch (c->cell) {
	case CELL_TEXT:
	case CELL_NUMBER:
		add_value(t, v);
		return;
	case CELL_BYTES:
		add(t, obs_bytes(number_of(v), word));
		return;
	case CELL_RATE:
		add(t, obs_rate((double)number_of(v), word));
		return;
	case CELL_AGE:
		add(t, obs_age(number_of(v), word));
		return;
	case CELL_SINCE:
		n = number_of(v);
		if (n)
			add(t, obs_age(now_ms > n ? now_ms - n : 0, word));
		return;
	case CELL_HOLDER:
		add_holder(t, row);
		return;
	case CELL_PAIRS:
	case CELL_LIST:
	case CELL_NAMES:
	case CELL_FIRST:
		add_items(t, v, c->cell);
		return;
	}
}

void kind_write_cell(const struct kind_column *c, struct json_slice row, uint64_t now_ms, char *out,
		     size_t room)
{
	struct text t = { .at = out, .room = room };
	struct json_slice v = find(row, c->path);

	*out = '\0';
	if (v.at && !json_is(v, "null"))
		add_cell(&t, c, row, now_ms, v);
	if (!t.len)
		add(&t, "-");
}

bool kind_cell_is_age(const struct kind_column *c)
{
	return c->cell == CELL_AGE || c->cell == CELL_SINCE || c->cell == CELL_RATE;
}

bool kind_cell_is_right(const struct kind_column *c)
{
	return c->cell == CELL_NUMBER || c->cell == CELL_BYTES || kind_cell_is_age(c);
}

/* ---- rows ---- */

void kind_write_id(const struct kind *k, struct json_slice row, char *out, size_t room)
{
	struct text t = { .at = out, .room = room };

	*out = '\0';
	for (size_t i = 0; i < sizeof(k->id) / sizeof(*k->id) && k->id[i]; i++) {
		struct json_slice v = obs_member(row, k->id[i]);

		add(&t, i ? "/" : "");
		if (v.at)
			add_value(&t, v);
	}
}

bool kind_is_about(const struct kind *k, struct json_slice row, const char *agent)
{
	char name[OBS_TEXT];

	for (size_t i = 0; i < sizeof(k->who) / sizeof(*k->who) && k->who[i]; i++) {
		obs_text(row, k->who[i], name, sizeof(name));
		if (!strcmp(name, agent))
			return true;
	}
	return false;
}

void kind_write_state(const struct kind *k, struct json_slice row, char *out, size_t room)
{
	*out = '\0';
	for (const struct kind_column *c = k->columns; c->title; c++)
		if (!strcmp(c->title, "STATE"))
			kind_write_cell(c, row, 0, out, room);
}
