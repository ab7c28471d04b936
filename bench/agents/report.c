/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "bench/output/document.h"
#include "bench/agents/report.h"

#define MIB (1024.0 * 1024.0)
#define GIB (1024.0 * MIB)

static const char *transport_of(const struct report *r)
{
	return r->n_rows ? slime_transport_name(r->rows[0].result.transport) : "none";
}

/* ---- figures ---- */

static double seconds(const struct bench_result *b)
{
	return (double)b->elapsed_ns / 1e9;
}

static double us(uint64_t ns)
{
	return (double)ns / 1e3;
}

/* Bytes of a nanosecond are 10^9 bytes of a second. */
static double gb_per_s(const struct bench_result *b)
{
	return b->elapsed_ns ? (double)b->bytes / (double)b->elapsed_ns : 0;
}

/* Of one direction. A thread with one call in flight checks its reply before the next call: the
 * check is left out of the time. With several in flight checks happen beside other calls, and their
 * part of the time is not known. */
static double rpc_gb_per_s(const struct report_row *row)
{
	const struct load_rpc *l = &row->job.rpc;
	const struct bench_result *b = &row->result;

	if (l->inflight > 1)
		return gb_per_s(b) / 2;
	return b->avg_ns ? (double)l->size * l->threads / (double)b->avg_ns : 0;
}

/* Both processes', when the peer tells. */
static double cpu_per_gib(const struct bench_result *b)
{
	return b->bytes ? (double)(b->cpu_ns + b->peer_cpu_ns) / 1e9 / ((double)b->bytes / GIB) : 0;
}

/* ---- rails ---- */

#define RAIL_TEXT 256

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

/* ---- tables ---- */

static const struct cli_column rpc_columns[] = {
	{ "size", "size", true },     { "avg_us", "avg_us", true }, { "p50_us", "p50_us", true },
	{ "p99_us", "p99_us", true }, { "GB/s", "bw_gb_s", true },  { "p99.9_us", "p999_us", true },
	{ "max_us", "max_us", true }, { "calls", "calls", true },
};

/* A file of results has the columns of DLSlime's benchmarks, and more behind them. */
static const struct cli_column results_columns[] = {
	{ NULL, "size", true },	  { NULL, "avg_us", true },  { NULL, "p50_us", true },
	{ NULL, "p99_us", true }, { NULL, "bw_gbps", true }, { NULL, "p999_us", true },
	{ NULL, "max_us", true }, { NULL, "calls", true },
};

static const struct cli_column transfer_columns[] = {
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
};

static void rpc_cells(struct cli_table *t, const struct report_row *row, double bandwidth)
{
	const struct bench_result *b = &row->result;

	cli_table_cell(t, "%" PRIu64, row->job.rpc.size);
	cli_table_cell(t, "%.2f", us(b->avg_ns));
	cli_table_cell(t, "%.2f", us(b->p50_ns));
	cli_table_cell(t, "%.2f", us(b->p99_ns));
	cli_table_cell(t, "%.4g", bandwidth);
	cli_table_cell(t, "%.2f", us(b->p999_ns));
	cli_table_cell(t, "%.2f", us(b->max_ns));
	cli_table_cell(t, "%" PRIu64, b->trips);
}

static void rpc_row(struct cli_table *t, const void *result, size_t i)
{
	const struct report_row *row = &((const struct report *)result)->rows[i];

	rpc_cells(t, row, rpc_gb_per_s(row));
}

/* There the bandwidth counts both directions. */
static void results_row(struct cli_table *t, const void *result, size_t i)
{
	const struct report_row *row = &((const struct report *)result)->rows[i];

	rpc_cells(t, row, 2 * rpc_gb_per_s(row));
}

