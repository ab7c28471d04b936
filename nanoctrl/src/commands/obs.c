/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/obs.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "cli/output/output.h"
#include "cli/output/table.h"
#include "server/settings.h"

/* ---- status ---- */

struct total {
	size_t n_alive, n_stale, n_stopped;
	uint64_t assigned, batches, bytes, pending, errors;
	double bps;
};

/* An ended agent counts what it did before, and its rates are 0. */
static struct total total_of(const struct obs_list *l)
{
	struct total t = { .n_alive = 0 };

	for (size_t i = 0; i < l->n; i++) {
		const struct obs_snapshot *s = &l->list[i];
		bool runs = s->state == OBS_ALIVE || s->state == OBS_STARTING;

		*(runs ? &t.n_alive : s->state == OBS_STALE ? &t.n_stale : &t.n_stopped) += 1;
		t.assigned += obs_number(s->summary, "assign_total");
		t.batches += obs_number(s->summary, "batch_total");
		t.bytes += obs_number(s->summary, "completed_bytes_total");
		t.pending += runs ? obs_number(s->summary, "pending_ops") : 0;
		t.errors += obs_number(s->summary, "error_total");
		t.bps += runs ? obs_real(s->doc, "ewma_bandwidth_bps") : 0;
	}
	return t;
}

static int print_status(const struct obs_source *s, const struct obs_list *l,
			const struct options *options, FILE *to)
{
	struct total t = total_of(l);
	char bytes[OBS_WORD], rate[OBS_WORD];

	fprintf(to, "%s  Scope: %s\n", obs_source_name(s),
		options->scope && *options->scope ? options->scope : "(none)");
	fprintf(to, "Peers: %zu alive, %zu stale, %zu stopped\n", t.n_alive, t.n_stale,
		t.n_stopped);
	fprintf(to,
		"Total: assign=%" PRIu64 " batch=%" PRIu64 " bytes=%s pending=%" PRIu64
		" errors=%" PRIu64 "\n",
		t.assigned, t.batches, obs_bytes(t.bytes, bytes), t.pending, t.errors);
	return fprintf(to, "Estimated BW: %s (EWMA)\n", obs_rate(t.bps, rate)) < 0 ? -EIO : 0;
}

static void print_status_json(const struct obs_list *l)
{
	struct total t = total_of(l);

	printf("{\"alive\":%zu,\"stale\":%zu,\"stopped\":%zu,\"assign_total\":%" PRIu64
	       ",\"completed_bytes_total\":%" PRIu64 ",\"pending_ops\":%" PRIu64
	       ",\"error_total\":%" PRIu64 ",\"ewma_bandwidth_bps\":%.1f}\n",
	       t.n_alive, t.n_stale, t.n_stopped, t.assigned, t.bytes, t.pending, t.errors, t.bps);
}

/* ---- cells ---- */

/* A number of an object; "-" when it says none. */
static void cell_number(struct cli_table *t, struct json_slice o, const char *name)
{
	if (obs_member(o, name).at)
		cli_table_cell(t, "%" PRIu64, obs_number(o, name));
	else
		cli_table_cell(t, "-");
}

static void cell_bytes(struct cli_table *t, struct json_slice o, const char *name)
{
	char word[OBS_WORD];

	cli_table_cell(t, "%s",
		       obs_member(o, name).at ? obs_bytes(obs_number(o, name), word) : "-");
}

static void cell_rate(struct cli_table *t, struct json_slice o)
{
	char word[OBS_WORD];

	cli_table_cell(t, "%s", obs_rate(obs_real(o, "ewma_bandwidth_bps"), word));
}

static void cell_age(struct cli_table *t, uint64_t ms)
{
	char word[OBS_WORD];

	cli_table_cell(t, "%s", obs_age(ms, word));
}

/* ---- peers ---- */

static const struct cli_column peer_columns[] = {
	{ "PEER", NULL, false },   { "HOST", NULL, false },  { "PID", NULL, true },
	{ "AGE", NULL, true },	   { "STATE", NULL, false }, { "ASSIGN", NULL, true },
	{ "BATCH", NULL, true },   { "BW", NULL, true },     { "BYTES", NULL, true },
	{ "PENDING", NULL, true }, { "ERRORS", NULL, true },
};

static void add_peer(struct cli_table *t, const struct obs_snapshot *s)
{
	cli_table_cell(t, "%s", s->peer);
	cli_table_cell(t, "%s", s->host);
	cli_table_cell(t, "%" PRIu64, s->pid);
	cell_age(t, s->age_ms);
	cli_table_cell(t, "%s", obs_state_names[s->state]);
	cell_number(t, s->summary, "assign_total");
	cell_number(t, s->summary, "batch_total");
	cell_rate(t, s->doc);
	cell_bytes(t, s->summary, "completed_bytes_total");
	cell_number(t, s->summary, "pending_ops");
	cell_number(t, s->summary, "error_total");
}

static void print_peers_json(const struct obs_list *l)
{
	printf("[");
	for (size_t i = 0; i < l->n; i++)
		printf("%s\n %.*s", i ? "," : "", (int)l->list[i].doc.len, l->list[i].doc.at);
	printf("%s]\n", l->n ? "\n" : "");
}

/* ---- NICs ---- */

