/* SPDX-License-Identifier: Apache-2.0 */
/* What page judge measured: throughput over time, while owners are killed. */
#include "bench/plot/plot.h"

#include <string.h>

#include "bench/plot/gnuplot.h"
#include "bench/plot/sheet.h"

#define TITLE_MAX 400

static int has_series(const struct sheet *s)
{
	return json_is_object(json_object_get(s->run, "series"));
}

/* "judge 16 KiB x 32 over shm, 3 owners; p99 us 410 without faults, 700 with faults; wrong pages:
 * 0" */
static void name_sheet(const struct sheet *s, char out[TITLE_MAX])
{
	const json_t *row = json_array_get(s->rows, 0);
	const json_t *over = json_array_get(json_object_get(s->run, "transports"), 0);
	char all[TITLE_MAX];
	double wrong = 0;
	size_t i, at;

	at = (size_t)snprintf(
		all, sizeof(all), "judge %g KiB x %g over %s, %g owners; p99 us",
		sheet_number(row, "page_size") / 1024, sheet_number(row, "batch_size"),
		over ? json_string_value(over) : "nothing", sheet_number(s->run, "owners"));
	json_array_foreach(s->rows, i, row)
	{
		wrong += sheet_number(row, "wrong_pages");
		if (at < sizeof(all))
			at += (size_t)snprintf(all + at, sizeof(all) - at, "%s %.0f %s",
					       i ? "," : "", sheet_number(row, "p99_us"),
					       sheet_text(row, "note"));
	}
	if (at < sizeof(all))
		snprintf(all + at, sizeof(all) - at, "; wrong pages: %g", wrong);
	gnuplot_quote(out, TITLE_MAX, all);
}

/* Seconds and GB/s; then the seconds at which an owner was killed. */
static void write_data(const struct sheet *s, size_t i, FILE *to)
{
	const json_t *series = json_object_get(s->run, "series");
	double step = sheet_number(series, "interval_ms") / 1000;
	const json_t *value;
	size_t k;

	fprintf(to, "$s%zu << END\n", i);
	json_array_foreach(json_object_get(series, "gb_s"), k, value)
		fprintf(to, "%g %g\n", (double)(k + 1) * step, json_number_value(value));
	fprintf(to, "END\n$f%zu << END\n", i);
	json_array_foreach(json_object_get(series, "faults_s"), k, value)
		fprintf(to, "%g 0\n", json_number_value(value));
	fputs("END\n", to);
}

static void write_figure(const struct sheets *s, const char *head, FILE *to)
{
	fprintf(to,
		"set multiplot layout %zu,1 title '%s'\nset xlabel 'seconds'\nset ylabel 'GB/s'\n"
		"set yrange [0:*]\nset key top right\n",
		s->n, head);
	for (size_t i = 0; i < s->n; i++) {
		const json_t *series = json_object_get(s->all[i].run, "series");
		char name[TITLE_MAX];

		name_sheet(&s->all[i], name);
		fprintf(to,
			"set title '%s'\n"
			"plot $s%zu using 1:2 with lines lw 2 lc 1 title 'pages that were read'",
			name, i);
		if (json_array_size(json_object_get(series, "faults_s")))
			fprintf(to,
				", $f%zu using 1:2:(0):(graph_top) with vectors nohead dt 2 lc 7 "
				"title 'an owner ends'",
				i);
		fputc('\n', to);
	}
	fputs("unset multiplot\nunset output\nreset\nset encoding utf8\n", to);
}

/* As high as the highest figure: lines of faults end there. */
static double top_of(const struct sheets *s)
{
	const json_t *value;
	double top = 0;
	size_t k;

	for (size_t i = 0; i < s->n; i++)
		json_array_foreach(
			json_object_get(json_object_get(s->all[i].run, "series"), "gb_s"), k,
			value) if (top < json_number_value(value)) top = json_number_value(value);
	return top;
}

static void write_script(const struct sheets *s, FILE *to)
{
	unsigned height = 120 + 330 * (unsigned)s->n;
	char head[SHEET_TITLE_MAX];

	sheets_host(s, head);
	for (size_t i = 0; i < s->n; i++)
		write_data(&s->all[i], i, to);
	fprintf(to, "set encoding utf8\ngraph_top = %g\n", top_of(s));
	gnuplot_begin_png("page-faults", 1500, height, to);
	write_figure(s, head, to);
	gnuplot_begin_svg("page-faults", 1500, height, to);
	write_figure(s, head, to);
}

int plot_faults(const char *dir, FILE *to)
{
	struct sheets s;
	int ret = sheets_read(&s, dir, "page", has_series);

	if (!ret)
		write_script(&s, to);
	sheets_free(&s);
	return ret;
}
