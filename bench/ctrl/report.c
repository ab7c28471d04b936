/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "bench/ctrl/ctrl.h"
#include "bench/output/document.h"

static double ms(uint64_t ns)
{
	return (double)ns / 1e6;
}

static double per_s(const struct ctrl_row *row)
{
	return row->elapsed_ns ? (double)row->n * 1e9 / (double)row->elapsed_ns : 0;
}

static double average_ns(const struct ctrl_row *row)
{
	return row->n ? (double)row->latency.sum_ns / (double)row->n : 0;
}

/* ---- tables ---- */

static const struct cli_column columns[] = {
	{ "op", "op", false },		 { "count", "count", true },
	{ "per s", "per_s", true },	 { "avg ms", "avg_ms", true },
	{ "p50 ms", "p50_ms", true },	 { "p99 ms", "p99_ms", true },
	{ "p99.9 ms", "p999_ms", true }, { "max ms", "max_ms", true },
	{ "total s", "total_s", true },
};

static void print_row(struct cli_table *t, const void *result, size_t i)
{
	const struct ctrl_row *row = &((const struct ctrl_result *)result)->rows[i];

	cli_table_cell(t, "%s", row->what);
	cli_table_cell(t, "%" PRIu64, row->n);
	cli_table_cell(t, "%.1f", per_s(row));
	cli_table_cell(t, "%.3f", average_ns(row) / 1e6);
	cli_table_cell(t, "%.3f", ms(load_histogram_permille(&row->latency, 500)));
	cli_table_cell(t, "%.3f", ms(load_histogram_permille(&row->latency, 990)));
	cli_table_cell(t, "%.3f", ms(load_histogram_permille(&row->latency, 999)));
	cli_table_cell(t, "%.3f", ms(row->latency.max_ns));
	cli_table_cell(t, "%.3f", ms(row->elapsed_ns) / 1e3);
}

/* ---- JSON ---- */

static json_t *json_row(const void *result, size_t i)
{
	const struct ctrl_row *row = &((const struct ctrl_result *)result)->rows[i];
	const struct load_histogram *l = &row->latency;

	return json_pack("{s:s, s:I, s:f, s:f, s:{s:f, s:f, s:f, s:f, s:f, s:f}}", "op", row->what,
			 "count", (json_int_t)row->n, "per_s", per_s(row), "total_s",
			 ms(row->elapsed_ns) / 1e3, "latency_ms", "avg", average_ns(row) / 1e6,
			 "min", ms(row->n ? l->min_ns : 0), "p50",
			 ms(load_histogram_permille(l, 500)), "p99",
			 ms(load_histogram_permille(l, 990)), "p999",
			 ms(load_histogram_permille(l, 999)), "max", ms(l->max_ns));
}

static int add_run(const void *result, json_t *run)
{
	const struct settings *s = ((const struct ctrl_result *)result)->settings;

	return json_object_set_new(run, "server", json_string(s->control.urls[0])) ||
	       json_object_set_new(run, "scope", json_string(s->between.scope)) ||
	       json_object_set_new(run, "agents", json_integer(s->ctrl.agents)) ||
	       json_object_set_new(run, "rate", json_integer(s->ctrl.rate));
}

int ctrl_report(const struct ctrl_result *result, enum report_format format, FILE *to)
{
	const struct settings *s = result->settings;
	char between[512], loop[64] = "closed loop";
	const struct document rows = {
		.bench = "ctrl",
		.flags = result->flags,
		.between = between,
		.result = result,
		.n = result->n_rows,
		.columns = columns,
		.n_columns = sizeof(columns) / sizeof(columns[0]),
		.cells = print_row,
		.json = json_row,
		.add_run = add_run,
	};

	if (s->ctrl.rate)
		snprintf(loop, sizeof(loop), "open loop of %" PRId64 "/s", s->ctrl.rate);
	snprintf(between, sizeof(between), "%" PRId64 " agents and nanoctrl at %.300s, %s",
		 s->ctrl.agents, s->control.urls[0], loop);
	return document_print(&rows, format, to);
}
