/* SPDX-License-Identifier: Apache-2.0 */
/* Agents: nanoctrl away, another topology. */
#include <errno.h>
#include <poll.h>

#include "tests/peeragent/agents.h"

static void server__away_and_back_with_its_data_changes_nothing(void **state)
{
	struct slime_agent *a = start("a", &to_b, 1), *b = start("b", NULL, 0);
	unsigned posts;

	(void)state;
	assert_connected(a, b, NULL);
	posts = fakectrl_n_posts();
	fakectrl_go_away();
	while (slime_agent_state(a) != SLIME_AGENT_DETACHED)
		poll(NULL, 0, 1);
	slime_agent_endpoint_put(a, get(a, "b", NULL));
	fakectrl_come_back(true);
	assert_connected(a, b, NULL);
	assert_int_equal(n_connects(a), 1);
	assert_int_equal(fakectrl_n_posts(), posts);
	end(a);
	end(b);
}

static void server__back_without_its_data_learns_everything_again(void **state)
{
	struct slime_agent_attr attr = attr_of("b");
	struct slime_agent *a = start("a", &to_b, 1), *b;

	(void)state;
	attr.topology.regions = &kv;
	attr.topology.n_regions = 1;
	b = start_with(&attr);
	assert_connected(a, b, NULL);
	assert_true(fakectrl_wait_region("b", "kv", true, LONG_MS));
	fakectrl_go_away();
	fakectrl_come_back(false);
	assert_connected(a, b, NULL);
	assert_true(fakectrl_wait_region("b", "kv", true, LONG_MS));
	assert_int_equal(n_connects(a), 1);
	end(a);
	end(b);
}

static void server__away_does_not_keep_an_agent_from_stopping(void **state)
{
	struct slime_agent *a = start("a", &to_b, 1), *b = start("b", NULL, 0);

	(void)state;
	assert_connected(a, b, NULL);
	fakectrl_go_away();
	assert_ok(slime_agent_stop(a, LONG_MS));
	assert_ok(slime_agent_stop(b, LONG_MS));
	end(a);
	end(b);
}

static void apply__brings_and_takes_links_and_regions(void **state)
{
	struct slime_agent *a = start("a", NULL, 0), *b = start("b", NULL, 0);
	struct slime_topology full = {
		.regions = &kv, .n_regions = 1, .links = &to_b, .n_links = 1
	};
	struct slime_topology empty = { .n_links = 0 };

	(void)state;
	assert_ok(slime_agent_apply(a, &full));
	assert_connected(a, b, NULL);
	assert_true(fakectrl_wait_region("a", "kv", true, LONG_MS));
	assert_ok(slime_agent_apply(a, &full));
	assert_ok(slime_agent_apply(a, &empty));
	assert_true(fakectrl_wait_no_link("b", "a", "default", LONG_MS));
	assert_true(fakectrl_wait_region("a", "kv", false, LONG_MS));
	assert_ok(slime_agent_apply(a, &full));
	assert_connected(a, b, NULL);
	assert_true(fakectrl_wait_region("a", "kv", true, LONG_MS));
	end(a);
	end(b);
}

static void apply__of_a_malformed_topology_changes_nothing(void **state)
{
	struct slime_agent *a = start("a", &to_b, 1), *b = start("b", NULL, 0);
	struct slime_topology to_itself = { .links = &to_a, .n_links = 1 };

	(void)state;
	assert_connected(a, b, NULL);
	assert_int_equal(slime_agent_apply(a, &to_itself), -EINVAL);
	assert_int_equal(n_connects(a), 1);
	end(a);
	end(b);
}

static void apply__of_a_region_that_cannot_be_had_leaves_the_agent_ready(void **state)
{
	struct slime_agent *a = start("a", NULL, 0);
	struct slime_agent_region huge = kv;
	struct slime_topology much = { .regions = &huge, .n_regions = 1 };
	struct slime_mr *mr;
	int ret;

	(void)state;
	huge.size = 1ull << 50;
	assert_ok(slime_agent_apply(a, &much));
	while ((ret = slime_agent_region_local(a, "kv", &mr)) == -EAGAIN)
		poll(NULL, 0, 1);
	assert_int_equal(ret, -ENOMEM);
	assert_int_equal(slime_agent_state(a), SLIME_AGENT_READY);
	huge.size = kv.size;
	assert_ok(slime_agent_apply(a, &much));
	assert_true(fakectrl_wait_region("a", "kv", true, LONG_MS));
	end(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(server__away_and_back_with_its_data_changes_nothing, reset),
		cmocka_unit_test_setup(server__back_without_its_data_learns_everything_again,
				       reset),
		cmocka_unit_test_setup(server__away_does_not_keep_an_agent_from_stopping, reset),
		cmocka_unit_test_setup(apply__brings_and_takes_links_and_regions, reset),
		cmocka_unit_test_setup(apply__of_a_malformed_topology_changes_nothing, reset),
		cmocka_unit_test_setup(apply__of_a_region_that_cannot_be_had_leaves_the_agent_ready,
				       reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
