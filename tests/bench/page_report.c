/* SPDX-License-Identifier: Apache-2.0 */
/* What page drive prints of a machine: a row for each device beside ib_read_bw, and one of all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>

#include "bench/page/page.h"

/* Of page/drive.c, which needs agents. */
const char *const page_op_names[] = { "get", "put", "exists", "mixed", NULL };
const char *const page_layout_names[] = { "mla", "mha", NULL };
const char *const page_verify_names[] = { "always", "sample", "never", NULL };

#define GB UINT64_C(1000000000)

static struct settings settings = {
	.page = { .page_size = 131072, .batch_size = 32 },
	.between = { .devices = "mlx5_0,mlx5_1" },
};

/* A second of so many GB. */
static void add_row(struct page_result *r, const char *note, uint64_t gb)
{
	struct page_rung *row = &r->rungs[r->n_rungs++];

	*row = (struct page_rung){
		.threads = 4, .bytes = gb * GB, .hits = 1000, .pages = 1000, .elapsed_ns = GB
	};
	snprintf(row->note, sizeof(row->note), "%s", note);
	load_histogram_init(&row->latency);
	load_histogram_add(&row->latency, 1000);
}

static struct page_result *two_devices(void)
{
	struct page_result *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	r->settings = &settings;
	r->flags = "page drive --machine";
	r->n_processes = 2;
	r->transports = 1u << SLIME_TRANSPORT_RDMA;
	r->n_groups = 2;
	add_row(r, "mlx5_0", 9);
	add_row(r, "mlx5_1", 12);
	add_row(r, "all", 21);
	return r;
}

static json_t *print_json(const struct page_result *r)
{
	char *text = NULL;
	size_t len;
	FILE *to = open_memstream(&text, &len);
	json_t *all;

	assert_int_equal(page_report(r, REPORT_JSON, to), 0);
	fclose(to);
	all = json_loads(text, 0, NULL);
	assert_non_null(all);
	free(text);
	return all;
}

static const json_t *member(const json_t *all, size_t row, const char *key)
{
	return json_object_get(json_array_get(json_object_get(all, "rows"), row), key);
}

static void assert_near(double got, double wanted)
{
	if (got < wanted - 0.001 || got > wanted + 0.001)
		fail_msg("%g is not %g", got, wanted);
}

static void report__of_devices_beside_perftest_has_a_ratio_for_each_and_for_all(void **state)
{
	struct page_result *r = two_devices();
	json_t *all;

	(void)state;
	r->has_bare = true;
	r->bare_gb_s[0] = 10;
	r->bare_gb_s[1] = 12;
	r->bare_gb_s[2] = 22;
	all = print_json(r);
	assert_near(json_number_value(member(all, 0, "ratio")), 0.9);
	assert_near(json_number_value(member(all, 1, "ratio")), 1);
	assert_near(json_number_value(member(all, 2, "ratio")), 21.0 / 22);
	assert_near(json_number_value(member(all, 2, "ib_read_bw_gb_s")), 22);
	assert_string_equal(json_string_value(member(all, 2, "note")), "all");
	json_decref(all);
	free(r);
}

static void report__without_perftest_has_no_ratio(void **state)
{
	struct page_result *r = two_devices();
	json_t *all = print_json(r);

	(void)state;
	assert_true(json_is_null(member(all, 0, "ratio")));
	assert_true(json_is_null(member(all, 2, "ib_read_bw_gb_s")));
	json_decref(all);
	free(r);
}

static void report__of_a_figure_above_the_line_rate_says_that_it_is_impossible(void **state)
{
	struct page_result *r = two_devices();
	json_t *all;

	(void)state;
	r->line_gb_s = 12.5;
	all = print_json(r);
	assert_true(json_is_false(member(all, 0, "impossible")));
	assert_true(json_is_true(member(all, 2, "impossible")));
	json_decref(all);
	free(r);
}

/* Where and by what it was measured, in each result. */
static void report__has_the_host_the_libraries_and_the_options(void **state)
{
	static const char *const members[] = {
		"date",	     "host",	   "cpu",	  "cpus",	  "numa_nodes", "kernel",
		"verbs",     "ofed",	   "nics",	  "version",	  "commit",	"build",
		"flags",     "transports", "devices",	  "max_channels", "processes",	"layout",
		"page_size", "batch_size", "working_set", "verify",
	};
	struct page_result *r = two_devices();
	json_t *all = print_json(r);

	(void)state;
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		if (!json_object_get(json_object_get(all, "run"), members[i]))
			fail_msg("run has no %s", members[i]);
	assert_int_equal(json_integer_value(member(all, 0, "threads")), 4);
	json_decref(all);
	free(r);
}

static void report__of_a_machine_as_a_table_ends_with_the_ratio(void **state)
{
	struct page_result *r = two_devices();
	char *text = NULL;
	size_t len;
	FILE *to = open_memstream(&text, &len);

	(void)state;
	r->has_bare = true;
	r->bare_gb_s[0] = 10;
	assert_int_equal(page_report(r, REPORT_CSV, to), 0);
	fclose(to);
	assert_non_null(strstr(text, ",note,ib_read_bw_gb_s,ratio\n"));
	assert_non_null(strstr(text, ",mlx5_0,10.000,0.900\n"));
	assert_non_null(strstr(text, ",mlx5_1,-,-\n"));
	free(text);
	free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			report__of_devices_beside_perftest_has_a_ratio_for_each_and_for_all),
		cmocka_unit_test(report__without_perftest_has_no_ratio),
		cmocka_unit_test(
			report__of_a_figure_above_the_line_rate_says_that_it_is_impossible),
		cmocka_unit_test(report__has_the_host_the_libraries_and_the_options),
		cmocka_unit_test(report__of_a_machine_as_a_table_ends_with_the_ratio),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
