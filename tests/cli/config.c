/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "cli/options/config.h"
#include "cli/yaml/problems.h"
#include "cli/yaml/tree.h"

enum polling { BUSY, ADAPTIVE };
static const char *const pollings[] = { "busy", "adaptive", NULL };
static const char *const transports[] = { "shm", "rdma", "tcp", NULL };

struct link {
	const char *to;
	int64_t qps;
};

struct node {
	struct {
		const char *name;
		const struct cli_pair *labels;
		size_t n_labels;
	} agent;
	struct {
		const int *transports;
		size_t n_transports;
		enum polling polling;
		int64_t beat_ms;
	} data;
	struct link *links;
	size_t n_links;
	bool wipe;
	const char *note;
	const char *const *tags;
	size_t n_tags;
};

static const struct cli_setting agent_settings[] = {
	CLI_STRING(struct node, agent.name, "name", .required = true, .min = 1),
	CLI_PAIRS(struct node, agent.labels, agent.n_labels, "labels", .help = ""),
	CLI_END,
};
static const struct cli_setting data_settings[] = {
	CLI_ENUMS(struct node, data.transports, data.n_transports, "transports", transports,
		  .def = "shm,rdma,tcp"),
	CLI_ENUM(struct node, data.polling, "polling", pollings, .def = "adaptive"),
	CLI_DURATION_MS(struct node, data.beat_ms, "beat", .def = "5s"),
	CLI_END,
};
static const struct cli_setting link_settings[] = {
	CLI_STRING(struct link, to, "to", .required = true),
	CLI_INT(struct link, qps, "qps", .def = "2", .min = 1, .max = 64),
	CLI_END,
};
static const struct cli_setting node_settings[] = {
	/* The offsets of these two tables count from the whole struct. */
	{ .name = "agent", .type = CLI_TYPE_MAP, .table = agent_settings },
	{ .name = "data", .type = CLI_TYPE_MAP, .table = data_settings },
	CLI_LIST(struct node, links, n_links, "links", link_settings, .unique = "to"),
	CLI_FLAG(struct node, wipe, "wipe", .def = "false"),
	CLI_STRING(struct node, note, "note", .help = ""),
	CLI_STRINGS(struct node, tags, n_tags, "tags", .help = ""),
	CLI_END,
};

static struct {
	struct cli_config *c;
	struct node node;
} t;

static int setup(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	return cli_config_create(&t.c);
}

static int teardown(void **state)
{
	(void)state;
	cli_config_destroy(t.c);
	return 0;
}

static int load(const char *text)
{
	int ret = cli_config_load_text(t.c, "n.yaml", text, strlen(text));

	return ret ? ret : cli_config_read(t.c, node_settings, &t.node);
}

static void assert_only_error(const char *text, const char *error)
{
	load(text);
	assert_int_equal(cli_config_n_errors(t.c), 1);
	assert_string_equal(cli_config_error(t.c, 0), error);
	teardown(NULL);
	setup(NULL);
}

static void read__fills_the_struct_and_its_defaults(void **state)
{
	(void)state;
	assert_int_equal(load("agent: { name: a, labels: { role: prefill, shard: 3 } }\n"
			      "data:\n  transports: [tcp]\n  beat: \"500ms\"\n"
			      "links:\n  - to: b\n  - { to: \"role=decode\", qps: 4 }\n"),
			 0);
	assert_string_equal(t.node.agent.name, "a");
	assert_int_equal(t.node.agent.n_labels, 2);
	assert_string_equal(t.node.agent.labels[1].value, "3");
	assert_int_equal(t.node.data.n_transports, 1);
	assert_int_equal(t.node.data.transports[0], 2);
	assert_int_equal(t.node.data.polling, ADAPTIVE);
	assert_int_equal(t.node.data.beat_ms, 500);
	assert_int_equal(t.node.n_links, 2);
	assert_int_equal(t.node.links[0].qps, 2);
	assert_string_equal(t.node.links[1].to, "role=decode");
	assert_int_equal(t.node.links[1].qps, 4);
	assert_null(t.node.note);
}

