/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/rnr/rnr.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "cli/process/signals.h"
#include "cli/output/table.h"

#define DATE_LEN 24

static void date_now(char date[DATE_LEN])
{
	time_t now = time(NULL);
	struct tm tm;

	gmtime_r(&now, &tm);
	strftime(date, DATE_LEN, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

/* ---- the table: since the devices were started, or since we watch ---- */

static const struct cli_column columns[] = {
	{ "device", NULL, false },  { "port", NULL, true },  { "kind", NULL, false },
	{ "counter", NULL, false }, { "count", NULL, true }, { "of", NULL, false },
};

static void add_row(struct cli_table *t, const struct slime_rnr_counter *c, uint64_t count)
{
	cli_table_cell(t, "%s", c->device);
	cli_table_cell(t, "%u", c->port);
	cli_table_cell(t, "%s", slime_rnr_kind_name(c->kind));
	cli_table_cell(t, "%s", c->name);
	cli_table_cell(t, "%" PRIu64, count);
	cli_table_cell(t, "%s", c->meaning);
}

static int print_rows(const struct slime_rnr_monitor *m, bool total, struct cli_table *t, FILE *to)
{
	size_t n, n_zero = 0;
	const struct slime_rnr_counter *const *all = slime_rnr_monitor_counters(m, &n);
	int ret = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t count = total ? all[i]->total : all[i]->value;

		if (count)
			add_row(t, all[i], count);
		n_zero += !count;
	}
	if (cli_table_n_rows(t))
		ret = cli_table_print(t, cli_table_style_of_locale(), to);
	if (n_zero)
		fprintf(to, "%zu of %zu counters %s zero.\n", n_zero, n,
			total ? "stayed at" : "are");
	return !ret && (fflush(to) || ferror(to)) ? -EIO : ret;
}

static int print_table(const struct slime_rnr_monitor *m, bool total, FILE *to)
{
	struct cli_table *t;
	int ret = cli_table_create(&t, columns, sizeof(columns) / sizeof(columns[0]));

	if (ret)
		return ret;
	ret = print_rows(m, total, t, to);
	cli_table_destroy(t);
	return ret;
}

/* ---- watching ---- */

/* A line for each counter that grew, or one that says that none did. */
static int print_growth(const struct slime_rnr_monitor *m, const char *date, FILE *to)
{
	size_t n, n_grown = 0;
	const struct slime_rnr_counter *const *all = slime_rnr_monitor_counters(m, &n);

	for (size_t i = 0; i < n; i++) {
		const struct slime_rnr_counter *c = all[i];

		if (!c->added)
			continue;
		n_grown++;
		fprintf(to, "%s  %s:%u  %s  +%" PRIu64 "  %s\n", date, c->device, c->port, c->name,
			c->added, c->meaning);
	}
	if (!n_grown)
		fprintf(to, "%s  quiet\n", date);
	return fflush(to) || ferror(to) ? -EIO : 0;
}

/* Until the moment has come: 0, or the signal that came before. */
static int wait_until(int signals, uint64_t moment_ns)
{
	struct pollfd fd = { .fd = signals, .events = POLLIN };

	for (;;) {
		uint64_t now = sl_clock_ns();
		int sig = cli_signals_read(signals);

		if (sig > 0 || now >= moment_ns)
			return sig > 0 ? sig : 0;
		poll(&fd, 1, (int)((moment_ns - now) / SL_NS_PER_MS) + 1);
	}
}

static int print_sample(const struct rnr_options *o, const struct slime_rnr_monitor *m, FILE *to)
{
	char date[DATE_LEN];

	date_now(date);
	return o->json ? rnr_print_json(m, date, to) : print_growth(m, date, to);
}

/* 0, a signal, a negative errno. */
static int watch_samples(const struct rnr_options *o, struct slime_rnr_monitor *m, int signals,
			 FILE *to)
{
	uint64_t next = sl_clock_ns();
	int ret = 0;

	for (int64_t i = 0; !ret && (!o->n_samples || i < o->n_samples); i++) {
		uint64_t now = sl_clock_ns();

		next += (uint64_t)o->interval_ns;
		if (next < now) /* we were stopped: what was missed is one sample */
			next = now;
		ret = wait_until(signals, next);
		if (!ret)
			ret = slime_rnr_monitor_sample(m);
		if (!ret)
			ret = print_sample(o, m, to);
	}
	return ret;
}

static int watch(const struct rnr_options *o, struct slime_rnr_monitor *m, FILE *to)
{
	static const int stopping[] = { SIGINT, SIGTERM };
	int signals = cli_signals_open(stopping, sizeof(stopping) / sizeof(stopping[0]));
	int ret, printed = 0;

	if (signals < 0)
		return signals;
	ret = watch_samples(o, m, signals, to);
	if (ret >= 0 && !o->json)
		printed = print_table(m, true, to);
	cli_signals_close(signals);
	return printed ? printed : ret;
}

/* ---- the command ---- */

static int print_once(const struct rnr_options *o, const struct slime_rnr_monitor *m, FILE *to)
{
	char date[DATE_LEN];

	date_now(date);
	return o->json ? rnr_print_json(m, date, to) : print_table(m, false, to);
}

static int complain(const char *what, int ret)
{
	fprintf(stderr, "slime-bench: %s: %s\n", what, strerror(-ret));
	return EXIT_FAILURE;
}

static int print_counters(const struct rnr_options *o, struct slime_rnr_monitor *m, FILE *to)
{
	size_t n;
	int ret;

	slime_rnr_monitor_counters(m, &n);
	if (!n) {
		fprintf(stderr, "slime-bench: no RDMA device here has such counters: slime devices "
				"says what there is\n");
		return EXIT_FAILURE;
	}
	ret = o->watch ? watch(o, m, to) : print_once(o, m, to);
	if (ret < 0)
		return complain("rnr", ret);
	return ret ? 128 + ret : EXIT_SUCCESS;
}

int rnr_print(const struct rnr_options *o, FILE *to)
{
	struct slime_rnr_monitor *m;
	int ret = slime_rnr_monitor_create(o->sysfs, &m);
	int status;

	if (ret)
		return complain("rnr", ret);
	status = print_counters(o, m, to);
	slime_rnr_monitor_destroy(m);
	return status;
}
