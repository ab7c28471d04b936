/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "bench/rpc/comparison.h"
#include "cli/output/table.h"

#define MAX_COLUMNS (1 + N_FIGURES * 2 * N_SYSTEMS)
#define TITLE_MAX   80

enum figure { AVERAGE, MEDIAN, P99, BANDWIDTH, N_FIGURES };

static const struct {
	const char *title;
	const char *key;
} figures[N_FIGURES] = {
	[AVERAGE] = { "average, us", "avg_us" },
	[MEDIAN] = { "p50, us", "p50_us" },
	[P99] = { "p99, us", "p99_us" },
	[BANDWIDTH] = { "bandwidth of one direction, GB/s", "bw_gb_s" },
};

static double figure_of(const struct sweep_point *p, enum figure f)
{
	const double all[N_FIGURES] = { p->avg_us, p->p50_us, p->p99_us, p->bw_gb_s };

	return all[f];
}

/* The columns of a table, with their titles. */
struct columns {
	struct cli_column list[MAX_COLUMNS];
	char titles[MAX_COLUMNS][TITLE_MAX];
	size_t n;
};

static void add_column(struct columns *c, const char *a, const char *between, const char *b)
{
	char *title = c->titles[c->n];

	snprintf(title, TITLE_MAX, "%s%s%s", a, between, b);
	c->list[c->n++] = (struct cli_column){ .title = title, .key = title, .right = true };
}

static bool is_there(const struct results *r, enum system s)
{
	return r->sweeps[s].n > 0;
}

#define for_each_system(r, s, from)                      \
	for (enum system s = (from); s < N_SYSTEMS; s++) \
		if (is_there(r, s))

/* ---- cells ---- */

static void figure_cell(struct cli_table *t, const struct results *r, enum system s, uint64_t size,
			enum figure f)
{
	const struct sweep_point *p = sweep_at(&r->sweeps[s], size);

	if (p && f == BANDWIDTH)
		cli_table_cell(t, "%.4g", figure_of(p, f));
	else if (p)
		cli_table_cell(t, "%.2f", figure_of(p, f));
	else
		cli_table_cell(t, "%s", "");
}

static void ratio_cell(struct cli_table *t, const struct results *r, enum system s, uint64_t size,
		       enum figure f)
{
	const struct sweep_point *ours = sweep_at(&r->sweeps[SYSTEM_SLIME], size);
	const struct sweep_point *theirs = sweep_at(&r->sweeps[s], size);
	double above = 0, below = 0;

	if (theirs) {
		above = figure_of(f == BANDWIDTH ? ours : theirs, f);
		below = figure_of(f == BANDWIDTH ? theirs : ours, f);
	}
	if (below > 0)
		cli_table_cell(t, "%.2f", above / below);
	else
		cli_table_cell(t, "%s", "");
}

static void size_cell(struct cli_table *t, uint64_t size, bool csv)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB" };
	int unit = 0;

	while (!csv && unit < 3 && size && size % 1024 == 0) {
		size /= 1024;
		unit++;
	}
	if (csv)
		cli_table_cell(t, "%" PRIu64, size);
	else
		cli_table_cell(t, "%" PRIu64 " %s", size, units[unit]);
}

/* ---- tables ---- */

/* Rows of the sizes that we were measured with. */
static int print_rows(const struct results *r, const struct columns *c, enum figure first,
		      enum figure last, bool csv, FILE *to)
{
	const struct sweep *ours = &r->sweeps[SYSTEM_SLIME];
	struct cli_table *t;
	int ret = cli_table_create(&t, c->list, c->n);

	if (ret)
		return ret;
	for (size_t i = 0; i < ours->n; i++) {
		size_cell(t, ours->points[i].size, csv);
		for (enum figure f = first; f <= last; f++) {
			for_each_system(r, s, SYSTEM_SLIME)
				figure_cell(t, r, s, ours->points[i].size, f);
			for_each_system(r, s, SYSTEM_SLIME + 1)
				ratio_cell(t, r, s, ours->points[i].size, f);
		}
	}
	ret = csv ? cli_table_print_csv(t, to)
		  : cli_table_print(t, cli_table_style_of_locale(), to);
	cli_table_destroy(t);
	return ret;
}

static int print_figure(const struct results *r, enum figure f, FILE *to)
{
	struct columns c = { .n = 0 };

	add_column(&c, "size", "", "");
	for_each_system(r, s, SYSTEM_SLIME) add_column(&c, system_names[s].title, "", "");
	for_each_system(r, s, SYSTEM_SLIME + 1) add_column(&c, "S", "/", system_names[s].brief);
	fprintf(to, "\n%s\n\n", figures[f].title);
	return print_rows(r, &c, f, f, false, to);
}

static int print_csv(const struct results *r, FILE *to)
{
	struct columns c = { .n = 0 };

	add_column(&c, "size", "", "");
	for (enum figure f = 0; f < N_FIGURES; f++) {
		for_each_system(r, s, SYSTEM_SLIME)
			add_column(&c, system_names[s].key, "_", figures[f].key);
		for_each_system(r, s, SYSTEM_SLIME + 1)
		{
			char ratio[TITLE_MAX / 2];

			snprintf(ratio, sizeof(ratio), "s_%s", system_names[s].key);
			add_column(&c, ratio, "_", figures[f].key);
		}
	}
	return print_rows(r, &c, 0, N_FIGURES - 1, true, to);
}

/* What each of the files says of how it was measured. */
static void print_heads(const struct results *r, const char *mark, FILE *to)
{
	for_each_system(r, s, SYSTEM_SLIME)
	{
		for (const char *line = r->sweeps[s].head; *line; line += strcspn(line, "\n") + 1)
			fprintf(to, "%s%.*s\n", mark, (int)strcspn(line, "\n"), line);
	}
}

int comparison_print(const struct results *r, bool csv, FILE *to)
{
	int ret = 0;

	print_heads(r, csv ? "# " : "", to);
	if (csv) {
		ret = print_csv(r, to);
	} else {
		for (enum figure f = 0; f < N_FIGURES && !ret; f++)
			ret = print_figure(r, f, to);
	}
	if (!ret && fflush(to))
		ret = -errno;
	return ret;
}
