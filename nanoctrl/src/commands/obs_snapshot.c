/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/obs_snapshot.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"

#define NUMBER_MAX 40 /* characters */

const char *const obs_state_names[] = { "alive", "starting", "stale", "stopped" };

/* ---- members ---- */

struct json_slice obs_member(struct json_slice object, const char *name)
{
	struct json_slice key, value, none = { NULL, 0 };
	size_t len = strlen(name);
	struct json_walk w;

	if (!object.at || !json_walk_init(&w, object) || !w.object)
		return none;
	while (json_walk_next(&w, &key, &value))
		if (key.len == len + 2 && !memcmp(key.at + 1, name, len))
			return value;
	return none;
}

double obs_real(struct json_slice object, const char *name)
{
	struct json_slice v = obs_member(object, name);
	char digits[NUMBER_MAX];
	double real;

	if (!v.at || v.len >= sizeof(digits) || (*v.at != '-' && (*v.at < '0' || *v.at > '9')))
		return 0;
	memcpy(digits, v.at, v.len);
	digits[v.len] = '\0';
	real = strtod(digits, NULL);
	return real > 0 && real < OBS_REAL_MAX ? real : 0;
}

uint64_t obs_number(struct json_slice object, const char *name)
{
	struct json_slice v = obs_member(object, name);
	double real;
	uint64_t n;

	if (v.at && json_u64(v, UINT64_MAX, &n))
		return n;
	real = obs_real(object, name);
	return real > 0 && real < 9e18 ? (uint64_t)real : 0;
}

void obs_text(struct json_slice object, const char *name, char *out, size_t room)
{
	struct json_slice v = obs_member(object, name);
	char *text = v.at ? malloc(v.len + 1) : NULL;
	long len = text ? json_unquote(v, text) : -1;

	snprintf(out, room, "%.*s", len > 0 ? (int)len : 0, text ? text : "");
	free(text);
}

/* ---- one, and all ---- */

static enum obs_lease lease_of(struct json_slice doc, enum obs_lease otherwise)
{
	struct json_slice registered = obs_member(doc, "registered");

	if (!registered.at)
		return otherwise;
	return json_is(registered, "true") ? OBS_LEASE_HELD : OBS_LEASE_ENDED;
}

static void read_snapshot(struct obs_snapshot *s, enum obs_lease lease)
{
	char status[16];

	obs_text(s->doc, "peer_id", s->peer, sizeof(s->peer));
	obs_text(s->doc, "host", s->host, sizeof(s->host));
	obs_text(s->doc, "status", status, sizeof(status));
	s->native = obs_member(s->doc, "interval_ms").at != NULL;
	if (s->native)
		s->lease = lease_of(s->doc, lease);
	s->pid = obs_number(s->doc, "pid");
	s->state = !strcmp(status, "stopped")	 ? OBS_STOPPED
		   : !strcmp(status, "starting") ? OBS_STARTING
						 : OBS_ALIVE;
	s->summary = obs_member(s->doc, "summary");
	s->nics = obs_member(s->doc, "nics");
	s->connections = obs_member(s->doc, "connections");
}

static struct obs_snapshot *new_place(struct obs_list *l)
{
	size_t room = l->room ? 2 * l->room : 64;
	struct obs_snapshot *bigger;

	if (l->n < l->room)
		return &l->list[l->n];
	bigger = realloc(l->list, room * sizeof(*bigger));
	if (!bigger)
		return NULL;
	l->list = bigger;
	l->room = room;
	return &l->list[l->n];
}

int obs_list_add(struct obs_list *l, const char *text, size_t len, enum obs_lease lease)
{
	struct obs_snapshot *s;

	if (!model_is_snapshot((struct store_text){ text, len }))
		return 0;
	s = new_place(l);
	if (!s)
		return -ENOMEM;
	*s = (struct obs_snapshot){ .text = malloc(len + 1) };
	if (!s->text)
		return -ENOMEM;
	memcpy(s->text, text, len);
	s->text[len] = '\0';
	s->doc = json_first(s->text, len);
	read_snapshot(s, lease);
	l->n++;
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct obs_snapshot *x = a, *y = b;
	int d = strcmp(x->peer, y->peer);

	return d ? d : strcmp(x->text, y->text);
}

/* Redis may tell of a key twice. */
static void drop_doubles(struct obs_list *l)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++) {
		if (n && !strcmp(l->list[n - 1].text, l->list[i].text))
			free(l->list[i].text);
		else
			l->list[n++] = l->list[i];
	}
	l->n = n;
}

/* The goodbye of an earlier life does not count while there is a lease. */
static enum obs_state state_of(const struct obs_snapshot *s, uint64_t stale_ms)
{
	if (s->lease == OBS_LEASE_HELD)
		return s->state == OBS_STARTING ? OBS_STARTING : OBS_ALIVE;
	if (s->lease == OBS_LEASE_ENDED)
		return s->state == OBS_STOPPED ? OBS_STOPPED : OBS_STALE;
	return s->state == OBS_ALIVE && s->age_ms > stale_ms ? OBS_STALE : s->state;
}

void obs_list_finish(struct obs_list *l, uint64_t now_ms, uint64_t stale_ms)
{
	l->now_ms = now_ms;
	if (l->n)
		qsort(l->list, l->n, sizeof(*l->list), compare);
	drop_doubles(l);
	for (size_t i = 0; i < l->n; i++) {
		struct obs_snapshot *s = &l->list[i];
		uint64_t at = obs_number(s->doc, "reported_at_ms");

		s->age_ms = now_ms > at ? now_ms - at : 0;
		s->state = state_of(s, stale_ms);
	}
}

void obs_list_clear(struct obs_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->list[i].text);
	free(l->list);
	*l = (struct obs_list){ .n = 0 };
}

/* ---- words ---- */

static const char *scaled(double v, double step, const char *const *units, size_t n,
			  char out[OBS_WORD])
{
	size_t i = 0;

	for (v /= step; i + 1 < n && v >= step; i++)
		v /= step;
	snprintf(out, OBS_WORD, "%.1f%s", v, units[i]);
	return out;
}

const char *obs_bytes(uint64_t bytes, char out[OBS_WORD])
{
	static const char *const units[] = { "KB", "MB", "GB", "TB" };

	if (bytes >= 1024)
		return scaled((double)bytes, 1024, units, 4, out);
	snprintf(out, OBS_WORD, "%" PRIu64 "B", bytes);
	return out;
}

/* An average that forgets takes long to become 0: less than a byte a second is. */
const char *obs_rate(double bps, char out[OBS_WORD])
{
	double gb_s = bps / OBS_BITS_PER_GB;

	if (gb_s < 1e-9)
		return "0GB/s";
	if (gb_s < 1e-4)
		return "<0.0001GB/s";
	snprintf(out, OBS_WORD, "%.4gGB/s", gb_s);
	return out;
}

const char *obs_age(uint64_t ms, char out[OBS_WORD])
{
	uint64_t n = ms < 1000 ? ms : ms < 60000 ? ms / 1000 : ms / 60000;

	snprintf(out, OBS_WORD, "%" PRIu64 "%s", n, ms < 1000 ? "ms" : ms < 60000 ? "s" : "m");
	return out;
}
