/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "cli/options/help.h"
#include "cli/options/option.h"

struct options {
	const char *config;
	bool json, color;
	int64_t wait_ms;
	const uint64_t *sizes;
	size_t n_sizes;
	const char *const *labels;
	size_t n_labels;
	int64_t qps;
};

struct file {
	uint16_t port;
};

static const struct cli_setting file_settings[] = {
	CLI_PORT(struct file, port, "port", .def = "3000", .help = "TCP port to listen on"),
	CLI_END,
};

static const struct cli_setting common[] = {
	CLI_STRING(struct options, config, "config", .letter = 'c', .value = "FILE",
		   .help = "configuration", .env = "CLI_TEST_CONFIG CLI_TEST_OTHER"),
	CLI_FLAG(struct options, json, "json", .letter = 'j', .help = "for machines"),
	CLI_FLAG(struct options, color, "color", .def = "true", .help = "colours"),
	CLI_SET,
	CLI_END,
};

static const struct cli_setting start_options[] = {
	CLI_KEY("port", "port", .env = "CLI_TEST_PORT"),
	CLI_SIZES(struct options, sizes, n_sizes, "sizes", .def = "1KiB,2KiB", .help = "sizes"),
	CLI_STRINGS(struct options, labels, n_labels, "label", .help = "labels"),
	CLI_INT(struct options, qps, "qps", .def = "2", .min = 1, .max = 8, .help = "queue pairs"),
	CLI_END,
};

static const struct cli_setting links_options[] = {
	CLI_DURATION_MS(struct options, wait_ms, "wait", .def = "0s", .help = "how long"),
	CLI_END,
};

static const struct cli_command commands[] = {
	{ .name = "start", .summary = "go into the background", .tables = { start_options } },
	{ .name = "obs links",
	  .summary = "list the links",
	  .operands = "[NAME...]",
	  .max_operands = 2,
	  .tables = { links_options } },
	{ .name = "obs nics", .summary = "list the NICs" },
	{ .name = NULL },
};

static const struct cli_program program = {
	.name = "prog",
	.summary = "does things",
	.commands = commands,
	.options = common,
	.settings = file_settings,
};

static const struct cli_command only = {
	.name = "one", .operands = "FILE", .min_operands = 1, .max_operands = 1
};
static const struct cli_program single = { .name = "one", .summary = "x", .main = &only };

static struct {
	struct options o;
	struct cli_args args;
	char err[2048];
	char out[8192];
} t;

static int redirect(int fd, FILE *to)
{
	int saved = dup(fd);

	assert_true(saved >= 0 && dup2(fileno(to), fd) == fd);
	return saved;
}

static void restore(int fd, int saved, FILE *from, char *text, size_t len)
{
	size_t n;

	fflush(NULL);
	dup2(saved, fd);
	close(saved);
	rewind(from);
	n = fread(text, 1, len - 1, from);
	text[n] = '\0';
	fclose(from);
}

static int parse_as(const struct cli_program *p, char **argv)
{
	FILE *err = tmpfile(), *out = tmpfile();
	int saved_err, saved_out, argc = 0, ret;

	assert_true(err && out);
	while (argv[argc])
		argc++;
	t.o = (struct options){ 0 };
	fflush(NULL);
	saved_err = redirect(STDERR_FILENO, err);
	saved_out = redirect(STDOUT_FILENO, out);
	ret = cli_args_init(&t.args, p, argc, argv, &t.o);
	restore(STDOUT_FILENO, saved_out, out, t.out, sizeof(t.out));
	restore(STDERR_FILENO, saved_err, err, t.err, sizeof(t.err));
	return ret;
}

#define parse(...) parse_as(&program, (char *[]){ "prog", __VA_ARGS__, NULL })

static int teardown(void **state)
{
	(void)state;
	cli_args_fini(&t.args);
	unsetenv("CLI_TEST_CONFIG");
	unsetenv("CLI_TEST_OTHER");
	unsetenv("CLI_TEST_PORT");
	return 0;
}

