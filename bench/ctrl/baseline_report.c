/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "bench/ctrl/baseline.h"

static const struct cli_column columns[] = {
	{ "route", "route", false },
	{ "per s", "per_s", true },
	{ "baseline", "baseline_per_s", true },
	{ "ratio", "ratio", true },
	{ "from", "low", true },
	{ "to", "high", true },
};

static const struct ctrl_baseline_row *row_of(const void *result, size_t i)
{
	return &((const struct ctrl_baseline *)result)->rows[i];
}

static void print_row(struct cli_table *t, const void *result, size_t i)
{
	const struct ctrl_baseline_row *row = row_of(result, i);

	cli_table_cell(t, "%s", route_names[row->route]);
	cli_table_cell(t, "%.1f", row->ours_per_s);
	cli_table_cell(t, "%.1f", row->theirs_per_s);
	cli_table_cell(t, "%.2f", row->ratio);
	cli_table_cell(t, "%.2f", row->low);
	cli_table_cell(t, "%.2f", row->high);
}

static json_t *json_row(const void *result, size_t i)
{
	const struct ctrl_baseline_row *row = row_of(result, i);

	return json_pack("{s:s, s:f, s:f, s:f, s:f, s:f}", "route", route_names[row->route],
			 "per_s", row->ours_per_s, "baseline_per_s", row->theirs_per_s, "ratio",
			 row->ratio, "low", row->low, "high", row->high);
}

static int add_run(const void *result, json_t *run)
{
	const struct settings *s = ((const struct ctrl_baseline *)result)->settings;

	return json_object_set_new(run, "server", json_string(s->control.urls[0])) ||
	       json_object_set_new(run, "baseline", json_string(s->ctrl.baseline)) ||
	       json_object_set_new(run, "connections", json_integer(s->ctrl.agents));
}

int ctrl_baseline_report(const struct ctrl_baseline *result, enum report_format format, FILE *to)
{
	const struct settings *s = result->settings;
	char between[768];
	const struct document rows = {
		.bench = "ctrl-baseline",
		.flags = result->flags,
		.between = between,
		.result = result,
		.n = ROUTES_BESIDE,
		.columns = columns,
		.n_columns = sizeof(columns) / sizeof(columns[0]),
		.cells = print_row,
		.json = json_row,
		.add_run = add_run,
	};

	snprintf(between, sizeof(between),
		 "nanoctrl at %.300s and the baseline at %.300s, %" PRId64
		 " connections, %d rounds in turn",
		 s->control.urls[0], s->ctrl.baseline, s->ctrl.agents, CTRL_BASELINE_ROUNDS);
	return document_print(&rows, format, to);
}