static const struct cli_column nic_columns[] = {
	{ "PEER", NULL, false },      { "NIC", NULL, false },	   { "AGE", NULL, true },
	{ "ASSIGN", NULL, true },     { "BATCH", NULL, true },	   { "BW", NULL, true },
	{ "BYTES", NULL, true },      { "PENDING", NULL, true },   { "ERRORS", NULL, true },
	{ "POST_BYTES", NULL, true }, { "POST_FAIL", NULL, true }, { "CQ_ERR", NULL, true },
};

static void add_nic(struct cli_table *t, const struct obs_snapshot *s, struct json_slice nic)
{
	char name[OBS_TEXT];

	obs_text(nic, "nic", name, sizeof(name));
	cli_table_cell(t, "%s", s->peer);
	cli_table_cell(t, "%s", name);
	cell_age(t, s->age_ms);
	cell_number(t, nic, "assign_total");
	cell_number(t, nic, "batch_total");
	cell_rate(t, nic);
	cell_bytes(t, nic, "completed_bytes_total");
	cell_number(t, nic, "pending_ops");
	cell_number(t, nic, "error_total");
	cell_bytes(t, nic, "post_bytes_total");
	cell_number(t, nic, "post_failures_total");
	cell_number(t, nic, "cq_errors_total");
}

/* The object with these two members set, in place of its own ones. */
static void print_nic(const struct obs_snapshot *s, struct json_slice nic, const char *comma)
{
	struct json_slice key, value, peer = obs_member(s->doc, "peer_id");
	struct json_walk w;

	printf("%s\n {", comma);
	json_walk_init(&w, nic);
	while (json_walk_next(&w, &key, &value))
		if (!json_is(key, "\"peer_id\"") && !json_is(key, "\"age_ms\""))
			printf("%.*s:%.*s,", (int)key.len, key.at, (int)value.len, value.at);
	printf("\"peer_id\":%.*s,\"age_ms\":%" PRIu64 "}", peer.at ? (int)peer.len : 2,
	       peer.at ? peer.at : "\"\"", s->age_ms);
}

typedef void nic_fn(const struct obs_snapshot *s, struct json_slice nic, void *arg);

/* Answers how many there are. */
static size_t each_nic(const struct obs_list *l, nic_fn *fn, void *arg)
{
	struct json_slice key, nic;
	struct json_walk w;
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++) {
		const struct obs_snapshot *s = &l->list[i];

		if (!s->nics.at || !json_walk_init(&w, s->nics) || w.object)
			continue;
		while (json_walk_next(&w, &key, &nic))
			if (nic.len >= 2 && *nic.at == '{') {
				fn(s, nic, arg);
				n++;
			}
	}
	return n;
}

static void on_nic_row(const struct obs_snapshot *s, struct json_slice nic, void *arg)
{
	add_nic(arg, s, nic);
}

static void on_nic_json(const struct obs_snapshot *s, struct json_slice nic, void *arg)
{
	const char **comma = arg;

	print_nic(s, nic, *comma);
	*comma = ",";
}

static void print_nics_json(const struct obs_list *l)
{
	const char *comma = "";

	printf("[");
	each_nic(l, on_nic_json, &comma);
	printf("%s]\n", *comma ? "\n" : "");
}

/* ---- all of them ---- */

static int print_table(enum obs_view view, const struct obs_list *l, FILE *to)
{
	bool nics = view == OBS_VIEW_NICS;
	struct cli_table *t;
	int ret =
		nics ? cli_table_create(&t, nic_columns, sizeof(nic_columns) / sizeof(*nic_columns))
		     : cli_table_create(&t, peer_columns,
					sizeof(peer_columns) / sizeof(*peer_columns));

	if (ret)
		return ret;
	for (size_t i = 0; i < l->n && !nics; i++)
		add_peer(t, &l->list[i]);
	if (nics && !each_nic(l, on_nic_row, t))
		ret = fprintf(to, "(no NICs reported)\n") < 0 ? -EIO : 0;
	else
		ret = cli_table_print(t, cli_table_style_of_locale(), to);
	cli_table_destroy(t);
	return ret;
}

int obs_print(enum obs_view view, const struct obs_source *s, const struct obs_list *l,
	      const struct options *options, FILE *to)
{
	if (view == OBS_VIEW_STATUS)
		return print_status(s, l, options, to);
	if (!l->n)
		return fprintf(to, "(no obs snapshots found)\n") < 0 ? -EIO : 0;
	return print_table(view, l, to);
}

static int print_json(enum obs_view view, const struct obs_list *l)
{
	if (view == OBS_VIEW_STATUS)
		print_status_json(l);
	else if (view == OBS_VIEW_PEERS)
		print_peers_json(l);
	else
		print_nics_json(l);
	return 0;
}

int obs_show(enum obs_view view, const struct settings *settings, const struct options *options,
	     const struct runtime *rt)
{
	struct obs_list l = { .n = 0 };
	struct obs_source *s;
	char why[320];
	int ret = obs_source_open(settings, options, rt, &s);

	if (ret)
		return 1;
	ret = obs_source_read(s, &l, why, sizeof(why));
	if (ret) {
		obs_source_complain(s, why);
		ret = 1;
	} else {
		ret = options->json ? print_json(view, &l)
				    : obs_print(view, s, &l, options, stdout);
		ret = ret ? cli_output_fail("nanoctrl", ret) : 0;
		if (!l.n && !options->scope && !options->json && view != OBS_VIEW_STATUS)
			fprintf(stderr, "nanoctrl: none in scope default; --scope names another "
					"scope\n");
	}
	obs_list_clear(&l);
	obs_source_close(s);
	return ret;
}
