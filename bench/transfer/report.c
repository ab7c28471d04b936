/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "bench/transfer/transfer.h"

#define MIB	   (1024.0 * 1024.0)
#define GIB	   (1024.0 * MIB)
#define RAIL_TEXT  256
#define PEERS_ROOM 2048

static const struct cli_column columns[] = {
	{ "op", "op", false },
	{ "batch", "batch_size", true },
	{ "block", "block_size", true },
	{ "trips", "total_trips", true },
	{ "total MiB", "total_mib", true },
	{ "duration s", "duration_s", true },
	{ "avg ms/trip", "avg_ms", true },
	{ "GB/s", "bw_gb_s", true },
	{ "p50 ms", "p50_ms", true },
	{ "p99 ms", "p99_ms", true },
	{ "p99.9 ms", "p999_ms", true },
	{ "CPU s/GiB", "cpu_s_gib", true },
	{ "bytes", "verified", false },
	{ "note", "note", false },
};

/* Bytes of a nanosecond are 10^9 bytes of a second. */
static double gb_per_s(const struct bench_result *b)
{
	return b->elapsed_ns ? (double)b->bytes / (double)b->elapsed_ns : 0;
}

/* Both processes', when the peer tells. */
static double cpu_per_gib(const struct bench_result *b)
{
	return b->bytes ? (double)(b->cpu_ns + b->peer_cpu_ns) / 1e9 / ((double)b->bytes / GIB) : 0;
}

static double us(uint64_t ns)
{
	return (double)ns / 1e3;
}

/* Above what the host can move: then it was measured wrongly. */
static bool is_impossible(const struct transfer_result *r, const struct transfer_row *row)
{
	double limit = row->result.transport == SLIME_TRANSPORT_RDMA ? r->line_gb_s : r->copy_gb_s;

	return limit > 0 && gb_per_s(&row->result) > limit;
}

/* Of one of several peers its name, "all" of their sum. */
static const char *note_of(const struct transfer_result *r, const struct transfer_row *row)
{
	bool several = r->n_rows > r->settings->transfer.n_block_sizes;

	return !several ? "" : *row->peer ? row->peer : "all";
}

/* ---- rails ---- */

/* A rail's part of what all of them moved. */
static double part_of(const struct bench_result *b, unsigned rail)
{
	double sum = 0;

	for (unsigned i = 0; i < b->n_rails; i++)
		sum += (double)b->rails[i].bytes;
	return sum > 0 ? (double)b->rails[rail].bytes / sum : 0;
}

/* "rxe0:1 to rxe1:1 70.3 %, rxe2:1 to rxe3:1 29.7 %, down, failures: 1" */
static void describe_rails(const struct bench_result *b, char *out, size_t cap)
{
	size_t at = 0;

	for (unsigned i = 0; i < b->n_rails && at < cap; i++) {
		const struct bench_rail *rail = &b->rails[i];

		at += (size_t)snprintf(out + at, cap - at, "%s%s to %s %.1f %%", i ? ", " : "",
				       rail->device, rail->peer, 100 * part_of(b, i));
		if (at < cap && rail->state != SLIME_RAIL_UP)
			at += (size_t)snprintf(out + at, cap - at, ", %s",
					       slime_rail_state_name(rail->state));
		if (at < cap && rail->n_failures)
			at += (size_t)snprintf(out + at, cap - at, ", failures: %u",
					       rail->n_failures);
	}
}

static json_t *json_rails(const struct bench_result *b)
{
	json_t *all = json_array();

	for (unsigned i = 0; all && i < b->n_rails; i++) {
		const struct bench_rail *rail = &b->rails[i];

		if (json_array_append_new(all, json_pack("{s:s, s:s, s:s, s:I, s:I, s:f}", "device",
							 rail->device, "peer", rail->peer, "state",
							 slime_rail_state_name(rail->state),
							 "failures", (json_int_t)rail->n_failures,
							 "bytes", (json_int_t)rail->bytes, "share",
							 part_of(b, i)))) {
			json_decref(all);
			return NULL;
		}
	}
	return all;
}

/* ---- rows ---- */