static void read__takes_an_empty_value_for_an_empty_map_or_list(void **state)
{
	(void)state;
	assert_int_equal(load("agent: { name: a, labels: }\nlinks:\ndata: ~\n"), 0);
	assert_int_equal(t.node.n_links, 0);
	assert_int_equal(t.node.data.n_transports, 3);
}

static void read__names_place_and_what_was_expected(void **state)
{
	(void)state;
	assert_only_error("agent:\n  name: a\n  nam: b\n",
			  "n.yaml:3:3: agent: unknown key \"nam\", expected \"name\"?");
	assert_only_error(
		"agent: { name: a }\nzzz: 1\n",
		"n.yaml:2:1: unknown key \"zzz\", expected one of agent, data, links, wipe, "
		"note, tags");
	assert_only_error(
		"agent: { name: a }\nlinks:\n  - to: b\n    qps: many\n",
		"n.yaml:4:10: links.0.qps: expected an integer from 1 to 64, got \"many\"");
	assert_only_error(
		"agent: { name: a }\nlinks:\n  - to: b\n    qps: \"4\"\n",
		"n.yaml:4:10: links.0.qps: expected an integer from 1 to 64, got a quoted "
		"string");
	assert_only_error("agent: { name: a }\nlinks:\n  - qps: 4\n",
			  "n.yaml:3:5: links.0: expected the key \"to\": a string");
	assert_only_error("agent: { name: a }\nlinks: b\n",
			  "n.yaml:2:8: links: expected a list of maps, got \"b\"");
}

static void read__of_other_kinds_says_what_it_got(void **state)
{
	(void)state;
	assert_only_error("agent: a\n", "n.yaml:1:8: agent: expected a map, got \"a\"");
	assert_only_error(
		"agent: { name: }\n",
		"n.yaml:1:16: agent.name: expected a string that is not empty, got nothing");
	assert_only_error(
		"agent: { name: [a] }\n",
		"n.yaml:1:16: agent.name: expected a string that is not empty, got a list");
	assert_only_error(
		"agent: { name: a }\ndata: { transports: [shm, udp] }\n",
		"n.yaml:2:27: data.transports.1: expected one of shm, rdma, tcp, got \"udp\"");
	assert_only_error("agent: { name: a }\ndata: { transports: [shm, shm] }\n",
			  "n.yaml:2:21: data.transports: expected each once, got \"shm\" twice");
	assert_only_error("agent: { name: a }\nwipe: yes\n",
			  "n.yaml:2:7: wipe: expected true or false, got \"yes\"");
	assert_only_error("- a\n", "n.yaml:1:1: expected a map, got a list");
	assert_only_error(
		"", "n.yaml:1:1: agent: expected the key \"name\": a string that is not empty");
}

static void read__of_two_elements_with_one_name_refuses_the_second(void **state)
{
	(void)state;
	assert_only_error(
		"agent: { name: a }\nlinks:\n  - to: b\n  - to: c\n  - to: b\n",
		"n.yaml:5:9: links.2.to: expected a to of its own, \"b\" is that of links.0");
}

static void read__collects_in_the_order_of_the_file(void **state)
{
	(void)state;
	load("wipe: 1\nlinks: [ { qps: 0 } ]\nagent: { nam: x }\n");
	assert_int_equal(cli_config_n_errors(t.c), 5);
	assert_non_null(strstr(cli_config_error(t.c, 0), "n.yaml:1:7:"));
	assert_non_null(strstr(cli_config_error(t.c, 4), "n.yaml:3:10:"));
	assert_null(cli_config_error(t.c, 5));
}

static void read__of_many_errors_keeps_the_first_and_counts_the_rest(void **state)
{
	char text[4096] = "agent: { name: a }\nlinks:\n", out[8192] = "";
	FILE *to = fmemopen(out, sizeof(out), "w");

	(void)state;
	for (int i = 0; i < 30; i++)
		strcat(text, "  - { qps: 1 }\n");
	load(text);
	assert_int_equal(cli_config_n_errors(t.c), 30);
	assert_null(cli_config_error(t.c, CLI_PROBLEMS_MAX));
	cli_config_print_errors(t.c, to);
	fclose(to);
	assert_non_null(strstr(out, "and 10 more\n"));
}

