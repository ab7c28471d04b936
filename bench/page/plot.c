/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/page/plot.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>

#include "bench/rpc/plot.h"

#define FILES_MAX  32
#define TITLE_MAX  192
#define TITLE_TEXT 300

/* A result: one page size, each number of threads. */
struct sheet {
	json_t *root, *rows;
	char title[TITLE_MAX]; /* "get 128 KiB x 32 over shm" */
};

static double number(const json_t *row, const char *key)
{
	return json_number_value(json_object_get(row, key));
}

static const char *text(const json_t *object, const char *key)
{
	const char *t = json_string_value(json_object_get(object, key));

	return t ? t : "";
}

/* gnuplot ends a text at its quote. */
static void quote(char *to, size_t room, const char *from)
{
	size_t n = 0;

	for (; *from && n + 1 < room; from++)
		if ((unsigned char)*from >= ' ' && *from != '\'' && *from != '"' && *from != '\\')
			to[n++] = *from;
	to[n] = '\0';
}

static void name_sheet(struct sheet *s)
{
	const json_t *run = json_object_get(s->root, "run"), *row = json_array_get(s->rows, 0);
	const json_t *over = json_array_get(json_object_get(run, "transports"), 0);
	char all[TITLE_MAX];

	snprintf(all, sizeof(all), "%s %g KiB x %g over %s", text(row, "op"),
		 number(row, "page_size") / 1024, number(row, "batch_size"),
		 over ? json_string_value(over) : "nothing");
	quote(s->title, sizeof(s->title), all);
}

static bool is_result(const json_t *root)
{
	const json_t *rows = json_object_get(root, "rows");

	return !strcmp(text(root, "bench"), "page") && json_array_size(rows) > 0 &&
	       json_is_object(json_array_get(rows, 0)) &&
	       json_is_object(json_object_get(root, "run"));
}

static int read_sheet(struct sheet *s, const char *path)
{
	json_error_t why;

	s->root = json_load_file(path, 0, &why);
	if (!s->root || !is_result(s->root)) {
		fprintf(stderr, "slime-bench: %s: expected what page drive --json prints%s%s\n",
			path, s->root ? "" : ": ", s->root ? "" : why.text);
		json_decref(s->root);
		s->root = NULL;
		return -EINVAL;
	}
	s->rows = json_object_get(s->root, "rows");
	name_sheet(s);
	return 0;
}

static void free_sheets(struct sheet *all, size_t n)
{
	for (size_t i = 0; i < n; i++)
		json_decref(all[i].root);
}

static int find(const char *dir, glob_t *out)
{
	char pattern[PATH_MAX];

	if (snprintf(pattern, sizeof(pattern), "%s/page*.json", dir) >= (int)sizeof(pattern))
		return -ENAMETOOLONG;
	switch (glob(pattern, 0, NULL, out)) {
	case 0:
		return 0;
	case GLOB_NOMATCH:
		return -ENOENT;
	default:
		return -EIO;
	}
}

bool page_plot_has(const char *dir)
{
	glob_t found;

	if (find(dir, &found))
		return false;
	globfree(&found);
	return true;
}

static int read_sheets(const char *dir, struct sheet all[FILES_MAX], size_t *n)
{
	glob_t found;
	int ret = find(dir, &found);

	*n = 0;
	if (ret)
		return ret;
	if (found.gl_pathc > FILES_MAX)
		ret = -E2BIG;
	for (size_t i = 0; i < found.gl_pathc && !ret; i++) {
		ret = read_sheet(&all[i], found.gl_pathv[i]);
		*n += !ret;
	}
	globfree(&found);
	return ret;
}

/* ---- the script ---- */