static void cells(struct cli_table *t, const void *result, size_t i)
{
	const struct transfer_result *r = result;
	const struct transfer_settings *s = &r->settings->transfer;
	const struct transfer_row *row = &r->rows[i];
	const struct bench_result *b = &row->result;
	const char *note = note_of(r, row);

	cli_table_cell(t, "%s", load_op_names[s->op]);
	cli_table_cell(t, "%" PRId64, s->batch_size);
	cli_table_cell(t, "%" PRIu64, row->block_size);
	cli_table_cell(t, "%" PRIu64, b->trips);
	cli_table_cell(t, "%.1f", (double)b->bytes / MIB);
	cli_table_cell(t, "%.3f", (double)b->elapsed_ns / 1e9);
	cli_table_cell(t, "%.4f", (double)b->avg_ns / 1e6);
	cli_table_cell(t, "%.4g", gb_per_s(b));
	cli_table_cell(t, "%.4f", (double)b->p50_ns / 1e6);
	cli_table_cell(t, "%.4f", (double)b->p99_ns / 1e6);
	cli_table_cell(t, "%.4f", (double)b->p999_ns / 1e6);
	cli_table_cell(t, "%.3f", cpu_per_gib(b));
	cli_table_cell(t, "%s", b->verified ? "verified" : "not checked");
	cli_table_cell(t, "%s%s", note,
		       is_impossible(r, row) ? " impossible: above what the host can move" : "");
}

static json_t *json_row(const void *result, size_t i)
{
	const struct transfer_result *r = result;
	const struct settings *s = r->settings;
	const struct transfer_row *row = &r->rows[i];
	const struct bench_result *b = &row->result;
	json_t *latency =
		json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:f}", "n", (json_int_t)b->n, "avg",
			  us(b->avg_ns), "min", us(b->min_ns), "p50", us(b->p50_ns), "p99",
			  us(b->p99_ns), "p999", us(b->p999_ns), "max", us(b->max_ns));

	return json_pack(
		"{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:I, s:b, s:b, s:o, s:o}", "op",
		load_op_names[s->transfer.op], "peer", row->peer, "batch_size",
		(json_int_t)s->transfer.batch_size, "block_size", (json_int_t)row->block_size,
		"threads", (json_int_t)s->between.threads, "trips", (json_int_t)b->trips, "bytes",
		(json_int_t)b->bytes, "duration_s", (double)b->elapsed_ns / 1e9, "bw_gb_s",
		gb_per_s(b), "cpu_s_gib", cpu_per_gib(b), "late", (json_int_t)b->late, "verified",
		b->verified, "impossible", is_impossible(r, row), "latency_us", latency, "rails",
		json_rails(b));
}

/* "node-a, node-b" */
static void join_peers(const struct transfer_result *r, char out[PEERS_ROOM])
{
	size_t at = 0;

	*out = '\0';
	for (size_t i = 0; i < r->n_rows && at < PEERS_ROOM && *r->rows[i].peer; i++) {
		if (i && r->rows[i].block_size != r->rows[0].block_size)
			break;
		at += (size_t)snprintf(out + at, PEERS_ROOM - at, "%s%s", i ? ", " : "",
				       r->rows[i].peer);
	}
}

static const char *transport_of(const struct transfer_result *r)
{
	return slime_transport_name(r->rows[0].result.transport);
}

static int add_run(const void *result, json_t *run)
{
	const struct transfer_result *r = result;
	const struct between_settings *b = &r->settings->between;
	char peers[PEERS_ROOM];

	join_peers(r, peers);
	return json_object_set_new(run, "from", json_string(r->from)) ||
	       json_object_set_new(run, "peer", json_string(peers)) ||
	       json_object_set_new(run, "transport", json_string(transport_of(r))) ||
	       json_object_set_new(run, "devices",
				   b->devices ? json_string(b->devices) : json_null()) ||
	       json_object_set_new(run, "max_channels",
				   json_integer((json_int_t)b->max_channels)) ||
	       json_object_set_new(run, "processes", json_integer((json_int_t)r->n_processes)) ||
	       json_object_set_new(run, "memcpy_gb_s", json_real(r->copy_gb_s)) ||
	       json_object_set_new(run, "line_gb_s", json_real(r->line_gb_s));
}

int transfer_report(const struct transfer_result *r, enum report_format format, FILE *to)
{
	char peers[PEERS_ROOM], between[PEERS_ROOM + SLIME_AGENT_NAME_MAX + 64];
	char rails[SLIME_RAILS_MAX * RAIL_TEXT] = "";
	const struct document document = {
		.bench = "transfer",
		.flags = r->flags,
		.between = between,
		.rails = r->rows[0].result.n_rails ? rails : NULL,
		.result = r,
		.n = r->n_rows,
		.columns = columns,
		.n_columns = sizeof(columns) / sizeof(columns[0]),
		.cells = cells,
		.json = json_row,
		.add_run = add_run,
	};

	join_peers(r, peers);
	describe_rails(&r->rows[0].result, rails, sizeof(rails));
	if (*r->from)
		snprintf(between, sizeof(between), "%s and %s over %s", r->from, peers,
			 transport_of(r));
	else
		snprintf(between, sizeof(between), "%zu processes and %s over %s", r->n_processes,
			 peers, transport_of(r));
	return document_print(&document, format, to);
}