static void load__of_a_missing_file_says_so(void **state)
{
	(void)state;
	assert_true(cli_config_load(t.c, "/nonexistent/n.yaml") < 0);
	cli_config_read(t.c, node_settings, &t.node);
	assert_int_equal(cli_config_n_errors(t.c), 1);
	assert_string_equal(cli_config_error(t.c, 0),
			    "/nonexistent/n.yaml: No such file or directory");
}

static void load__of_a_directory_says_so(void **state)
{
	(void)state;
	assert_true(cli_config_load(t.c, "/") < 0);
	assert_string_equal(cli_config_error(t.c, 0), "/: Is a directory");
}

static void load__of_a_fifo_that_nobody_writes_is_refused(void **state)
{
	char dir[] = "/tmp/slime-config-XXXXXX", fifo[64];

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_true(cli_config_load(t.c, fifo) < 0);
	unlink(fifo);
	rmdir(dir);
	assert_non_null(strstr(cli_config_error(t.c, 0), "its writer sends nothing"));
}

/* A pipe as the shell makes one of <(command): its writer may be slow, but not for ever. */
static void load__of_a_pipe_takes_what_comes_and_waits_a_while(void **state)
{
	char file[32];
	uint64_t start;
	pid_t writer;
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	snprintf(file, sizeof(file), "/dev/fd/%d", fds[0]);
	start = sl_clock_ns();
	assert_true(cli_config_load(t.c, file) < 0);
	assert_non_null(strstr(cli_config_error(t.c, 0), "its writer sends nothing"));
	assert_true(sl_clock_ns() - start < 30 * SL_NS_PER_S);
	writer = fork();
	if (!writer) {
		for (const char *c = "version: 1\n"; *c; c++)
			if (write(fds[1], c, 1) != 1)
				_exit(1);
		_exit(0);
	}
	close(fds[1]);
	cli_config_destroy(t.c);
	assert_int_equal(cli_config_create(&t.c), 0);
	assert_int_equal(cli_config_load(t.c, file), 0);
	assert_int_equal(waitpid(writer, NULL, 0), writer);
	close(fds[0]);
}

static void set__beats_the_file(void **state)
{
	(void)state;
	assert_int_equal(cli_config_load_text(t.c, "n", "agent: {name: a}\nlinks: [{to: b}]\n", 34),
			 0);
	assert_int_equal(cli_config_set(t.c, "agent.name=x=y"), 0);
	assert_int_equal(cli_config_set(t.c, "links.0.qps=5"), 0);
	assert_int_equal(cli_config_set(t.c, "links.1.to=c"), 0);
	assert_int_equal(cli_config_set(t.c, "data.transports=[tcp, shm]"), 0);
	assert_int_equal(cli_config_set(t.c, "agent.labels.app\\.kind=null"), 0);
	assert_int_equal(cli_config_read(t.c, node_settings, &t.node), 0);
	assert_string_equal(t.node.agent.name, "x=y");
	assert_int_equal(t.node.n_links, 2);
	assert_int_equal(t.node.links[0].qps, 5);
	assert_string_equal(t.node.links[1].to, "c");
	assert_int_equal(t.node.data.transports[0], 2);
	assert_string_equal(t.node.agent.labels[0].key, "app.kind");
	assert_string_equal(t.node.agent.labels[0].value, "null");
	assert_true(cli_config_given(t.c, "links.1.to"));
	assert_false(cli_config_given(t.c, "links.1.qps"));
}

static void set__over_an_empty_file_is_not_to_blame_for_what_that_lacks(void **state)
{
	(void)state;
	assert_int_equal(cli_config_load_text(t.c, "n", "# nothing\n", 10), 0);
	assert_int_equal(cli_config_set(t.c, "data.polling=busy"), 0);
	cli_config_read(t.c, node_settings, &t.node);
	assert_true(cli_config_n_errors(t.c) > 0);
	for (size_t i = 0; i < cli_config_n_errors(t.c); i++)
		assert_int_equal(strncmp(cli_config_error(t.c, i), "n:1:1: ", 7), 0);
}

