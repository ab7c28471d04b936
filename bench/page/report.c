/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "bench/page/page.h"

/* pages/s and GB/s of 10^9 bytes, one direction; latencies of a batch. */
static const struct cli_column columns[] = {
	{ "op", "op", false },
	{ "page", "page_size", true },
	{ "batch", "batch_size", true },
	{ "threads", "threads", true },
	{ "pages/s", "pages_per_s", true },
	{ "GB/s", "bw_gb_s", true },
	{ "p50 us", "p50_us", true },
	{ "p95 us", "p95_us", true },
	{ "p99 us", "p99_us", true },
	{ "p99.9 us", "p999_us", true },
	{ "max us", "max_us", true },
	{ "hit %", "hit_percent", true },
	{ "wrong", "wrong_pages", true },
	{ "CPU s/GB", "cpu_s_gb", true },
	{ "note", "note", false },
	/* with --machine: */
	{ "ib_read_bw GB/s", "ib_read_bw_gb_s", true },
	{ "ratio", "ratio", true },
};

#define N_COLUMNS (sizeof(columns) / sizeof(columns[0]))
#define N_BARE	  2 /* of them, at the end */

static double per_s(uint64_t n, const struct page_rung *r)
{
	return r->elapsed_ns ? (double)n * 1e9 / (double)r->elapsed_ns : 0;
}

static double gb_s(const struct page_rung *r)
{
	return per_s(r->bytes, r) / 1e9;
}

static double us(const struct page_rung *r, unsigned permille)
{
	return (double)load_histogram_permille(&r->latency, permille) / 1e3;
}

static double hit_percent(const struct page_rung *r)
{
	return r->pages ? 100.0 * (double)r->hits / (double)r->pages : 0;
}

static double cpu_per_gb(const struct page_rung *r)
{
	return r->bytes ? (double)r->cpu_ns / (double)r->bytes : 0;
}

/* Of the rows of all devices. */
static bool is_peak(const struct page_result *r, size_t i)
{
	size_t step = r->n_groups + 1;

	if (i % step != r->n_groups)
		return false;
	for (size_t k = r->n_groups; k < r->n_rungs; k += step)
		if (per_s(r->rungs[k].hits, &r->rungs[k]) > per_s(r->rungs[i].hits, &r->rungs[i]))
			return false;
	return r->n_rungs > step;
}

/* What the bytes of a row cannot come faster than; 0: unknown. Over rdma the devices move
 * them, else a CPU copies them at least once. */
static double limit_of(const struct page_result *r, const struct page_rung *row)
{
	double cpus = row->threads < r->n_cpus ? row->threads : r->n_cpus;

	if (r->transports == 1u << SLIME_TRANSPORT_RDMA)
		return r->line_gb_s;
	return r->transports & 1u << SLIME_TRANSPORT_RDMA ? 0 : r->copy_gb_s * cpus;
}

static bool is_impossible(const struct page_result *r, const struct page_rung *row)
{
	double limit = limit_of(r, row);

	return limit > 0 && gb_s(row) > limit;
}

/* What the devices of a row do without us, by perftest; 0: unknown. */
static double bare_of(const struct page_result *r, size_t i)
{
	return r->has_bare ? r->bare_gb_s[i % (r->n_groups + 1)] : 0;
}

static double ratio_of(const struct page_result *r, size_t i)
{
	return bare_of(r, i) > 0 ? gb_s(&r->rungs[i]) / bare_of(r, i) : 0;
}

static void note_of(const struct page_result *r, size_t i, char out[2 * PAGE_NOTE_MAX])
{
	const struct page_rung *row = &r->rungs[i];

	snprintf(out, 2 * PAGE_NOTE_MAX, "%s%s%s%s", row->note,
		 *row->note && is_peak(r, i) ? " " : "", is_peak(r, i) ? "[PEAK]" : "",
		 is_impossible(r, row) ? " impossible: above what the host can move" : "");
}

static const char *name_of(const struct page_result *r)
{
	return r->judged ? "judge" : page_op_names[r->settings->page.op];
}

static void cells(struct cli_table *t, const void *result, size_t i)
{
	const struct page_result *all = result;
	const struct page_settings *p = &all->settings->page;
	const struct page_rung *r = &all->rungs[i];
	char note[2 * PAGE_NOTE_MAX];

	cli_table_cell(t, "%s", name_of(all));
	cli_table_cell(t, "%" PRIu64, p->page_size);
	cli_table_cell(t, "%" PRId64, p->batch_size);
	cli_table_cell(t, "%u", r->threads);
	cli_table_cell(t, "%.0f", per_s(r->hits, r));
	cli_table_cell(t, "%.3f", gb_s(r));
	cli_table_cell(t, "%.1f", us(r, 500));
	cli_table_cell(t, "%.1f", us(r, 950));
	cli_table_cell(t, "%.1f", us(r, 990));
	cli_table_cell(t, "%.1f", us(r, 999));
	cli_table_cell(t, "%.1f", (double)r->latency.max_ns / 1e3);
	cli_table_cell(t, "%.1f", hit_percent(r));
	cli_table_cell(t, "%" PRIu64, r->wrong);
	cli_table_cell(t, "%.3f", cpu_per_gb(r));
	note_of(all, i, note);
	cli_table_cell(t, "%s", note);
	if (!all->n_groups)
		return;
	if (bare_of(all, i) > 0) {
		cli_table_cell(t, "%.3f", bare_of(all, i));
		cli_table_cell(t, "%.3f", ratio_of(all, i));
	} else {
		cli_table_cell(t, "-");
		cli_table_cell(t, "-");
	}
}

