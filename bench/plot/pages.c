/* SPDX-License-Identifier: Apache-2.0 */
/* What page drive measured: threads, page sizes, latencies, devices. */
#include "bench/plot/plot.h"

#include <string.h>

#include "bench/plot/gnuplot.h"
#include "bench/plot/sheet.h"

#define TITLE_MAX 192

typedef char title[TITLE_MAX];

/* "get 128 KiB x 32 over shm" */
static void name_sheet(const struct sheet *s, title out)
{
	const json_t *row = json_array_get(s->rows, 0);
	const json_t *over = json_array_get(json_object_get(s->run, "transports"), 0);
	char all[TITLE_MAX];

	snprintf(all, sizeof(all), "%s %g KiB x %g over %s", sheet_text(row, "op"),
		 sheet_number(row, "page_size") / 1024, sheet_number(row, "batch_size"),
		 over ? json_string_value(over) : "nothing");
	gnuplot_quote(out, TITLE_MAX, all);
}

/* A block for each sheet: threads, GB/s, percentiles; of all devices where there are several. */
static void write_data(const struct sheet *s, size_t i, FILE *to)
{
	const json_t *row;
	size_t k;

	fprintf(to, "$s%zu << END\n", i);
	json_array_foreach(s->rows, k, row)
	{
		const char *note = sheet_text(row, "note");

		if (!*note || !strcmp(note, "all"))
			fprintf(to, "%g %g %g %g %g %g\n", sheet_number(row, "threads"),
				sheet_number(row, "bw_gb_s"), sheet_number(row, "p50_us"),
				sheet_number(row, "p95_us"), sheet_number(row, "p99_us"),
				sheet_number(row, "p999_us"));
	}
	fputs("END\n", to);
}

/* Threads, page size, GB/s of all sheets; and of each device its best. */
static void write_grid(const struct sheet *all, size_t n, FILE *to)
{
	const json_t *row;
	size_t k;

	fputs("$grid << END\n", to);
	for (size_t i = 0; i < n; i++)
		json_array_foreach(all[i].rows, k, row)
		{
			const char *note = sheet_text(row, "note");

			if (!*note || !strcmp(note, "all"))
				fprintf(to, "%g %g %.2f\n", sheet_number(row, "threads"),
					sheet_number(row, "page_size") / 1024,
					sheet_number(row, "bw_gb_s"));
		}
	fputs("END\n", to);
}

static size_t write_devices(const struct sheet *all, size_t n, FILE *to)
{
	const json_t *row;
	size_t k, n_devices = 0;
	char name[96];

	fputs("$devices << END\n", to);
	for (size_t i = 0; i < n; i++)
		json_array_foreach(all[i].rows, k, row)
		{
			gnuplot_quote(name, sizeof(name), sheet_text(row, "note"));
			if (!*name || !strcmp(name, "all") || strchr(name, ' '))
				continue;
			fprintf(to, "\"%s, %g threads\" %g\n", name, sheet_number(row, "threads"),
				sheet_number(row, "bw_gb_s"));
			n_devices++;
		}
	fputs("END\n", to);
	return n_devices;
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

static void write_figure(const struct sheets *s, const title titles[], size_t n_devices,
			 const char *head, FILE *to)
{
	const struct sheet *all = s->all;
	size_t n = s->n;

	fprintf(to,
		"set multiplot layout 2,2 title '%s'\n"
		"set logscale x 2\nset xlabel 'threads'\nset key top left\n"
		"set title 'Ladder'\nset ylabel 'GB/s'\nset yrange [0:*]\n",
		head);
	write_lines(n, titles, 2, 0, to);
	fputs("set title 'Latency of a batch: median, and dashed the 99th percentile'\n"
	      "set ylabel 'us'\nset yrange [*:*]\nset logscale y\n",
	      to);
	write_lines(n, titles, 3, 5, to);
	fputs("set title 'Threads against page size, GB/s'\nset ylabel 'KiB of a page'\n"
	      "set offsets graph 0.2, graph 0.2, graph 0.2, graph 0.2\n"
	      "plot $grid using 1:2:3 with labels notitle\n"
	      "unset logscale\nset offsets\n",
	      to);
	if (n_devices)
		fputs("set title 'Each device'\nset xlabel ''\nset ylabel 'GB/s'\nset yrange [0:*]\n"
		      "set style fill solid 0.6\nset boxwidth 0.6\nset xtics rotate by -35\n"
		      "plot $devices using 0:2:xtic(1) with boxes lc 1 notitle\n",
		      to);
	else
		fputs("set title 'Percentiles of the last number of threads'\nset xlabel ''\n"
		      "set ylabel 'us'\nset logscale y\nset yrange [*:*]\nset xrange [-0.3:3.3]\n"
		      "set xtics ('p50' 0, 'p95' 1, 'p99' 2, 'p99.9' 3)\n",
		      to);
	for (size_t i = 0; i < n && !n_devices; i++) {
		const json_t *row = json_array_get(all[i].rows, json_array_size(all[i].rows) - 1);

		fprintf(to, "$p%zu << END\n0 %g\n1 %g\n2 %g\n3 %g\nEND\n", i,
			sheet_number(row, "p50_us"), sheet_number(row, "p95_us"),
			sheet_number(row, "p99_us"), sheet_number(row, "p999_us"));
	}
	for (size_t i = 0; i < n && !n_devices; i++)
		fprintf(to, "%s$p%zu using 1:2 with linespoints lw 2 lc %zu pt 7 title '%s'%s",
			i ? ", " : "plot ", i, i + 1, titles[i], i + 1 == n ? "\n" : "");
	fputs("unset multiplot\nunset output\nreset\nset encoding utf8\n", to);
}

static int is_ladder(const struct sheet *s)
{
	return strcmp(sheet_text(json_array_get(s->rows, 0), "op"), "judge") != 0;
}

static void write_script(const struct sheets *s, FILE *to)
{
	char head[SHEET_TITLE_MAX];
	title titles[SHEETS_MAX];
	size_t n_devices;

	sheets_host(s, head);
	for (size_t i = 0; i < s->n; i++) {
		name_sheet(&s->all[i], titles[i]);
		write_data(&s->all[i], i, to);
	}
	write_grid(s->all, s->n, to);
	n_devices = write_devices(s->all, s->n, to);
	fputs("set encoding utf8\n", to);
	gnuplot_begin_png("page", 1500, 1100, to);
	write_figure(s, titles, n_devices, head, to);
	gnuplot_begin_svg("page", 1500, 1100, to);
	write_figure(s, titles, n_devices, head, to);
}

int plot_pages(const char *dir, FILE *to)
{
	struct sheets s;
	int ret = sheets_read(&s, dir, "page", is_ladder);

	if (!ret)
		write_script(&s, to);
	sheets_free(&s);
	return ret;
}