static void transfer_row(struct cli_table *t, const void *result, size_t i)
{
	const struct report_row *row = &((const struct report *)result)->rows[i];
	const struct load_transfer *l = &row->job.transfer;
	const struct bench_result *b = &row->result;

	cli_table_cell(t, "%s", load_op_names[l->op]);
	cli_table_cell(t, "%u", l->batch_size);
	cli_table_cell(t, "%" PRIu64, l->block_size);
	cli_table_cell(t, "%" PRIu64, b->trips);
	cli_table_cell(t, "%.1f", (double)b->bytes / MIB);
	cli_table_cell(t, "%.3f", seconds(b));
	cli_table_cell(t, "%.4f", (double)b->avg_ns / 1e6);
	cli_table_cell(t, "%.4g", gb_per_s(b));
	cli_table_cell(t, "%.4f", (double)b->p50_ns / 1e6);
	cli_table_cell(t, "%.4f", (double)b->p99_ns / 1e6);
	cli_table_cell(t, "%.4f", (double)b->p999_ns / 1e6);
	cli_table_cell(t, "%.3f", cpu_per_gib(b));
	cli_table_cell(t, "%s", b->verified ? "verified" : "not checked");
}

/* ---- JSON ---- */

static int add_run(const void *result, json_t *run)
{
	const struct report *r = result;

	return json_object_set_new(run, "from", json_string(r->from)) ||
	       json_object_set_new(run, "peer", json_string(r->peer)) ||
	       json_object_set_new(run, "transport", json_string(transport_of(r)));
}

static json_t *json_latency(const struct bench_result *b)
{
	return json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:f}", "n", (json_int_t)b->n, "avg",
			 us(b->avg_ns), "min", us(b->min_ns), "p50", us(b->p50_ns), "p99",
			 us(b->p99_ns), "p999", us(b->p999_ns), "max", us(b->max_ns));
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

static json_t *json_row(const void *result, size_t i)
{
	const struct report *r = result;
	const struct report_row *row = &r->rows[i];
	const struct bench_result *b = &row->result;
	json_t *latency = json_latency(b);

	if (r->kind == BENCH_RPC)
		return json_pack("{s:I, s:i, s:i, s:I, s:f, s:f, s:b, s:o}", "size",
				 (json_int_t)row->job.rpc.size, "threads",
				 (int)row->job.rpc.threads, "inflight", (int)row->job.rpc.inflight,
				 "calls", (json_int_t)b->trips, "bw_gb_s", rpc_gb_per_s(row),
				 "cpu_s_gib", cpu_per_gib(b), "verified", b->verified, "latency_us",
				 latency);
	return json_pack("{s:s, s:i, s:I, s:i, s:I, s:I, s:f, s:f, s:f, s:I, s:b, s:o, s:o}", "op",
			 load_op_names[row->job.transfer.op], "batch_size",
			 (int)row->job.transfer.batch_size, "block_size",
			 (json_int_t)row->job.transfer.block_size, "threads",
			 (int)row->job.transfer.threads, "trips", (json_int_t)b->trips, "bytes",
			 (json_int_t)b->bytes, "duration_s", seconds(b), "bw_gb_s", gb_per_s(b),
			 "cpu_s_gib", cpu_per_gib(b), "late", (json_int_t)b->late, "verified",
			 b->verified, "latency_us", latency, "rails", json_rails(b));
}

int report_print(const struct report *r, enum report_format format, FILE *to)
{
	char between[2 * SLIME_AGENT_NAME_MAX + 32];
	char rails[SLIME_RAILS_MAX * RAIL_TEXT] = "";
	bool rpc = r->kind == BENCH_RPC;
	bool results = format == REPORT_ROWS;
	const struct document rows = {
		.bench = rpc ? "rpc" : "transfer",
		.flags = r->flags,
		.between = between,
		.rails = !rpc && r->n_rows && r->rows[0].result.n_rails ? rails : NULL,
		.result = r,
		.n = r->n_rows,
		.columns = results ? results_columns
			   : rpc   ? rpc_columns
				   : transfer_columns,
		.n_columns = rpc ? sizeof(rpc_columns) / sizeof(rpc_columns[0])
				 : sizeof(transfer_columns) / sizeof(transfer_columns[0]),
		.cells = results ? results_row
			 : rpc	 ? rpc_row
				 : transfer_row,
		.json = json_row,
		.add_run = add_run,
	};

	if (rows.rails)
		describe_rails(&r->rows[0].result, rails, sizeof(rails));
	snprintf(between, sizeof(between), "%s and %s over %s", r->from, r->peer, transport_of(r));
	return document_print(&rows, format, to);
}
