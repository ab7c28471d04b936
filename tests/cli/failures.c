/* SPDX-License-Identifier: Apache-2.0 */
/* Each allocation fails in turn: the scenario says so, and leaves nothing behind. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <tests/support/fail_alloc.h>

#include "cli/options/config.h"
#include "cli/output/table.h"

struct link {
	const char *to;
};

struct node {
	const char *name;
	const struct cli_pair *labels;
	size_t n_labels;
	const uint64_t *sizes;
	size_t n_sizes;
	struct link *links;
	size_t n_links;
};

static const struct cli_setting link_settings[] = {
	CLI_STRING(struct link, to, "to", .required = true),
	CLI_END,
};
static const struct cli_setting node_settings[] = {
	CLI_STRING(struct node, name, "name", .def = "x"),
	CLI_PAIRS(struct node, labels, n_labels, "labels", .help = ""),
	CLI_SIZES(struct node, sizes, n_sizes, "sizes", .def = "1KiB,2KiB"),
	CLI_LIST(struct node, links, n_links, "links", link_settings, .unique = "to"),
	CLI_END,
};
static const struct cli_setting options[] = {
	CLI_KEY("name", "name"),
	CLI_KEY("sizes", "sizes"),
	CLI_SIZES(struct node, sizes, n_sizes, "more", .def = "1"),
	CLI_SET,
	CLI_END,
};
static const struct cli_command command = { .name = "p", .tables = { options } };
static const struct cli_program program = { .name = "p",
					    .main = &command,
					    .settings = node_settings };

typedef int scenario_fn(void);

static void run(scenario_fn *scenario)
{
	long n = 1;

	for (;; n++) {
		int ret;

		fail_alloc_at(n);
		ret = scenario();
		/* What runs at exit may allocate, too. */
		if (!fail_alloc_end()) {
			assert_int_equal(ret, 0);
			break;
		}
		assert_int_equal(ret, -ENOMEM);
	}
	/* It did allocate, or the loop shows nothing. */
	assert_true(n > 1);
}

static int read_config(struct cli_config *c, const struct cli_args *args)
{
	static const char text[] = "labels: { a: b, c: d }\nlinks: [ { to: b }, { to: c } ]\n";
	struct node node = { 0 };
	int ret = cli_config_load_text(c, "n", text, strlen(text));

	if (!ret)
		ret = cli_config_apply(c, args);
	return ret ? ret : cli_config_read(c, node_settings, &node);
}

static int options_and_config(void)
{
	char *argv[] = { "p",	  "--name",	    "x",     "--sizes=1,2",  "--more", "3,4",
			 "--set", "links.0.to=[x]", "--set", "links.0.to=y", NULL };
	struct node node = { 0 };
	struct cli_args args;
	struct cli_config *c;
	int ret = cli_args_init(&args, &program, 10, argv, &node);

	if (ret)
		return ret;
	ret = cli_config_create(&c);
	if (!ret) {
		ret = read_config(c, &args);
		cli_config_destroy(c);
	}
	cli_args_fini(&args);
	return ret;
}

static int errors_of_a_config(void)
{
	static const char text[] = "labels: [1]\nlinks: [ { to: b }, { to: b, x: 1 } ]\n";
	struct node node = { 0 };
	struct cli_config *c;
	int ret = cli_config_create(&c);

	if (ret)
		return ret;
	ret = cli_config_load_text(c, "n", text, strlen(text));
	if (!ret)
		ret = cli_config_read(c, node_settings, &node);
	if (ret == -EINVAL)
		ret = cli_config_n_errors(c) == 3 ? 0 : -EPROTO;
	cli_config_destroy(c);
	return ret;
}

static int table_of_cells(void)
{
	static const struct cli_column columns[] = { { "a", "a", false }, { "b", "b", true } };
	struct cli_table *t;
	FILE *to = fopen("/dev/null", "w");
	int ret = cli_table_create(&t, columns, 2);

	assert_non_null(to);
	if (!ret) {
		for (int i = 0; i < 200; i++)
			cli_table_cell(t, "%d", i);
		ret = cli_table_print(t, CLI_TABLE_ASCII, to);
		cli_table_destroy(t);
	}
	fclose(to);
	return ret;
}

static void config__without_memory_says_so(void **state)
{
	(void)state;
	run(options_and_config);
}

static void errors__without_memory_say_so(void **state)
{
	(void)state;
	run(errors_of_a_config);
}

static void table__without_memory_says_so(void **state)
{
	(void)state;
	run(table_of_cells);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(config__without_memory_says_so),
		cmocka_unit_test(errors__without_memory_say_so),
		cmocka_unit_test(table__without_memory_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