static void init__takes_every_way_to_write_an_option(void **state)
{
	(void)state;
	assert_int_equal(parse("-j", "start", "--qps", "3", "--no-color", "-cfile", "--label=a,b",
			       "--label", "c"),
			 0);
	assert_ptr_equal(t.args.command, &commands[0]);
	assert_true(t.o.json);
	assert_false(t.o.color);
	assert_int_equal(t.o.qps, 3);
	assert_string_equal(t.o.config, "file");
	assert_int_equal(t.o.n_labels, 2);
	assert_string_equal(t.o.labels[0], "a,b");
	assert_string_equal(t.o.labels[1], "c");
}

static void init__without_options_has_the_defaults(void **state)
{
	(void)state;
	assert_int_equal(parse("start"), 0);
	assert_int_equal(t.o.qps, 2);
	assert_true(t.o.color);
	assert_int_equal(t.o.n_sizes, 2);
	assert_int_equal(t.o.sizes[1], 2048);
	assert_int_equal(t.args.n_overrides, 0);
}

static void init__of_a_repeated_list_grows_and_replaces_the_default(void **state)
{
	(void)state;
	assert_int_equal(parse("start", "--sizes", "1,2", "--sizes=3"), 0);
	assert_int_equal(t.o.n_sizes, 3);
	assert_int_equal(t.o.sizes[2], 3);
}

static void init__of_two_words_finds_the_command(void **state)
{
	(void)state;
	assert_int_equal(parse("obs", "links", "--wait", "2", "a", "--", "--b"), 0);
	assert_ptr_equal(t.args.command, &commands[1]);
	assert_int_equal(t.o.wait_ms, 2000);
	assert_int_equal(t.args.n_operands, 2);
	assert_string_equal(t.args.operands[1], "--b");
}

static void init__flag_beats_environment_beats_default(void **state)
{
	(void)state;
	setenv("CLI_TEST_CONFIG", "from-env", 1);
	assert_int_equal(parse("start"), 0);
	assert_string_equal(t.o.config, "from-env");
	cli_args_fini(&t.args);
	assert_int_equal(parse("start", "--config", "from-flag"), 0);
	assert_string_equal(t.o.config, "from-flag");
}

static void init__the_first_variable_with_a_text_counts(void **state)
{
	(void)state;
	setenv("CLI_TEST_CONFIG", "", 1);
	setenv("CLI_TEST_OTHER", "second", 1);
	assert_int_equal(parse("start"), 0);
	assert_string_equal(t.o.config, "second");
	cli_args_fini(&t.args);
	setenv("CLI_TEST_CONFIG", "first", 1);
	assert_int_equal(parse("start"), 0);
	assert_string_equal(t.o.config, "first");
}

static void init__options_with_a_path_wait_for_the_file_in_order(void **state)
{
	(void)state;
	setenv("CLI_TEST_PORT", "1", 1);
	assert_int_equal(parse("start", "--port", "2", "--set", "port=3"), 0);
	assert_int_equal(t.args.n_overrides, 3);
	assert_string_equal(t.args.overrides[0].origin, "environment variable CLI_TEST_PORT");
	assert_string_equal(t.args.overrides[1].path, "port");
	assert_string_equal(t.args.overrides[1].assignment, "2");
	assert_string_equal(t.args.overrides[2].assignment, "port=3");
	assert_null(t.args.overrides[2].path);
}

static void assert_usage(int ret, const char *line)
{
	assert_int_equal(ret, -EINVAL);
	assert_int_equal(cli_args_exit_status(ret), 2);
	assert_string_equal(t.err, line);
}

