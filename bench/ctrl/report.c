/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>

#include "bench/ctrl/ctrl.h"
#include "bench/head.h"
#include "cli/table.h"

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

static void print_row(struct cli_table *t, const struct ctrl_row *row)
{
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

static void print_between(const struct ctrl_result *r, const struct head *h, const char *mark,
			  FILE *to)
{
	const struct settings *s = r->settings;
	char between[512], loop[64] = "closed loop";

	if (s->ctrl.rate)
		snprintf(loop, sizeof(loop), "open loop of %" PRId64 "/s", s->ctrl.rate);
	snprintf(between, sizeof(between), "%" PRId64 " agents and nanoctrl at %.300s, %s",
		 s->ctrl.agents, s->control.urls[0], loop);
	head_print(h, between, mark, to);
}

static int print_table(const struct ctrl_result *r, const struct head *h, bool csv, FILE *to)
{
	struct cli_table *t;
	int ret = cli_table_create(&t, columns, sizeof(columns) / sizeof(columns[0]));

	if (ret)
		return ret;
	for (size_t i = 0; i < r->n_rows; i++)
		print_row(t, &r->rows[i]);
	print_between(r, h, csv ? "# " : "", to);
	if (csv) {
		ret = cli_table_print_csv(t, to);
	} else {
		fputc('\n', to);
		ret = cli_table_print(t, cli_table_style_of_locale(), to);
	}
	cli_table_destroy(t);
	return ret;
}

/* ---- JSON ---- */

static json_t *json_row(const struct ctrl_row *row)
{
	const struct load_histogram *l = &row->latency;

	return json_pack("{s:s, s:I, s:f, s:f, s:{s:f, s:f, s:f, s:f, s:f, s:f}}", "op", row->what,
			 "count", (json_int_t)row->n, "per_s", per_s(row), "total_s",
			 ms(row->elapsed_ns) / 1e3, "latency_ms", "avg", average_ns(row) / 1e6,
			 "min", ms(row->n ? l->min_ns : 0), "p50",
			 ms(load_histogram_permille(l, 500)), "p99",
			 ms(load_histogram_permille(l, 990)), "p999",
			 ms(load_histogram_permille(l, 999)), "max", ms(l->max_ns));
}

/* Takes run over, which may be NULL. */
static json_t *json_all(const struct ctrl_result *r, json_t *run)
{
	const struct settings *s = r->settings;
	json_t *rows = json_array();
	int failed = !rows || !run;

	for (size_t i = 0; i < r->n_rows && !failed; i++)
		failed = json_array_append_new(rows, json_row(&r->rows[i]));
	failed = failed || json_object_set_new(run, "server", json_string(s->control.urls[0])) ||
		 json_object_set_new(run, "scope", json_string(s->between.scope)) ||
		 json_object_set_new(run, "agents", json_integer(s->ctrl.agents)) ||
		 json_object_set_new(run, "rate", json_integer(s->ctrl.rate));
	if (!failed)
		return json_pack("{s:s, s:o, s:o}", "bench", "ctrl", "run", run, "rows", rows);
	json_decref(rows);
	json_decref(run);
	return NULL;
}

int ctrl_report(const struct ctrl_result *result, enum report_format format, FILE *to)
{
	struct head h;
	int ret = head_read(&h, result->flags);

	if (ret)
		return ret;
	return format == REPORT_JSON ? head_print_json(json_all(result, head_json(&h)), to)
				     : print_table(result, &h, format == REPORT_CSV, to);
}
