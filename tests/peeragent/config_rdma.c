/* SPDX-License-Identifier: Apache-2.0 */
/* Each key of data.rdma reaches the library as what it means there, and none of the others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "peeragent/src/config.h"

#define assert_ok(expr) assert_int_equal(expr, 0)

#define FIELD(name) offsetof(struct slime_context_attr, name)

/* All of four bytes. */
static const struct {
	const char *line;
	size_t field;
	uint32_t value;
} keys[] = {
	{ "pair: numa", FIELD(rdma_pair), SLIME_RDMA_PAIR_NUMA },
	{ "pair: name", FIELD(rdma_pair), SLIME_RDMA_PAIR_NAME },
	{ "gid_index: 5", FIELD(rdma_gid_index), 5 },
	{ "qps_per_rail: 4", FIELD(rdma_qps), 4 },
	{ "timeout: 17", FIELD(rdma_timeout), 17 },
	{ "retry_count: 3", FIELD(rdma_retry_count), 3 },
	{ "rnr_retry: 2", FIELD(rdma_rnr_retry), 2 },
	{ "min_rnr_timer: 20", FIELD(rdma_min_rnr_timer), 20 },
	{ "service_level: 7", FIELD(rdma_service_level), 7 },
	{ "traffic_class: 104", FIELD(rdma_traffic_class), 104 },
	{ "hop_limit: 9", FIELD(rdma_hop_limit), 9 },
	{ "pkey_index: 11", FIELD(rdma_pkey_index), 11 },
	{ "flow_label: 70000", FIELD(rdma_flow_label), 70000 },
};

#define N (sizeof(keys) / sizeof(keys[0]))

static void say(const char *line)
{
	fail_msg("%s", line);
}

/* What a node has whose file says this in data.rdma. */
static struct config *config_with(const char *line, const char *links)
{
	char path[] = "/tmp/config-rdma-XXXXXX";
	int fd = mkstemp(path);
	static const struct cli_program program = { .name = "peeragent" };
	struct cli_args args = { .program = &program };
	struct config *c;

	assert_true(fd >= 0);
	assert_true(dprintf(fd,
			    "version: 1\n"
			    "agent: { name: a }\n"
			    "control: { url: \"http://127.0.0.1:3000\" }\n"
			    "data: { rdma: { %s } }\n"
			    "links: [ %s ]\n",
			    line, links) > 0);
	close(fd);
	assert_ok(config_create(path, &args, say, &c));
	unlink(path);
	return c;
}

static struct config *config_of(const char *line)
{
	return config_with(line, "");
}

static uint32_t value_of(const struct config *c, size_t field)
{
	uint32_t value;

	memcpy(&value, (const char *)&c->attr.data + field, sizeof(value));
	return value;
}

static void file__that_says_nothing_of_rdma_has_the_librarys_defaults(void **state)
{
	static const struct slime_context_attr library = SLIME_CONTEXT_ATTR_INIT;
	struct config *c = config_of("");

	(void)state;
	assert_null(c->attr.data.rdma_devices);
	for (size_t i = 0; i < N; i++)
		assert_memory_equal((const char *)&c->attr.data + keys[i].field,
				    (const char *)&library + keys[i].field, sizeof(uint32_t));
	config_destroy(c);
}

static void key__reaches_the_library_alone(void **state)
{
	struct config *plain = config_of("");

	(void)state;
	for (size_t i = 0; i < N; i++) {
		struct config *c = config_of(keys[i].line);

		for (size_t k = 0; k < N; k++) {
			uint32_t was = value_of(plain, keys[k].field);
			bool same = keys[k].field == keys[i].field;

			if (value_of(c, keys[k].field) != (same ? keys[i].value : was))
				fail_msg("%s: of '%s' there is %u", keys[i].line, keys[k].line,
					 value_of(c, keys[k].field));
		}
		config_destroy(c);
	}
	config_destroy(plain);
}