static void init__of_what_it_cannot_understand_says_one_line(void **state)
{
	(void)state;
	assert_usage(parse("start", "--prot", "1"),
		     "prog: unknown option --prot, did you mean --port?\n");
	assert_usage(parse("start", "--gibberish=1"),
		     "prog: unknown option --gibberish, see prog start --help\n");
	assert_usage(parse("obs", "links", "--qps", "1"),
		     "prog: unknown option --qps of prog obs links, though one of prog start, see "
		     "prog obs links --help\n");
	assert_usage(parse("start", "--help=me"), "prog: --help: expected no value, got \"me\"\n");
	assert_usage(parse("start", "-x"), "prog: unknown option -x, see prog start --help\n");
	assert_usage(parse("--qps", "1", "start"),
		     "prog: expected a command before --qps, as in prog start --qps\n");
	assert_usage(parse("--gibberish", "start"),
		     "prog: unknown option --gibberish, see --help\n");
	assert_usage(parse("start", "--qps"),
		     "prog: --qps: expected an integer from 1 to 8, got nothing\n");
	assert_usage(parse("start", "--qps", "--json"),
		     "prog: --qps: expected an integer from 1 to 8, got nothing\n");
	assert_usage(parse("start", "--qps", "9"),
		     "prog: --qps: expected an integer from 1 to 8, got \"9\"\n");
	assert_usage(parse("start", "--sizes", "1,x"),
		     "prog: --sizes: expected a size such as 128KiB, got \"x\"\n");
	assert_usage(parse("start", "extra"),
		     "prog: unexpected argument \"extra\", see prog start --help\n");
	assert_usage(parse("strat"), "prog: unknown command \"strat\", did you mean start?\n");
	assert_usage(parse("obs"), "prog: obs: expected one of links, nics, got nothing\n");
	assert_usage(parse("obs", "x"), "prog: obs: expected one of links, nics, got \"x\"\n");
	assert_usage(parse("-j"), "prog: expected a command, see --help\n");
	assert_usage(parse("start", "--json=maybe"),
		     "prog: --json: expected true or false, got \"maybe\"\n");
	assert_usage(parse_as(&single, (char *[]){ "one", NULL }), "one: expected FILE\n");
}

static void init__of_a_bad_environment_names_the_variable(void **state)
{
	static const struct cli_setting options[] = {
		CLI_INT(struct options, qps, "qps", .max = 8, .env = "CLI_TEST_PORT"),
		CLI_END,
	};
	static const struct cli_command main_command = { .name = "p", .tables = { options } };
	static const struct cli_program p = { .name = "p", .main = &main_command };

	(void)state;
	setenv("CLI_TEST_PORT", "many", 1);
	assert_usage(parse_as(&p, (char *[]){ "p", NULL }),
		     "p: environment variable CLI_TEST_PORT: expected an integer from 0 to 8, got "
		     "\"many\"\n");
}

static void help__lists_commands_and_options_with_defaults(void **state)
{
	(void)state;
	assert_int_equal(parse("--help"), CLI_PRINTED);
	assert_non_null(strstr(t.out, "Usage: prog COMMAND [OPTION...]"));
	assert_non_null(strstr(t.out, "  obs links                 list the links\n"));
	assert_int_equal(parse("start", "--help"), CLI_PRINTED);
	assert_non_null(strstr(t.out, "Usage: prog start [OPTION...]"));
	assert_non_null(strstr(t.out,
			       "      --port PORT           TCP port to listen on [3000] (or "
			       "$CLI_TEST_PORT)\n"));
	assert_non_null(strstr(t.out, "  -c, --config FILE         configuration"));
	assert_int_equal(cli_args_exit_status(CLI_PRINTED), 0);
}

static void help__of_a_first_word_lists_its_commands(void **state)
{
	(void)state;
	assert_int_equal(parse("obs", "--help"), CLI_PRINTED);
	assert_string_equal(t.out, "Usage: prog obs COMMAND [OPTION...]\n\nCommands:\n"
				   "  obs links                 list the links\n"
				   "  obs nics                  list the NICs\n\n"
				   "'prog obs COMMAND --help' says more about one.\n");
}

