/* SPDX-License-Identifier: Apache-2.0 */
/* An explanation in words. Most of them are foreign: none drives a terminal. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/utf8.h"
#include "commands/explain.h"

#define BETWEEN "; " /* reasons of one text */

struct writer {
	FILE *to;
	const struct explanation *x;
};

static void write_line(const struct writer *w, const char *label, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void write_line(const struct writer *w, const char *label, const char *fmt, ...)
{
	char text[2048];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	sl_utf8_make_printable(text);
	fprintf(w->to, "  %-12s %s\n", label, text);
}

/* Each cause on a line of its own, after the name of the end that reports it unless who is NULL. */
static void write_reasons(const struct writer *w, const char *label, const char *text,
			  const char *who)
{
	while (*text) {
		const char *end = strstr(text, BETWEEN);
		size_t len = end ? (size_t)(end - text) : strlen(text);

		write_line(w, label, "%s%s%.*s", who ? who : "", who ? " says: " : "", (int)len,
			   text);
		text += len + (end ? strlen(BETWEEN) : 0);
		label = "";
	}
}

/* ---- the agent ---- */

static const char *const life_words[] = {
	[EXPLAIN_ALIVE] = "alive",
	[EXPLAIN_STARTING] = "starting",
	[EXPLAIN_OVERDUE] =
		"overdue: it has not renewed its lease, which has run out and is about to end",
	[EXPLAIN_STALE] = "stale: it has not reported lately",
	[EXPLAIN_LEFT] = "gone: it left in order",
	[EXPLAIN_GONE] = "not registered: it was never started, has left, or its lease has ended",
	[EXPLAIN_UNKNOWN] = "unknown: it says nothing itself",
};

static void write_registration(const struct writer *w, const struct explain_agent *a)
{
	char age[OBS_WORD];

	write_line(w, "lease", "%.1f s %s; %s",
		   (double)(a->lease_left_ms < 0 ? -a->lease_left_ms : a->lease_left_ms) / 1e3,
		   a->lease_left_ms < 0 ? "overdue" : "left",
		   a->session ? "it is in session"
			      : "it has no session: that broke, or it beats without one");
	write_line(
		w, "registered", "%s ago as generation %" PRIu64 ", incarnation %s%s%s",
		obs_age(w->x->now_ms > a->registered_at_ms ? w->x->now_ms - a->registered_at_ms : 0,
			age),
		a->generation, a->incarnation, *a->address ? ", address " : "", a->address);
}

static void write_process(const struct writer *w, const struct obs_snapshot *s)
{
	char up[OBS_WORD], age[OBS_WORD];
	uint64_t up_ms = obs_number(s->doc, "uptime_ms");
	enum explain_life life = w->x->agent.life;
	const char *was = life == EXPLAIN_GONE || life == EXPLAIN_LEFT ? "was " : "";

	write_line(w, "process", "%s%" PRIu64 " on %s%s%s; its last snapshot is %s old", was,
		   s->pid, *s->host ? s->host : "an unknown host", up_ms ? ", up " : "",
		   up_ms ? obs_age(up_ms, up) : "", obs_age(s->age_ms, age));
}

static void write_agent(const struct writer *w)
{
	const struct explain_agent *a = &w->x->agent;
	size_t n_connected = 0, n_own = 0;
	char name[OBS_TEXT];

	snprintf(name, sizeof(name), "%s", a->name);
	sl_utf8_make_printable(name);
	fprintf(w->to, "%s is %s\n", name, life_words[a->life]);
	write_line(w, "scope", "%s", w->x->scope);
	if (a->registered)
		write_registration(w, a);
	if (a->snapshot)
		write_process(w, a->snapshot);
	for (size_t i = 0; i < w->x->n; i++) {
		n_own += w->x->links[i].own != NULL;
		n_connected += w->x->links[i].own && links_end_is_connected(w->x->links[i].own);
	}
	if (n_own)
		write_line(w, "links", "%zu, of which %zu %s connected", n_own, n_connected,
			   n_connected == 1 ? "is" : "are");
	else
		write_line(w, "links", "none that it reports");
}

/* ---- one end ---- */

/* "connected over tcp for 12s", "broken for 3s, 4 failures in a row" */
static const char *state_words(const struct links_end *e, char *out, size_t room)
{
	char age[OBS_WORD], failures[64] = "";
	uint64_t n = e->story ? e->story->n_failures : 0;
	bool timed = e->reported || e->wanted_only;

	if (n && !links_end_is_connected(e))
		snprintf(failures, sizeof(failures), ", %" PRIu64 " failure%s in a row", n,
			 n == 1 ? "" : "s");
	snprintf(out, room, "%s%s%s%s%s%s", e->state, *e->transport ? " over " : "", e->transport,
		 timed ? " for " : "", timed ? obs_age(e->age_ms, age) : "", failures);
	return out;
}

/* "shm,rdma,tcp" as "shm, rdma, tcp". */
static void list_words(const char *words, char *out, size_t room)
{
	size_t at = 0;

	for (out[0] = '\0'; *words && at + 3 < room; words++) {
		out[at++] = *words;
		if (*words == ',')
			out[at++] = ' ';
		out[at] = '\0';
	}
}

/* 10000000000 as "10Gbps", as it is written in a file. */
static void write_cap(const struct writer *w, uint64_t bits_s)
{
	static const char *const units[] = { "bps", "Kbps", "Mbps", "Gbps", "Tbps" };
	size_t i = 0;

	for (; i + 1 < sizeof(units) / sizeof(units[0]) && bits_s % 1000 == 0; i++)
		bits_s /= 1000;
	write_line(w, "cap", "its own reads and writes move at most %" PRIu64 "%s", bits_s,
		   units[i]);
}

/* The end whose order of transports counted knows why it refused the earlier ones; the other end
 * knows which ones it could not use itself. */
static void write_transports(const struct writer *w, const struct explain_link *k)
{
	const struct links_story *s = k->own->story;
	const struct links_story *other = k->other ? k->other->story : NULL;
	char words[128];

	if (!s || !*s->transports)
		return;
	list_words(s->transports, words, sizeof(words));
	if (!strchr(words, ','))
		write_line(w, "allowed", "%s alone", words);
	else if (!strcmp(s->order, "peer"))
		write_line(w, "allowed", "%s; %s chose, in its own order", words, k->peer);
	else
		write_line(w, "allowed", "%s, in this order", words);
	if (!links_end_is_connected(k->own))
		return;
	if (s->max_bandwidth)
		write_cap(w, s->max_bandwidth);
	write_reasons(w, "passed over", s->passed_over, NULL);
	if (other && links_end_is_connected(k->other))
		write_reasons(w, *s->passed_over ? "" : "passed over", other->passed_over, k->peer);
	if (*s->no_foreign_memory)
		write_line(w, "memory", "only that of slime_mem_alloc is in reach: %s",
			   s->no_foreign_memory);
}

static void write_source(const struct writer *w, const struct links_end *e)
{
	char age[OBS_WORD];

	if (*e->source)
		write_line(w, "wanted by", "%s", e->source);
	if (e->topology_revision)
		write_line(w, "", "topology %s is of revision %" PRIu64 ", changed %s ago",
			   e->topology, e->topology_revision, obs_age(e->topology_age_ms, age));
}

static void write_past(const struct writer *w, const struct links_end *e)
{
	if (!e->story)
		return;
	if (e->story->n_connects)
		write_line(w, "came up", "%" PRIu64 " time%s", e->story->n_connects,
			   e->story->n_connects == 1 ? "" : "s");
	write_reasons(w, "last error", e->story->last_error, NULL);
}

static void write_work(const struct writer *w, const struct links_end *e)
{
	char bytes[OBS_WORD], rate[OBS_WORD];

	if (*e->local || *e->remote)
		write_line(w, "path", "%s to %s", *e->local ? e->local : "-",
			   *e->remote ? e->remote : "-");
	if (e->counted && (links_end_is_connected(e) || e->bytes || e->errors))
		write_line(w, "moved", "%s, of late %s; %" PRIu64 " pending, %" PRIu64 " errors",
			   obs_bytes(e->bytes, bytes), obs_rate(e->bps, rate), e->pending,
			   e->errors);
}

/* ---- rails ---- */

/* Rail i of an end; false when there are not so many. */
static bool rail_at(const struct links_end *e, size_t i, struct json_slice *out)
{
	struct json_slice key;
	struct json_walk w;

	if (!e || !e->rails.at || !json_walk_init(&w, e->rails) || w.object)
		return false;
	while (json_walk_next(&w, &key, out))
		if (*out->at == '{' && !i--)
			return true;
	return false;
}

struct rail {
	char state[32], local[OBS_TEXT], remote[OBS_TEXT], error[OBS_TEXT], why[OBS_TEXT];
};

static void read_rail(struct json_slice r, struct rail *out)
{
	obs_text(r, "state", out->state, sizeof(out->state));
	obs_text(r, "local_nic", out->local, sizeof(out->local));
	obs_text(r, "remote_nic", out->remote, sizeof(out->remote));
	obs_text(r, "error", out->error, sizeof(out->error));
	obs_text(r, "why", out->why, sizeof(out->why));
}

/* A rail that is not up may not have them. */
static void write_rail_queues(const struct writer *w, struct json_slice r)
{
	uint64_t n = obs_number(r, "qps"), bandwidth = obs_number(r, "bandwidth");
	char speed[64] = "link speed unknown";

	if (bandwidth)
		snprintf(speed, sizeof(speed), "link speed %.1f Gbit/s", (double)bandwidth / 1e9);
	if (n)
		write_line(w, "", "%" PRIu64 " queue pair%s, %s", n, n == 1 ? "" : "s", speed);
}

static void write_rail(const struct writer *w, const struct explain_link *k, size_t i,
		       struct json_slice r)
{
	struct rail rail, other = { .state = "" };
	char label[32], bytes[OBS_WORD], failures[64] = "never failed";
	uint64_t n = obs_number(r, "failures_total");
	struct json_slice back;

	read_rail(r, &rail);
	if (rail_at(k->other, i, &back))
		read_rail(back, &other);
	if (n)
		snprintf(failures, sizeof(failures), "failed %" PRIu64 " time%s", n,
			 n == 1 ? "" : "s");
	snprintf(label, sizeof(label), "rail %zu", i);
	write_line(w, label, "%s to %s: %s; %.1f %% of a large batch, %s moved, %s%s%s", rail.local,
		   rail.remote, rail.state, (double)obs_number(r, "share") / 10,
		   obs_bytes(obs_number(r, "completed_bytes_total"), bytes), failures,
		   *rail.error ? ", last with: " : "", rail.error);
	write_rail_queues(w, r);
	write_reasons(w, "", rail.why, NULL);
	if (*other.state && strcmp(other.state, rail.state) != 0)
		write_line(w, "", "%s says of it: %s%s%s", k->peer, other.state,
			   *other.error ? ", failed last with: " : "", other.error);
}

static void write_rails(const struct writer *w, const struct explain_link *k)
{
	struct json_slice r;

	for (size_t i = 0; rail_at(k->own, i, &r); i++)
		write_rail(w, k, i, r);
}

/* ---- the other end ---- */

static void write_missing(const struct writer *w, const struct explain_link *k)
{
	if (k->peer_life == EXPLAIN_UNKNOWN)
		return;
	if (k->peer_life == EXPLAIN_ALIVE || k->peer_life == EXPLAIN_STARTING)
		write_line(w, "other end", "%s is %s, and reports no link to %s", k->peer,
			   life_words[k->peer_life], w->x->agent.name);
	else
		write_line(w, "other end", "%s is %s", k->peer, life_words[k->peer_life]);
}

static void write_other(const struct writer *w, const struct explain_link *k)
{
	const struct links_story *own = k->own ? k->own->story : NULL;
	const struct links_story *story = k->other ? k->other->story : NULL;
	char words[256] = "the same", allowed[128] = "";

	if (!k->other) {
		write_missing(w, k);
		return;
	}
	if (!explain_ends_agree(k))
		state_words(k->other, words, sizeof(words));
	if (story && *story->transports && (!own || strcmp(own->transports, story->transports)))
		list_words(story->transports, allowed, sizeof(allowed));
	write_line(w, "other end", "%s says %s%s%s", k->peer, words, *allowed ? "; it allows " : "",
		   allowed);
	if (!links_end_is_connected(k->other))
		write_reasons(w, "", k->other->cause, NULL);
	if (k->peer_is_silent)
		write_line(w, "", "%s has no session: it may be dead, and its lease not ended yet",
			   k->peer);
}

/* ---- all of it ---- */

static void write_link(const struct writer *w, const struct explain_link *k)
{
	char words[256] = "not reported by this agent", head[3 * OBS_TEXT];

	if (k->own)
		state_words(k->own, words, sizeof(words));
	snprintf(head, sizeof(head), "link to %s, profile %s: %s", k->peer, k->profile, words);
	sl_utf8_make_printable(head);
	fprintf(w->to, "\n%s\n", head);
	if (k->own) {
		write_reasons(w, "cause", k->own->cause, NULL);
		write_transports(w, k);
		write_source(w, k->own);
		write_past(w, k->own);
		write_work(w, k->own);
		write_rails(w, k);
	}
	write_other(w, k);
}

void explain_print(const struct explanation *x, FILE *to)
{
	struct writer w = { .to = to, .x = x };

	write_agent(&w);
	for (size_t i = 0; i < x->n; i++)
		write_link(&w, &x->links[i]);
}
