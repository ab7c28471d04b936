/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/devices.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "cli/output/table.h"

size_t devices_n_usable(const struct slime_topo_devices *d)
{
	size_t n = 0;

	for (size_t i = 0; i < d->n_devices; i++)
		for (size_t p = 0; p < d->devices[i]->n_ports; p++)
			n += d->devices[i]->ports[p]->usable;
	return n;
}

/* ---- the table, a row a port ---- */

static const struct cli_column columns[] = {
	{ "device", NULL, false },     { "port", NULL, true },	  { "state", NULL, false },
	{ "link layer", NULL, false }, { "Gb/s", NULL, true },	  { "MTU", NULL, true },
	{ "netdev", NULL, false },     { "NUMA", NULL, true },	  { "PCI", NULL, false },
	{ "GID", NULL, true },	       { "usable", NULL, false },
};

static const char *or_dash(const char *text)
{
	return text[0] ? text : "-";
}

/* A number that has to be above least to be one. */
static void number_cell(struct cli_table *t, int64_t n, int64_t least)
{
	if (n < least)
		cli_table_cell(t, "-");
	else
		cli_table_cell(t, "%" PRId64, n);
}

static void add_row(struct cli_table *t, const struct slime_topo_device *d,
		    const struct slime_topo_port *p)
{
	cli_table_cell(t, "%s", d->name);
	cli_table_cell(t, "%u", p->num);
	cli_table_cell(t, "%s", p->state);
	cli_table_cell(t, "%s", slime_link_layer_name(p->link_layer));
	cli_table_cell(t, "%.4g", (double)p->mbps / 1000);
	number_cell(t, p->mtu, 1);
	cli_table_cell(t, "%s", or_dash(p->netdev));
	number_cell(t, d->numa_node, 0);
	cli_table_cell(t, "%s", or_dash(d->pci));
	number_cell(t, p->gid_index, 0);
	cli_table_cell(t, "%s", p->usable ? "yes" : "no");
}

static int print_table(const struct slime_topo_devices *d, FILE *to)
{
	struct cli_table *t;
	int ret = cli_table_create(&t, columns, sizeof(columns) / sizeof(columns[0]));

	if (ret)
		return ret;
	for (size_t i = 0; i < d->n_devices; i++)
		for (size_t p = 0; p < d->devices[i]->n_ports; p++)
			add_row(t, d->devices[i], d->devices[i]->ports[p]);
	ret = cli_table_print(t, cli_table_style_of_locale(), to);
	cli_table_destroy(t);
	return ret;
}

/* ---- what does not fit a row ---- */

static void print_limits(const struct slime_topo_limits *l, FILE *to)
{
	fprintf(to, "  limits    %u queue pairs of %u work requests with %u pieces each, ",
		l->max_qp, l->max_qp_wr, l->max_sge);
	fprintf(to, "%u reads on the way, messages of %" PRIu64 " MiB%s\n", l->max_rd_atomic,
		l->max_msg_size >> 20, l->on_demand_paging ? ", on-demand paging" : "");
}

static void print_port(const struct slime_topo_port *p, FILE *to)
{
	char text[SLIME_GID_TEXT_MAX];

	fprintf(to, "  port %-4u %s: %s\n", p->num, p->usable ? "usable" : "not usable", p->why);
	if (p->netdev_mtu)
		fprintf(to, "            MTU of %s: %u\n", p->netdev, p->netdev_mtu);
	for (size_t i = 0; i < p->n_gids; i++)
		fprintf(to, "  GID %-5u %-7s  %s  %s\n", p->gids[i].index,
			slime_gid_type_name(p->gids[i].type), slime_gid_text(p->gids[i].raw, text),
			p->gids[i].netdev);
}

static void print_device(const struct slime_topo_device *d, FILE *to)
{
	fprintf(to, "\n%s\n", d->name);
	if (d->driver[0] || d->firmware[0] || d->board[0])
		fprintf(to, "  driver    %s, firmware %s, board %s\n", or_dash(d->driver),
			or_dash(d->firmware), or_dash(d->board));
	if (d->limits)
		print_limits(d->limits, to);
	for (size_t i = 0; i < d->n_ports; i++)
		print_port(d->ports[i], to);
	for (size_t i = 0; i < d->n_gpus; i++)
		fprintf(to, "  GPU       %s  %04x:%04x  %s\n", d->gpus[i]->pci, d->gpus[i]->vendor,
			d->gpus[i]->device, slime_distance_name(d->gpus[i]->distance));
}

/* A region that a device may reach stays in memory, and that is limited for most users. */
static void print_lock_limit(FILE *to)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return;
	fprintf(to,
		"\nThis process may lock %" PRIu64
		" KiB of memory (ulimit -l), and without CAP_IPC_LOCK\n"
		"no more than that can be registered: docs/rdma.md says how to raise it.\n",
		(uint64_t)limit.rlim_cur >> 10);
}

static int print_text(const struct slime_topo_devices *d, FILE *to)
{
	int ret;

	if (!d->n_devices) {
		fprintf(to, "No RDMA: %s.\n", d->why);
		return fflush(to) ? -EIO : 0;
	}
	ret = print_table(d, to);
	for (size_t i = 0; !ret && i < d->n_devices; i++)
		print_device(d->devices[i], to);
	print_lock_limit(to);
	return !ret && (fflush(to) || ferror(to)) ? -EIO : ret;
}

int devices_print(const char *sysfs, bool json, FILE *to)
{
	struct slime_topo_devices *d;
	size_t n_usable;
	int ret = slime_topo_devices_create(sysfs, &d);

	if (ret) {
		fprintf(stderr, "slime: devices: %s\n", strerror(-ret));
		return EXIT_FAILURE;
	}
	ret = json ? devices_print_json(d, to) : print_text(d, to);
	n_usable = devices_n_usable(d);
	slime_topo_devices_destroy(d);
	if (ret)
		fprintf(stderr, "slime: standard output: %s\n", strerror(-ret));
	return ret || !n_usable ? EXIT_FAILURE : EXIT_SUCCESS;
}
