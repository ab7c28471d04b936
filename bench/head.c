/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <time.h>

#include <slime/slime.h>

#include "bench/head.h"
#include "cli/options/version.h"

struct head {
	struct slime_topo topo; /* this host, now */
	char date[32];
};

static int read_head(struct head *h)
{
	time_t now = time(NULL);
	struct tm tm;

	gmtime_r(&now, &tm);
	strftime(h->date, sizeof(h->date), "%Y-%m-%dT%H:%M:%SZ", &tm);
	return slime_topo_get(NULL, &h->topo);
}

/* ---- tables ---- */

/* Lines that begin with mark. */
static void print_lines(const struct head *h, const struct head_rows *rows, const char *mark,
			FILE *to)
{
	fprintf(to, "%sdate      %s\n", mark, h->date);
	fprintf(to, "%shost      %s, %u CPUs, %s, Linux %s\n", mark, h->topo.hostname,
		h->topo.n_cpus, h->topo.cpu_model, h->topo.kernel);
	fprintf(to, "%sbuild     slime %s, commit %s, %s, %s\n", mark, cli_version(), cli_commit(),
		cli_build(), cli_compiler());
	fprintf(to, "%sbetween   %s\n", mark, rows->between);
	if (rows->rails)
		fprintf(to, "%srails     %s\n", mark, rows->rails);
	fprintf(to, "%sflags     %s\n", mark, rows->flags);
}

static int print_rows(const struct head_rows *rows, bool csv, FILE *to)
{
	struct cli_table *t;
	int ret = cli_table_create(&t, rows->columns, rows->n_columns);

	if (ret)
		return ret;
	for (size_t i = 0; i < rows->n; i++)
		rows->cells(t, rows->result, i);
	ret = csv ? cli_table_print_csv(t, to)
		  : cli_table_print(t, cli_table_style_of_locale(), to);
	cli_table_destroy(t);
	return ret;
}

/* ---- JSON ---- */

static json_t *json_run(const struct head *h, const struct head_rows *rows)
{
	json_t *run =
		json_pack("{s:s, s:s, s:i, s:s, s:s, s:s, s:s, s:s, s:s}", "date", h->date, "host",
			  h->topo.hostname, "cpus", (int)h->topo.n_cpus, "cpu", h->topo.cpu_model,
			  "kernel", h->topo.kernel, "version", cli_version(), "commit",
			  cli_commit(), "build", cli_build(), "flags", rows->flags);

	if (run && rows->add_run(rows->result, run)) {
		json_decref(run);
		return NULL;
	}
	return run;
}

static json_t *json_rows(const struct head_rows *rows)
{
	json_t *all = json_array();

	for (size_t i = 0; all && i < rows->n; i++) {
		if (json_array_append_new(all, rows->json(rows->result, i))) {
			json_decref(all);
			return NULL;
		}
	}
	return all;
}

static int print_json(const struct head *h, const struct head_rows *rows, FILE *to)
{
	json_t *all = json_pack("{s:s, s:o, s:o}", "bench", rows->bench, "run", json_run(h, rows),
				"rows", json_rows(rows));
	int ret = all ? 0 : -ENOMEM;

	if (!ret && (json_dumpf(all, to, JSON_INDENT(2)) || fputc('\n', to) == EOF))
		ret = -EIO;
	json_decref(all);
	if (!ret && fflush(to))
		ret = -errno;
	return ret;
}

int head_print(const struct head_rows *rows, enum report_format format, FILE *to)
{
	struct head h;
	int ret = read_head(&h);

	if (ret)
		return ret;
	if (format == REPORT_JSON)
		return print_json(&h, rows, to);
	if (format != REPORT_ROWS)
		print_lines(&h, rows, format == REPORT_CSV ? "# " : "", to);
	if (format == REPORT_HEAD)
		return fflush(to) ? -errno : 0;
	if (format == REPORT_TABLE)
		fputc('\n', to);
	return print_rows(rows, format != REPORT_TABLE, to);
}