/* Links have it from their beginning. */
static void key__that_changes_needs_a_restart(void **state)
{
	struct config *plain = config_of("");

	(void)state;
	assert_null(config_needs_restart(plain, plain));
	for (size_t i = 0; i < N; i++) {
		struct config *c = config_of(keys[i].line);
		const char *what = config_needs_restart(plain, c);

		if (!what || strcmp(what, "data"))
			fail_msg("%s: %s", keys[i].line, what ? what : "nothing");
		config_destroy(c);
	}
	config_destroy(plain);
}

/* Those that a file names have to be there. */
static void devices__are_one_list(void **state)
{
	static const char *const devices[] = { "mlx5_0", "mlx5_1:2", "bnxt_re0" };
	struct config *plain = config_of(""), *c = config_of("");

	(void)state;
	c->node.data.rdma.devices = devices;
	c->node.data.rdma.n_devices = 3;
	assert_ok(config_set_rdma(c));
	assert_string_equal(c->attr.data.rdma_devices, "mlx5_0,mlx5_1:2,bnxt_re0");
	assert_string_equal(config_needs_restart(plain, c), "data");
	config_destroy(c);
	config_destroy(plain);
}

static void link__has_what_the_file_asks_of_rdma(void **state)
{
	struct config *c = config_with(
		"", "{ to: b, qps: 4, rails: 2, min_bandwidth: 100Gbps }, { to: c, rails: all }");
	const struct slime_agent_link *l = c->attr.topology.links;

	(void)state;
	assert_int_equal(l[0].qps, 4);
	assert_int_equal(l[0].rails, 2);
	assert_true(l[0].min_bandwidth == UINT64_C(100000000000));
	assert_null(l[0].devices);
	assert_int_equal(l[1].qps, 0);
	assert_int_equal(l[1].rails, 0);
	assert_true(l[1].min_bandwidth == 0);
	config_destroy(c);
}

/* That of all links stands beside the settings of rdma, which end here before it. */
static void bandwidth__has_the_caps_that_the_file_names(void **state)
{
	struct config *c = config_with("}, max_bandwidth: 10Gbps, shm: {",
				       "{ to: b, max_bandwidth: 200Mbps }, { to: c }");
	struct config *plain = config_of("");
	const struct slime_agent_link *l = c->attr.topology.links;

	(void)state;
	assert_true(c->attr.data.max_bandwidth == UINT64_C(10000000000));
	assert_true(l[0].max_bandwidth == UINT64_C(200000000));
	assert_true(l[1].max_bandwidth == 0);
	assert_true(plain->attr.data.max_bandwidth == 0);
	assert_string_equal(config_needs_restart(plain, c), "data");
	config_destroy(plain);
	config_destroy(c);
}

/* Those that a file names of this host have to be there. */
static void link__names_ports_as_lists(void **state)
{
	static const char *const ours[] = { "mlx5_0", "mlx5_1:2" }, *const peers[] = { "rxe0" };
	struct config *c = config_with("", "{ to: b }, { to: c }");
	struct node_link *l = &c->node.links[1];

	(void)state;
	l->devices = ours;
	l->n_devices = 2;
	l->peer_devices = peers;
	l->n_peer_devices = 1;
	assert_ok(config_set_link(c, 1));
	assert_string_equal(c->links[1].devices, "mlx5_0,mlx5_1:2");
	assert_string_equal(c->links[1].peer_devices, "rxe0");
	assert_null(c->links[0].devices);
	config_destroy(c);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(file__that_says_nothing_of_rdma_has_the_librarys_defaults),
		cmocka_unit_test(key__reaches_the_library_alone),
		cmocka_unit_test(key__that_changes_needs_a_restart),
		cmocka_unit_test(devices__are_one_list),
		cmocka_unit_test(link__has_what_the_file_asks_of_rdma),
		cmocka_unit_test(bandwidth__has_the_caps_that_the_file_names),
		cmocka_unit_test(link__names_ports_as_lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
