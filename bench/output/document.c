/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <slime/slime.h>

#include "tool/devices.h"
#include "bench/output/document.h"
#include "cli/options/version.h"

struct head {
	struct slime_topo topo; /* this host, now */
	struct slime_topo_devices *devices;
	char verbs[64]; /* "libibverbs.so.1.14.44.0", whose last numbers are rdma-core's; "": none
			 */
	char ofed[64];	/* the version of mlx5_core where it is not the kernel's own; "": it is, or
			   there is  none */
	char date[32];
};

/* The file behind the library that the program has. */
static void find_verbs(char out[64])
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];

	*out = '\0';
	while (maps && !*out && fgets(line, sizeof(line), maps)) {
		const char *at = strstr(line, "/libibverbs.so");

		if (at)
			snprintf(out, 64, "%.*s", (int)strcspn(at + 1, " \n"), at + 1);
	}
	if (maps)
		fclose(maps);
}

/* The driver of a kernel has no version of its own, that of OFED has. */
static void find_ofed(char out[64])
{
	FILE *in = fopen("/sys/module/mlx5_core/version", "re");

	*out = '\0';
	if (in && !fgets(out, 64, in))
		*out = '\0';
	out[strcspn(out, "\n")] = '\0';
	if (in)
		fclose(in);
}

static int read_head(struct head *h)
{
	time_t now = time(NULL);
	struct tm tm;
	int ret;

	gmtime_r(&now, &tm);
	strftime(h->date, sizeof(h->date), "%Y-%m-%dT%H:%M:%SZ", &tm);
	find_verbs(h->verbs);
	find_ofed(h->ofed);
	ret = slime_topo_get(NULL, &h->topo);
	return ret ? ret : slime_topo_devices_create(NULL, &h->devices);
}

static void free_head(struct head *h)
{
	slime_topo_devices_destroy(h->devices);
}

/* ---- tables ---- */

static void print_device(const struct slime_topo_device *d, const char *mark, FILE *to)
{
	char gid[SLIME_GID_TEXT_MAX];

	for (size_t i = 0; i < d->n_ports; i++) {
		const struct slime_topo_port *p = d->ports[i];

		fprintf(to, "%snic       %s:%u, %s, firmware %s, NUMA node %d, %s %u Mb/s, MTU %u",
			mark, d->name, p->num, *d->board ? d->board : "no board",
			*d->firmware ? d->firmware : "none", d->numa_node,
			slime_link_layer_name(p->link_layer), p->mbps, p->mtu);
		for (size_t g = 0; g < p->n_gids; g++)
			if ((int)p->gids[g].index == p->gid_index)
				fprintf(to, ", GID %u %s %s", p->gids[g].index,
					slime_gid_type_name(p->gids[g].type),
					slime_gid_text(p->gids[g].raw, gid));
		fprintf(to, ", %s\n", p->state);
	}
}

/* Lines that begin with mark. */
static void print_lines(const struct head *h, const struct document *rows, const char *mark,
			FILE *to)
{
	fprintf(to, "%sdate      %s\n", mark, h->date);
	fprintf(to, "%shost      %s, %u CPUs, %s, Linux %s\n", mark, h->topo.hostname,
		h->topo.n_cpus, h->topo.cpu_model, h->topo.kernel);
	fprintf(to, "%snuma      %u nodes, pages of %llu KiB, verbs %s%s%s\n", mark,
		h->topo.n_nodes, (unsigned long long)h->topo.page_size / 1024,
		*h->verbs ? h->verbs : "none", *h->ofed ? ", OFED " : "", h->ofed);
	for (size_t i = 0; i < h->devices->n_devices; i++)
		print_device(h->devices->devices[i], mark, to);
	fprintf(to, "%sbuild     slime %s, commit %s, %s, %s\n", mark, cli_version(), cli_commit(),
		cli_build(), cli_compiler());
	fprintf(to, "%sbetween   %s\n", mark, rows->between);
	if (rows->rails)
		fprintf(to, "%srails     %s\n", mark, rows->rails);
	fprintf(to, "%sflags     %s\n", mark, rows->flags);
}

static int print_rows(const struct document *rows, bool csv, FILE *to)
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

static json_t *json_run(const struct head *h, const struct document *rows)
{
	json_t *run =
		json_pack("{s:s, s:s, s:i, s:i, s:s, s:s, s:o, s:s, s:s, s:s, s:s, s:s, s:s}",
			  "date", h->date, "host", h->topo.hostname, "numa_nodes",
			  (int)h->topo.n_nodes, "cpus", (int)h->topo.n_cpus, "verbs", h->verbs,
			  "ofed", h->ofed, "nics", devices_json(h->devices), "cpu",
			  h->topo.cpu_model, "kernel", h->topo.kernel, "version", cli_version(),
			  "commit", cli_commit(), "build", cli_build(), "flags", rows->flags);

	if (run && rows->add_run(rows->result, run)) {
		json_decref(run);
		return NULL;
	}
	return run;
}

static json_t *json_rows(const struct document *rows)
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

static int print_json(const struct head *h, const struct document *rows, FILE *to)
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

static int print(const struct head *h, const struct document *rows, enum report_format format,
		 FILE *to)
{
	if (format == REPORT_JSON)
		return print_json(h, rows, to);
	if (format != REPORT_ROWS)
		print_lines(h, rows, format == REPORT_CSV ? "# " : "", to);
	if (format == REPORT_HEAD)
		return fflush(to) ? -errno : 0;
	if (format == REPORT_TABLE)
		fputc('\n', to);
	return print_rows(rows, format != REPORT_TABLE, to);
}

int document_print(const struct document *rows, enum report_format format, FILE *to)
{
	struct head h;
	int ret = read_head(&h);

	if (ret)
		return ret;
	ret = print(&h, rows, format, to);
	free_head(&h);
	return ret;
}