static void help__as_a_word_is_the_page_of_what_follows(void **state)
{
	char page[sizeof(t.out)];

	(void)state;
	assert_int_equal(parse("--help"), CLI_PRINTED);
	strcpy(page, t.out);
	assert_non_null(strstr(page, "  help [COMMAND]            print"));
	assert_int_equal(parse("help"), CLI_PRINTED);
	assert_string_equal(t.out, page);
	assert_int_equal(parse("help", "start"), CLI_PRINTED);
	assert_non_null(strstr(t.out, "Usage: prog start [OPTION...]"));
	assert_int_equal(parse("help", "obs", "links"), CLI_PRINTED);
	assert_non_null(strstr(t.out, "Usage: prog obs links [OPTION...]"));
	assert_int_equal(parse("help", "obs"), CLI_PRINTED);
	assert_non_null(strstr(t.out, "Usage: prog obs COMMAND [OPTION...]"));
	assert_usage(parse("help", "strat"),
		     "prog: unknown command \"strat\", did you mean start?\n");
	assert_usage(parse("hepl"), "prog: unknown command \"hepl\", did you mean help?\n");
}

static void version__as_a_word_is_the_option(void **state)
{
	char line[sizeof(t.out)];

	(void)state;
	assert_int_equal(parse("--version"), CLI_PRINTED);
	strcpy(line, t.out);
	assert_int_equal(parse("version"), CLI_PRINTED);
	assert_string_equal(t.out, line);
}

/* On standard error: it is a mistake all the same. */
static void init__without_any_word_prints_the_page(void **state)
{
	char page[sizeof(t.out)];

	(void)state;
	assert_int_equal(parse("--help"), CLI_PRINTED);
	strcpy(page, t.out);
	assert_int_equal(parse_as(&program, (char *[]){ "prog", NULL }), -EINVAL);
	assert_string_equal(t.err, page);
	assert_string_equal(t.out, "");
}

static void help__of_settings_is_a_markdown_table(void **state)
{
	(void)state;
	assert_int_equal(parse("--help=settings"), CLI_PRINTED);
	assert_string_equal(t.out,
			    "| Key | Value | Default | Meaning |\n|---|---|---|---|\n"
			    "| `port` | a port from 0 to 65535 | `3000` | TCP port to listen on "
			    "|\n");
}

static void version__names_the_commit(void **state)
{
	(void)state;
	assert_int_equal(parse("--version"), CLI_PRINTED);
	assert_int_equal(
		strncmp(t.out, "prog " SLIME_VERSION " (", strlen("prog " SLIME_VERSION " (")), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(init__takes_every_way_to_write_an_option, teardown),
		cmocka_unit_test_teardown(init__without_options_has_the_defaults, teardown),
		cmocka_unit_test_teardown(init__of_a_repeated_list_grows_and_replaces_the_default,
					  teardown),
		cmocka_unit_test_teardown(init__of_two_words_finds_the_command, teardown),
		cmocka_unit_test_teardown(init__flag_beats_environment_beats_default, teardown),
		cmocka_unit_test_teardown(init__the_first_variable_with_a_text_counts, teardown),
		cmocka_unit_test_teardown(init__options_with_a_path_wait_for_the_file_in_order,
					  teardown),
		cmocka_unit_test_teardown(init__of_what_it_cannot_understand_says_one_line,
					  teardown),
		cmocka_unit_test_teardown(init__of_a_bad_environment_names_the_variable, teardown),
		cmocka_unit_test_teardown(help__lists_commands_and_options_with_defaults, teardown),
		cmocka_unit_test_teardown(help__of_a_first_word_lists_its_commands, teardown),
		cmocka_unit_test_teardown(help__as_a_word_is_the_page_of_what_follows, teardown),
		cmocka_unit_test_teardown(version__as_a_word_is_the_option, teardown),
		cmocka_unit_test_teardown(init__without_any_word_prints_the_page, teardown),
		cmocka_unit_test_teardown(help__of_settings_is_a_markdown_table, teardown),
		cmocka_unit_test_teardown(version__names_the_commit, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