static void assert_set_refused(const char *assignment, const char *error)
{
	assert_int_equal(cli_config_load_text(t.c, "n", "agent: {name: a}\nlinks: [{to: b}]\n", 34),
			 0);
	cli_config_set(t.c, assignment);
	if (!cli_config_n_errors(t.c))
		cli_config_read(t.c, node_settings, &t.node);
	assert_int_equal(cli_config_n_errors(t.c), 1);
	assert_string_equal(cli_config_error(t.c, 0), error);
	teardown(NULL);
	setup(NULL);
}

static void set__of_what_does_not_fit_names_its_key(void **state)
{
	(void)state;
	assert_set_refused("links.0.qps=many",
			   "--set links.0.qps: expected an integer from 1 to 64, got "
			   "\"many\"");
	assert_set_refused("links.2.to=x",
			   "--set links.2.to: expected an index from 0 to 1, got \"2\"");
	assert_set_refused("links.x.to=x",
			   "--set links.x.to: expected an index from 0 to 1, got \"x\"");
	assert_set_refused("links.1.qps=1",
			   "--set links.1.qps: links.1: expected the key \"to\": a string");
	assert_set_refused("agent.nam=x", "--set agent.nam: agent: unknown key \"nam\", expected "
					  "\"name\"?");
	assert_set_refused("agent.name.x=1",
			   "--set agent.name.x: expected a map or list on the way to x");
	assert_set_refused("agent", "--set: expected KEY.PATH=VALUE in UTF-8, got \"agent\"");
	assert_set_refused("=x", "--set: expected KEY.PATH=VALUE in UTF-8, got \"=x\"");
	assert_set_refused("agent.name=\xff",
			   "--set: expected KEY.PATH=VALUE in UTF-8, got \"agent.name=?\"");
	assert_set_refused("agent..x=1", "--set agent..x: expected a key as links.0.to");
	assert_set_refused("data.transports=[tcp",
			   "--set data.transports: expected valid YAML: did not "
			   "find expected ',' or ']' while parsing a flow sequence");
	assert_set_refused("a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q=1",
			   "--set a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q: expected at most 16 levels");
}

static void assert_lacks_name(const char *file, const char *assignment, const char *error)
{
	if (file)
		assert_int_equal(cli_config_load_text(t.c, "n", file, strlen(file)), 0);
	assert_int_equal(cli_config_set(t.c, assignment), 0);
	cli_config_read(t.c, node_settings, &t.node);
	assert_int_equal(cli_config_n_errors(t.c), 1);
	assert_string_equal(cli_config_error(t.c, 0), error);
	teardown(NULL);
	setup(NULL);
}

static void set__within_a_map_that_nobody_wrote_is_not_blamed_for_what_it_lacks(void **state)
{
	(void)state;
	assert_lacks_name("wipe: true\n", "agent.labels.role=x",
			  "n:1:1: agent: expected the key \"name\": a string that is not empty");
	assert_lacks_name("wipe: true\nagent: {}\n", "agent.labels.role=x",
			  "n:2:8: agent: expected the key \"name\": a string that is not empty");
	assert_lacks_name(
		NULL, "agent.labels.role=x",
		"configuration: agent: expected the key \"name\": a string that is not empty");
	/* Who writes the whole map is. */
	assert_lacks_name("wipe: true\n", "agent={labels: {role: x}}",
			  "--set agent: expected the key \"name\": a string that is not empty");
}

static void refuse__stands_where_the_value_was_given(void **state)
{
	(void)state;
	assert_int_equal(load("agent: { name: a }\nlinks:\n  - to: b\n"), 0);
	cli_config_refuse(t.c, "links.0.to", "expected %s", "another peer");
	cli_config_refuse(t.c, "links.0.qps", "expected more");
	cli_config_refuse(t.c, "data.polling", "expected busy");
	assert_string_equal(cli_config_error(t.c, 0), "n.yaml:1:1: data.polling: expected busy");
	assert_string_equal(cli_config_error(t.c, 1), "n.yaml:3:5: links.0.qps: expected more");
	assert_string_equal(cli_config_error(t.c, 2),
			    "n.yaml:3:9: links.0.to: expected another peer");
}

