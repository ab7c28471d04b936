/* SPDX-License-Identifier: Apache-2.0 */
/* What transfer measured: bandwidth and latency against block size, and a table of both. */
#include "bench/plot/plot.h"

#include <stdbool.h>
#include <string.h>

#include "bench/plot/gnuplot.h"
#include "bench/plot/sheet.h"

#define TITLE_MAX 192
#define TABLE_MAX 24 /* lines that have room */

typedef char title[TITLE_MAX];

/* "read x 32 over tcp, 2 processes" */
static void name_sheet(const struct sheet *s, title out)
{
	const json_t *row = json_array_get(s->rows, 0);
	double processes = sheet_number(s->run, "processes");
	char all[TITLE_MAX];

	snprintf(all, sizeof(all), "%s x %g over %s", sheet_text(row, "op"),
		 sheet_number(row, "batch_size"), sheet_text(s->run, "transport"));
	if (processes > 1)
		snprintf(all + strlen(all), sizeof(all) - strlen(all), ", %g processes", processes);
	gnuplot_quote(out, TITLE_MAX, all);
}

/* The last row of a block size is of all peers. */
static bool is_sum(const struct sheet *s, size_t i)
{
	const json_t *row = json_array_get(s->rows, i), *next = json_array_get(s->rows, i + 1);

	return !next || sheet_number(next, "block_size") > sheet_number(row, "block_size") ||
	       sheet_number(next, "block_size") < sheet_number(row, "block_size");
}

static void write_data(const struct sheet *s, size_t i, FILE *to)
{
	const json_t *row;
	size_t k;

	fprintf(to, "$s%zu << END\n", i);
	json_array_foreach(s->rows, k, row)
	{
		const json_t *latency = json_object_get(row, "latency_us");

		if (is_sum(s, k))
			fprintf(to, "%g %g %g %g\n", sheet_number(row, "block_size"),
				sheet_number(row, "bw_gb_s"), sheet_number(latency, "p50"),
				sheet_number(latency, "p99"));
	}
	fputs("END\n", to);
}

static void write_lines(size_t n, const title titles[], int column, int dashed, FILE *to)
{
	for (size_t i = 0; i < n; i++) {
		fprintf(to, "%s$s%zu using 1:%d with linespoints lw 2 lc %zu pt 7 title '%s'",
			i ? ", " : "plot ", i, column, i + 1, titles[i]);
		if (dashed)
			fprintf(to, ", $s%zu using 1:%d with lines lw 1 dt 2 lc %zu notitle", i,
				dashed, i + 1);
	}
	fputc('\n', to);
}

/* A line of text for each row. */
static void write_table(const struct sheets *s, const title titles[], FILE *to)
{
	size_t line = 1;

	fputs("$table << END\n0 \"what, block KiB: GB/s; p50, p99 us; CPU s/GiB\"\n", to);
	for (size_t i = 0; i < s->n; i++) {
		const json_t *row;
		size_t k;

		json_array_foreach(s->all[i].rows, k, row)
		{
			const json_t *latency = json_object_get(row, "latency_us");

			if (!is_sum(&s->all[i], k) || line > TABLE_MAX)
				continue;
			fprintf(to, "%zu \"%s, %g: %.3f; %.1f, %.1f; %.3f\"\n", line++, titles[i],
				sheet_number(row, "block_size") / 1024,
				sheet_number(row, "bw_gb_s"), sheet_number(latency, "p50"),
				sheet_number(latency, "p99"), sheet_number(row, "cpu_s_gib"));
		}
	}
	fputs("END\n", to);
}

static void write_figure(const struct sheets *s, const title titles[], const char *head, FILE *to)
{
	fprintf(to,
		"set multiplot layout 1,3 title '%s'\n"
		"set logscale x 2\nset xlabel 'bytes of a block'\nset key top left\n"
		"set title 'Bandwidth'\nset ylabel 'GB/s'\nset yrange [0:*]\n",
		head);
	write_lines(s->n, titles, 2, 0, to);
	fputs("set title 'Latency of a trip: median, and dashed the 99th percentile'\n"
	      "set ylabel 'us'\nset yrange [*:*]\nset logscale y\n",
	      to);
	write_lines(s->n, titles, 3, 4, to);
	fprintf(to,
		"unset logscale\nset title 'Table'\nunset xlabel\nunset ylabel\nunset xtics\n"
		"unset ytics\nset border 0\nset xrange [0:1]\nset yrange [%d:-1]\n"
		"plot $table using (0):1:2 with labels left notitle\n"
		"unset multiplot\nunset output\nreset\nset encoding utf8\n",
		TABLE_MAX + 1);
}

static void write_script(const struct sheets *s, FILE *to)
{
	char head[SHEET_TITLE_MAX];
	title titles[SHEETS_MAX];

	sheets_host(s, head);
	for (size_t i = 0; i < s->n; i++) {
		name_sheet(&s->all[i], titles[i]);
		write_data(&s->all[i], i, to);
	}
	write_table(s, titles, to);
	fputs("set encoding utf8\n", to);
	gnuplot_begin_png("transfer", 1800, 620, to);
	write_figure(s, titles, head, to);
	gnuplot_begin_svg("transfer", 1800, 620, to);
	write_figure(s, titles, head, to);
}

int plot_transfers(const char *dir, FILE *to)
{
	struct sheets s;
	int ret = sheets_read(&s, dir, "transfer", NULL);

	if (!ret)
		write_script(&s, to);
	sheets_free(&s);
	return ret;
}
