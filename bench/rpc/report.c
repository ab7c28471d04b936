/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "bench/output/document.h"
#include "bench/rpc/report.h"

#define MIB (1024.0 * 1024.0)
#define GIB (1024.0 * MIB)

static const char *transport_of(const struct report *r)
{
	return r->n_rows ? slime_transport_name(r->rows[0].result.transport) : "none";
}

/* ---- figures ---- */

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

static json_t *json_row(const void *result, size_t i)
{
	const struct report *r = result;
	const struct report_row *row = &r->rows[i];
	const struct bench_result *b = &row->result;

	return json_pack("{s:I, s:i, s:i, s:I, s:f, s:f, s:b, s:o}", "size",
			 (json_int_t)row->job.rpc.size, "threads", (int)row->job.rpc.threads,
			 "inflight", (int)row->job.rpc.inflight, "calls", (json_int_t)b->trips,
			 "bw_gb_s", rpc_gb_per_s(row), "cpu_s_gib", cpu_per_gib(b), "verified",
			 b->verified, "latency_us", json_latency(b));
}

int report_print(const struct report *r, enum report_format format, FILE *to)
{
	char between[2 * SLIME_AGENT_NAME_MAX + 32];
	bool results = format == REPORT_ROWS;
	const struct document document = {
		.bench = "rpc",
		.flags = r->flags,
		.between = between,
		.result = r,
		.n = r->n_rows,
		.columns = results ? results_columns : rpc_columns,
		.n_columns = sizeof(rpc_columns) / sizeof(rpc_columns[0]),
		.cells = results ? results_row : rpc_row,
		.json = json_row,
		.add_run = add_run,
	};

	snprintf(between, sizeof(between), "%s and %s over %s", r->from, r->peer, transport_of(r));
	return document_print(&document, format, to);
}