static void dump_to(char *out, size_t len)
{
	FILE *to = fmemopen(out, len, "w");

	assert_int_equal(cli_config_dump(t.c, to), 0);
	fclose(to);
}

static void dump__reads_back_to_the_same_values(void **state)
{
	char first[4096] = "";

	(void)state;
	assert_int_equal(cli_config_load_text(t.c, "n", "wipe: true\nagent: {name: \"~\"}\n", 30),
			 0);
	assert_int_equal(cli_config_set(t.c, "links.0.to=null"), 0);
	assert_int_equal(cli_config_set(t.c, "note= #[x: y\n\"'"), 0);
	assert_int_equal(cli_config_set(t.c, "agent.labels.empty="), 0);
	assert_int_equal(cli_config_read(t.c, node_settings, &t.node), 0);
	dump_to(first, sizeof(first));
	teardown(NULL);
	setup(NULL);

	assert_int_equal(load(first), 0);
	assert_true(t.node.wipe);
	assert_string_equal(t.node.agent.name, "~");
	assert_string_equal(t.node.links[0].to, "null");
	assert_string_equal(t.node.note, " #[x: y\n\"'");
	assert_string_equal(t.node.agent.labels[0].value, "");
	assert_int_equal(t.node.data.beat_ms, 5000);
}

static void dump__is_in_the_order_of_the_table_with_the_defaults(void **state)
{
	char out[4096] = "";

	(void)state;
	assert_int_equal(load("links: [ { to: b } ]\nagent: { name: a }\n"), 0);
	dump_to(out, sizeof(out));
	assert_string_equal(
		out, "agent:\n  name: a\n  labels: {}\n"
		     "data:\n  transports: [shm, rdma, tcp]\n  polling: adaptive\n  beat: 5s\n"
		     "links:\n- to: b\n  qps: 2\nwipe: false\n");
}

static const struct cli_setting options[] = {
	CLI_KEY("beat", "data.beat", .env = "CLI_TEST_BEAT"),
	CLI_KEY("transports", "data.transports"),
	CLI_SET,
	CLI_END,
};
static const struct cli_command command = { .name = "p", .tables = { options } };
static const struct cli_program program = { .name = "p",
					    .main = &command,
					    .settings = node_settings };

static int apply_over(const char *file, char **argv)
{
	struct cli_args args;
	int argc = 0, ret;
	struct node unused;

	while (argv[argc])
		argc++;
	assert_int_equal(cli_args_init(&args, &program, argc, argv, &unused), 0);
	assert_int_equal(cli_config_load_text(t.c, "n", file, strlen(file)), 0);
	cli_config_apply(t.c, &args);
	/* What was applied does not lean on the arguments. */
	cli_args_fini(&args);
	ret = cli_config_read(t.c, node_settings, &t.node);
	return ret;
}

static int apply(char **argv)
{
	return apply_over("agent: {name: a}\ndata: {beat: 1s}\n", argv);
}

static void apply__of_an_option_over_what_is_no_map_is_the_files_error(void **state)
{
	(void)state;
	assert_int_equal(apply_over("agent: {name: a}\ndata: [1]\n",
				    (char *[]){ "p", "--beat", "3s", NULL }),
			 -EINVAL);
	assert_int_equal(cli_config_n_errors(t.c), 1);
	assert_string_equal(cli_config_error(t.c, 0), "n:2:7: data: expected a map, got a list");
}

static void apply__environment_beats_the_file_and_flags_beat_both(void **state)
{
	(void)state;
	setenv("CLI_TEST_BEAT", "2s", 1);
	assert_int_equal(apply((char *[]){ "p", "--transports", "tcp,shm", NULL }), 0);
	assert_int_equal(t.node.data.beat_ms, 2000);
	assert_int_equal(t.node.data.n_transports, 2);
	teardown(NULL);
	setup(NULL);
	assert_int_equal(apply((char *[]){ "p", "--set=data.beat=4s", "--beat", "3s", NULL }), 0);
	assert_int_equal(t.node.data.beat_ms, 3000);
	unsetenv("CLI_TEST_BEAT");
}

