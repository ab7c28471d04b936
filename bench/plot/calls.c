/* SPDX-License-Identifier: Apache-2.0 */
/* What rpc --results left: latency and bandwidth of calls against size. */
#include "bench/plot/plot.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "bench/plot/gnuplot.h"
#include "bench/rpc/results.h"

/* More labels than this on the axis run into each other. */
#define MAX_LABELS 10
/* Figures below it are as good as 0. */
#define LEAST 1e-9

/* A colour and a shape each, which stay what they are whoever else is there; told apart by those
 * who see no colours, too. */
static const struct {
	const char *colour;
	int shape;
} styles[N_SYSTEMS] = {
	[SYSTEM_SLIME] = { "#0060ad", 7 },   [SYSTEM_RAY] = { "#d95f02", 5 },
	[SYSTEM_PULSING] = { "#7570b3", 9 }, [SYSTEM_ZEROMQ] = { "#1b9e77", 11 },
	[SYSTEM_GRPC] = { "#a6761d", 13 },
};

static const char *unit_of(uint64_t *size)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB" };
	int unit = 0;

	while (unit < 3 && *size && *size % 1024 == 0) {
		*size /= 1024;
		unit++;
	}
	return units[unit];
}

static void write_data(const struct sweep *s, enum system system, FILE *to)
{
	fprintf(to, "$%s << END\n", system_names[system].key);
	for (size_t i = 0; i < s->n; i++)
		fprintf(to, "%" PRIu64 " %g %g %g\n", s->points[i].size, s->points[i].p50_us,
			s->points[i].p99_us, s->points[i].bw_gb_s);
	fputs("END\n", to);
}

static void write_axis(const struct sweep *ours, FILE *to)
{
	size_t step = (ours->n + MAX_LABELS - 1) / MAX_LABELS;

	fprintf(to, "set xrange [%g:%g]\n", 0.8 * (double)ours->points[0].size,
		1.25 * (double)ours->points[ours->n - 1].size);
	fputs("set xtics (", to);
	for (size_t i = 0; i < ours->n; i += step) {
		uint64_t size = ours->points[i].size;
		const char *unit = unit_of(&size);

		fprintf(to, "%s\"%" PRIu64 " %s\" %" PRIu64, i ? ", " : "", size, unit,
			ours->points[i].size);
	}
	fputs(") rotate by -35\n", to);
}

/* The power of ten that is not above v. */
static double decade_of(double v)
{
	double decade = 1;

	while (decade > v)
		decade /= 10;
	while (decade * 10 <= v)
		decade *= 10;
	return decade;
}

/* Whole decades around the figures; what is 0 has no place on the axis. */
static void write_range(const struct results *r, bool bandwidth, FILE *to)
{
	double low = 0, high = 0;

	for (enum system s = 0; s < N_SYSTEMS; s++) {
		for (size_t i = 0; i < r->sweeps[s].n; i++) {
			const struct sweep_point *p = &r->sweeps[s].points[i];
			double least = bandwidth ? p->bw_gb_s : p->p50_us;
			double most = bandwidth ? p->bw_gb_s : p->p99_us;

			if (least > LEAST && (low <= 0 || least < low))
				low = least;
			if (most > high)
				high = most;
		}
	}
	if (low > 0 && high > 0)
		fprintf(to, "set yrange [%g:%g]\n", decade_of(low), 10 * decade_of(high));
}

static void write_line(enum system s, int column, bool thin, FILE *to)
{
	fprintf(to, "$%s using 1:%d with %s lc rgb '%s' lw %d dt %d ", system_names[s].key, column,
		thin ? "lines" : "linespoints", styles[s].colour, thin ? 1 : 2, thin ? 2 : 1);
	if (thin)
		fputs("notitle", to);
	else
		fprintf(to, "pt %d ps 1.1 title '%s'", styles[s].shape, system_names[s].title);
}

/* thin: another column, 0 for none. */
static void write_plot(const struct results *r, int column, int thin, FILE *to)
{
	const char *between = "plot ";

	for (enum system s = 0; s < N_SYSTEMS; s++) {
		if (!r->sweeps[s].n)
			continue;
		fputs(between, to);
		write_line(s, column, false, to);
		between = ", ";
		if (thin) {
			fputs(between, to);
			write_line(s, thin, true, to);
		}
	}
	fputc('\n', to);
}

#define TITLE_MAX 600

/* The value of a line of the head, "host      NAME, ..." */
static void add_line(char out[TITLE_MAX], const char *head, const char *key)
{
	size_t len = strlen(key), used = strlen(out);

	for (const char *at = head; at && *at; at = strchr(at, '\n'), at += at ? 1 : 0) {
		const char *value = at + len;

		if (strncmp(at, key, len) != 0 || *value != ' ')
			continue;
		value += strspn(value, " ");
		snprintf(out + used, TITLE_MAX - used, "%s%.*s", used ? ", " : "",
			 (int)strcspn(value, "\n"), value);
		return;
	}
}

static void write_title(const struct results *r, FILE *to)
{
	const char *head = r->sweeps[SYSTEM_SLIME].head;
	char raw[TITLE_MAX] = "", quoted[TITLE_MAX];

	add_line(raw, head, "host");
	add_line(raw, head, "date");
	add_line(raw, head, "between");
	gnuplot_quote(quoted, sizeof(quoted), raw);
	fprintf(to,
		"set multiplot layout 1,2 title '%s' margins 0.065,0.965,0.16,0.86 spacing 0.09,0\n",
		quoted);
}

static void write_figure(const struct results *r, FILE *to)
{
	write_title(r, to);
	fputs("set key top left reverse Left opaque\n"
	      "set title 'Round trip: median, and dashed the 99th percentile'\n"
	      "set ylabel 'time of a call'\n"
	      "set ytics ('10 ns' 0.01, '100 ns' 0.1, '1 µs' 1, '10 µs' 10, '100 µs' 100, '1 ms' 1e3, "
	      "'10 ms' 1e4, '100 ms' 1e5, '1 s' 1e6, '10 s' 1e7)\n",
	      to);
	write_range(r, false, to);
	write_plot(r, 2, 3, to);
	fputs("set title 'Bandwidth of one direction'\nset ylabel 'GB/s'\nset ytics autofreq\n",
	      to);
	write_range(r, true, to);
	write_plot(r, 4, 0, to);
	fputs("unset multiplot\nunset output\n", to);
}

static void write_script(const struct results *r, FILE *to)
{
	for (enum system s = 0; s < N_SYSTEMS; s++) {
		if (r->sweeps[s].n)
			write_data(&r->sweeps[s], s, to);
	}
	fputs("set encoding utf8\nset logscale x 2\nset logscale y 10\nset format y '%g'\n"
	      "set grid xtics ytics mytics lt 1 lw 0.6 lc rgb '#b8b8b8', lt 1 lw 0.4 lc rgb '#dcdcdc'\n"
	      "set xlabel 'bytes of request and of reply'\nset border 3\nset tics nomirror\n",
	      to);
	write_axis(&r->sweeps[SYSTEM_SLIME], to);
	gnuplot_begin_png("rpc", 1500, 690, to);
	write_figure(r, to);
	gnuplot_begin_svg("rpc", 1500, 690, to);
	write_figure(r, to);
}

int plot_calls(const char *dir, FILE *to)
{
	struct results *r = malloc(sizeof(*r));
	int ret = r ? results_read(r, dir) : -ENOMEM;

	if (!ret)
		write_script(r, to);
	free(r);
	return ret;
}