/* A block for each sheet: threads, GB/s, percentiles; of all devices where there are several. */
static void write_data(const struct sheet *s, size_t i, FILE *to)
{
	const json_t *row;
	size_t k;

	fprintf(to, "$s%zu << END\n", i);
	json_array_foreach(s->rows, k, row)
	{
		const char *note = text(row, "note");

		if (!*note || !strcmp(note, "all"))
			fprintf(to, "%g %g %g %g %g %g\n", number(row, "threads"),
				number(row, "bw_gb_s"), number(row, "p50_us"),
				number(row, "p95_us"), number(row, "p99_us"),
				number(row, "p999_us"));
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
			const char *note = text(row, "note");

			if (!*note || !strcmp(note, "all"))
				fprintf(to, "%g %g %.2f\n", number(row, "threads"),
					number(row, "page_size") / 1024, number(row, "bw_gb_s"));
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
			quote(name, sizeof(name), text(row, "note"));
			if (!*name || !strcmp(name, "all") || strchr(name, ' '))
				continue;
			fprintf(to, "\"%s, %g threads\" %g\n", name, number(row, "threads"),
				number(row, "bw_gb_s"));
			n_devices++;
		}
	fputs("END\n", to);
	return n_devices;
}

static void write_lines(const struct sheet *all, size_t n, int column, int dashed, FILE *to)
{
	for (size_t i = 0; i < n; i++) {
		fprintf(to, "%s$s%zu using 1:%d with linespoints lw 2 lc %zu pt 7 title '%s'",
			i ? ", " : "plot ", i, column, i + 1, all[i].title);
		if (dashed)
			fprintf(to, ", $s%zu using 1:%d with lines lw 1 dt 2 lc %zu notitle", i,
				dashed, i + 1);
	}
	fputc('\n', to);
}

static void write_figure(const struct sheet *all, size_t n, size_t n_devices, const char *head,
			 const char *terminal, const char *file, FILE *to)
{
	fprintf(to,
		"set terminal %s\nset output '%s'\nset multiplot layout 2,2 title '%s'\n"
		"set logscale x 2\nset xlabel 'threads'\nset key top left\n"
		"set title 'Ladder'\nset ylabel 'GB/s'\nset yrange [0:*]\n",
		terminal, file, head);
	write_lines(all, n, 2, 0, to);
	fputs("set title 'Latency of a batch: median, and dashed the 99th percentile'\n"
	      "set ylabel 'us'\nset yrange [*:*]\nset logscale y\n",
	      to);
	write_lines(all, n, 3, 5, to);
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

		fprintf(to, "$p%zu << END\n0 %g\n1 %g\n2 %g\n3 %g\nEND\n", i, number(row, "p50_us"),
			number(row, "p95_us"), number(row, "p99_us"), number(row, "p999_us"));
	}
	for (size_t i = 0; i < n && !n_devices; i++)
		fprintf(to, "%s$p%zu using 1:2 with linespoints lw 2 lc %zu pt 7 title '%s'%s",
			i ? ", " : "plot ", i, i + 1, all[i].title, i + 1 == n ? "\n" : "");
	fputs("unset multiplot\nunset output\nreset\nset encoding utf8\n", to);
}

static void write_script(const struct sheet *all, size_t n, FILE *to)
{
	const json_t *run = json_object_get(all[0].root, "run");
	char head[TITLE_TEXT], raw[TITLE_TEXT];
	size_t n_devices;

	snprintf(raw, sizeof(raw), "%s, %s, %s", text(run, "host"), text(run, "cpu"),
		 text(run, "date"));
	quote(head, sizeof(head), raw);
	for (size_t i = 0; i < n; i++)
		write_data(&all[i], i, to);
	write_grid(all, n, to);
	n_devices = write_devices(all, n, to);
	fputs("set encoding utf8\n", to);
	write_figure(all, n, n_devices, head, "pngcairo noenhanced size 1500,1100 font 'Sans,12'",
		     PAGE_PLOT_PNG, to);
	write_figure(all, n, n_devices, head,
		     "svg noenhanced size 1500,1100 font 'Sans,14' background '#ffffff'",
		     PAGE_PLOT_SVG, to);
}

int page_plot_script(const char *dir, FILE *to)
{
	struct sheet all[FILES_MAX];
	size_t n;
	int ret = read_sheets(dir, all, &n);

	if (!ret)
		write_script(all, n, to);
	free_sheets(all, n);
	return ret ? ret : fflush(to) || ferror(to) ? -EIO : 0;
}

static int script(void *dir, FILE *to)
{
	return page_plot_script(dir, to);
}

int page_plot_draw(const char *dir)
{
	return plot_run(script, (void *)(uintptr_t)dir, dir);
}