static void apply__of_a_bad_value_names_the_option(void **state)
{
	(void)state;
	assert_true(apply((char *[]){ "p", "--beat", "soon", NULL }) < 0);
	assert_string_equal(cli_config_error(t.c, 0),
			    "p: --beat: expected a duration such as 15s or 500ms, got \"soon\"");
}

static void apply__of_a_repeated_list_adds_up_and_beats_what_was_set_before(void **state)
{
	(void)state;
	assert_int_equal(apply((char *[]){ "p", "--transports", "tcp", "--set",
					   "data.transports=[rdma]", "--transports", "shm", NULL }),
			 0);
	assert_int_equal(t.node.data.n_transports, 2);
	assert_int_equal(t.node.data.transports[0], 2);
	assert_int_equal(t.node.data.transports[1], 0);
}

/* Each link is two values, and has one more by default. */
static void read__of_as_many_values_as_a_file_may_have_has_room_for_defaults(void **state)
{
	const char *head = "agent: {name: a}\nlinks:\n";
	const size_t n_links = (CLI_TREE_MAX_NODES - 4) / 2, room = 64 + n_links * 16;
	char *text = malloc(room);
	size_t len;

	(void)state;
	assert_non_null(text);
	len = (size_t)snprintf(text, room, "%s", head);
	for (size_t i = 0; i < n_links; i++)
		len += (size_t)snprintf(text + len, room - len, "- to: b%zu\n", i);
	assert_int_equal(load(text), 0);
	assert_int_equal(cli_config_n_errors(t.c), 0);
	assert_int_equal(t.node.n_links, n_links);
	assert_int_equal(t.node.links[n_links - 1].qps, 2);
	teardown(NULL);
	setup(NULL);
	snprintf(text + len, room - len, "- to: c\n");
	assert_only_error(text, "n.yaml:32769:3: expected at most 65536 values in all");
	free(text);
}

/* For who has to tell "none" from "nobody said". */
static void given__of_an_empty_list_is_what_was_written(void **state)
{
	(void)state;
	assert_int_equal(load("agent: { name: a }\ntags: []\n"), 0);
	assert_int_equal(t.node.n_tags, 0);
	assert_true(cli_config_given(t.c, "tags"));
	teardown(NULL);
	setup(NULL);

	assert_int_equal(load("agent: { name: a }\n"), 0);
	assert_int_equal(t.node.n_tags, 0);
	assert_false(cli_config_given(t.c, "tags"));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(read__fills_the_struct_and_its_defaults),
		T(read__takes_an_empty_value_for_an_empty_map_or_list),
		T(read__names_place_and_what_was_expected),
		T(read__of_other_kinds_says_what_it_got),
		T(read__of_two_elements_with_one_name_refuses_the_second),
		T(read__collects_in_the_order_of_the_file),
		T(read__of_many_errors_keeps_the_first_and_counts_the_rest),
		T(read__of_as_many_values_as_a_file_may_have_has_room_for_defaults),
		T(load__of_a_missing_file_says_so),
		T(load__of_a_directory_says_so),
		T(load__of_a_fifo_that_nobody_writes_is_refused),
		T(load__of_a_pipe_takes_what_comes_and_waits_a_while),
		T(set__beats_the_file),
		T(set__over_an_empty_file_is_not_to_blame_for_what_that_lacks),
		T(set__of_what_does_not_fit_names_its_key),
		T(set__within_a_map_that_nobody_wrote_is_not_blamed_for_what_it_lacks),
		T(refuse__stands_where_the_value_was_given),
		T(given__of_an_empty_list_is_what_was_written),
		T(dump__reads_back_to_the_same_values),
		T(dump__is_in_the_order_of_the_table_with_the_defaults),
		T(apply__environment_beats_the_file_and_flags_beat_both),
		T(apply__of_an_option_over_what_is_no_map_is_the_files_error),
		T(apply__of_a_bad_value_names_the_option),
		T(apply__of_a_repeated_list_adds_up_and_beats_what_was_set_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
