/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/process/child.h"
#include "bench/rpc/plot.h"

#define TIMEOUT_MS 60000
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

static void write_figure(const struct results *r, const char *terminal, const char *file, FILE *to)
{
	fprintf(to,
		"set terminal %s\nset output '%s'\n"
		"set multiplot layout 1,2 margins 0.065,0.965,0.16,0.92 spacing 0.09,0\n"
		"set key top left reverse Left opaque\n"
		"set title 'Round trip: median, and dashed the 99th percentile'\n"
		"set ylabel 'time of a call'\n"
		"set ytics ('10 ns' 0.01, '100 ns' 0.1, '1 µs' 1, '10 µs' 10, '100 µs' 100, '1 ms' 1e3, "
		"'10 ms' 1e4, '100 ms' 1e5, '1 s' 1e6, '10 s' 1e7)\n",
		terminal, file);
	write_range(r, false, to);
	write_plot(r, 2, 3, to);
	fputs("set title 'Bandwidth of one direction'\nset ylabel 'GB/s'\nset ytics autofreq\n",
	      to);
	write_range(r, true, to);
	write_plot(r, 4, 0, to);
	fputs("unset multiplot\nunset output\n", to);
}

int plot_script(const struct results *r, FILE *to)
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
	write_figure(r, "pngcairo noenhanced size 1500,640 font 'Sans,12'", PLOT_PNG, to);
	write_figure(r, "svg noenhanced size 1500,640 font 'Sans,14' background '#ffffff'",
		     PLOT_SVG, to);
	return fflush(to) || ferror(to) ? -EIO : 0;
}

static int run_gnuplot(int script, const char *dir)
{
	char *argv[] = { "gnuplot", "-", NULL };
	/* In the C locale it warns that a degree sign cannot be had. */
	struct child_attr attr = {
		.argv = argv, .dir = dir, .locale = "C.UTF-8", .in = script, .out = 2, .err = 2
	};
	struct child child;
	int caught;
	int ret = child_start(&child, &attr);

	if (!ret)
		ret = child_wait(&child, TIMEOUT_MS, -1, &caught);
	return ret > 0 ? -EIO : ret;
}

int plot_run(plot_script_fn *script, void *arg, const char *dir)
{
	int fd = memfd_create("plot", MFD_CLOEXEC);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w+");
	int ret = f ? script(arg, f) : -errno;

	if (!ret && lseek(fd, 0, SEEK_SET) < 0)
		ret = -errno;
	if (!ret)
		ret = run_gnuplot(fd, dir);
	if (f)
		fclose(f);
	else if (fd >= 0)
		close(fd);
	return ret;
}

static int script_of_results(void *results, FILE *to)
{
	return plot_script(results, to);
}

int plot_draw(struct results *r, const char *dir)
{
	return plot_run(script_of_results, r, dir);
}