static json_t *number_or_null(double v)
{
	return v > 0 ? json_real(v) : json_null();
}

static json_t *row(const void *result, size_t i)
{
	const struct page_result *all = result;
	const struct page_settings *p = &all->settings->page;
	const struct page_rung *r = &all->rungs[i];

	return json_pack(
		"{s:s, s:I, s:I, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:f, s:b, s:b, s:s, s:o, s:o}",
		"op", name_of(all), "page_size", (json_int_t)p->page_size, "batch_size",
		(json_int_t)p->batch_size, "threads", (int)r->threads, "pages_per_s",
		per_s(r->hits, r), "bw_gb_s", gb_s(r), "p50_us", us(r, 500), "p95_us", us(r, 950),
		"p99_us", us(r, 990), "p999_us", us(r, 999), "max_us",
		(double)r->latency.max_ns / 1e3, "hit_percent", hit_percent(r), "wrong_pages",
		(json_int_t)r->wrong, "cpu_s_gb", cpu_per_gb(r), "peak", is_peak(all, i),
		"impossible", is_impossible(all, r), "note", r->note, "ib_read_bw_gb_s",
		number_or_null(bare_of(all, i)), "ratio", number_or_null(ratio_of(all, i)));
}

static int set(json_t *run, const char *key, json_t *value)
{
	return json_object_set_new(run, key, value);
}

/* GB/s in each interval, and when owners ended. */
static json_t *series_of(const struct page_series *s)
{
	json_t *gb_s = json_array(), *faults = json_array();

	for (uint32_t i = 0; i < s->n; i++)
		json_array_append_new(
			gb_s, json_real((double)s->bytes[i] / 1e6 / (double)s->interval_ms));
	for (uint32_t i = 0; i < s->n_faults; i++)
		json_array_append_new(faults, json_real((double)s->fault_ms[i] / 1e3));
	return json_pack("{s:i, s:o, s:o}", "interval_ms", (int)s->interval_ms, "gb_s", gb_s,
			 "faults_s", faults);
}

static int add_judged(const struct page_result *r, json_t *run)
{
	return set(run, "series", series_of(&r->series)) ||
	       set(run, "owners_ended", json_integer((json_int_t)r->killed)) ||
	       set(run, "pages_rewritten", json_integer((json_int_t)r->rewritten)) ||
	       set(run, "pages_deleted", json_integer((json_int_t)r->deleted)) ||
	       set(run, "pages_rejected", json_integer((json_int_t)r->rejected));
}

static json_t *transports_of(const struct page_result *r)
{
	json_t *all = json_array();

	for (int i = 0; all && i < 32; i++)
		if (r->transports & 1u << i)
			json_array_append_new(
				all, json_string(slime_transport_name((enum slime_transport)i)));
	return all;
}

static json_t *devices_of(const struct page_result *r)
{
	const char *devices = r->settings->between.devices;

	return devices ? json_string(devices) : json_null();
}

static int add_run(const void *result, json_t *run)
{
	const struct page_result *r = result;
	const struct page_settings *p = &r->settings->page;

	return set(run, "agent", json_string(r->agent)) ||
	       set(run, "processes", json_integer((json_int_t)r->n_processes)) ||
	       set(run, "transports", transports_of(r)) || set(run, "devices", devices_of(r)) ||
	       set(run, "max_channels",
		   json_integer((json_int_t)r->settings->between.max_channels)) ||
	       set(run, "batch_size", json_integer((json_int_t)p->batch_size)) ||
	       set(run, "page_size", json_integer((json_int_t)p->page_size)) ||
	       set(run, "memcpy_gb_s", json_real(r->copy_gb_s)) ||
	       set(run, "line_gb_s", json_real(r->line_gb_s)) ||
	       set(run, "owners", json_integer((json_int_t)r->n_owners)) ||
	       set(run, "layout", json_string(page_layout_names[p->layout])) ||
	       set(run, "working_set", json_integer((json_int_t)p->working_set)) ||
	       set(run, "verify", json_string(page_verify_names[p->verify])) ||
	       set(run, "dir_cache_ttl_ms", json_integer((json_int_t)p->dir_cache_ttl_ms)) ||
	       set(run, "replicas", json_integer((json_int_t)p->replicas)) ||
	       (r->judged && add_judged(r, run));
}

int page_report(const struct page_result *r, enum report_format format, FILE *to)
{
	const struct page_settings *p = &r->settings->page;
	char between[1024], who[SLIME_AGENT_NAME_MAX + 32];

	if (r->n_processes > 1)
		snprintf(who, sizeof(who), "%u processes", r->n_processes);
	else
		snprintf(who, sizeof(who), "%s", r->agent);
	snprintf(between, sizeof(between),
		 "%s, %u owners, layout %s, working set %" PRId64
		 " pages, verify %s, places kept for %" PRId64 " ms",
		 who, r->n_owners, page_layout_names[p->layout], p->working_set,
		 page_verify_names[p->verify], p->dir_cache_ttl_ms);
	if (r->judged)
		snprintf(between + strlen(between), sizeof(between) - strlen(between),
			 "; %" PRIu64 " owners ended, %" PRIu64 " pages rewritten, %" PRIu64
			 " deleted, %" PRIu64 " had changed on arrival",
			 r->killed, r->rewritten, r->deleted, r->rejected);
	return document_print(
		&(struct document){ .bench = "page",
				    .flags = r->flags,
				    .between = between,
				    .result = r,
				    .n = r->n_rungs,
				    .columns = columns,
				    .n_columns = r->n_groups ? N_COLUMNS : N_COLUMNS - N_BARE,
				    .cells = cells,
				    .json = row,
				    .add_run = add_run },
		format, to);
}
