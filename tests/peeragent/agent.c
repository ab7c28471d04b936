/* SPDX-License-Identifier: Apache-2.0 */
/* Agents of one process, with real shared-memory links, beside a control plane in memory. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/fakes/fakectrl.h"
#include <slime/agent.h>

/* Far more than anything here takes. */
#define LONG_MS 60000

#define assert_ok(expr) assert_int_equal((expr), 0)

static const char *const urls[] = { "http://fake" };
static const struct slime_agent_link to_a = { .to = "a" };
static const struct slime_agent_link to_b = { .to = "b" };
static const struct slime_agent_link to_b_bulk = { .to = "b", .profile = "bulk" };
static const struct slime_agent_link to_decoders = { .to = "role=decode" };
static const struct slime_label decode = { "role", "decode" };
static const struct slime_agent_region kv = {
	.name = "kv", .size = 8192, .numa_node = -1, .access = 3
};

static struct slime_agent_attr attr_of(const char *name)
{
	struct slime_agent_attr attr = SLIME_AGENT_ATTR_INIT;

	attr.name = name;
	attr.urls = urls;
	attr.n_urls = 1;
	attr.retry_min_ms = 10;
	attr.retry_max_ms = 100;
	attr.transports[0] = SLIME_TRANSPORT_SHM;
	attr.data.tcp_bind = "";
	return attr;
}

static struct slime_agent *start_with(const struct slime_agent_attr *attr)
{
	struct slime_agent *agent;

	assert_ok(slime_agent_create(attr, &agent));
	assert_ok(slime_agent_start(agent));
	return agent;
}

static struct slime_agent *start(const char *name, const struct slime_agent_link *links, size_t n)
{
	struct slime_agent_attr attr = attr_of(name);
	struct slime_agent *agent;

	attr.topology.links = links;
	attr.topology.n_links = n;
	agent = start_with(&attr);
	assert_ok(slime_agent_wait_ready(agent, LONG_MS));
	return agent;
}

static void end(struct slime_agent *agent)
{
	assert_ok(slime_agent_destroy(agent));
}

static struct slime_endpoint *get(struct slime_agent *agent, const char *peer, const char *profile)
{
	struct slime_endpoint *ep = NULL;

	assert_ok(slime_agent_endpoint_get(agent, peer, profile, LONG_MS, &ep));
	return ep;
}

static void assert_connected(struct slime_agent *a, struct slime_agent *b, const char *profile)
{
	const char *shown = profile ? profile : "default";

	slime_agent_endpoint_put(a, get(a, slime_agent_name(b), profile));
	slime_agent_endpoint_put(b, get(b, slime_agent_name(a), profile));
	assert_true(fakectrl_wait_link(slime_agent_name(a), slime_agent_name(b), shown,
				       SLIME_LINK_CONNECTED, LONG_MS));
	assert_true(fakectrl_wait_link(slime_agent_name(b), slime_agent_name(a), shown,
				       SLIME_LINK_CONNECTED, LONG_MS));
}

static uint32_t n_connects(struct slime_agent *agent)
{
	struct slime_agent_link_info info[4];

	assert_int_equal(slime_agent_links(agent, info, 4), 1);
	return info[0].n_connects;
}

static int reset(void **state)
{
	(void)state;
	fakectrl_reset();
	return 0;
}

/* ---- links ---- */

static void link__wanted_by_the_smaller_name_connects(void **state)
{
	struct slime_agent *a = start("a", &to_b, 1), *b = start("b", NULL, 0);

	(void)state;
	assert_connected(a, b, NULL);
	end(a);
	end(b);
}

static void link__wanted_by_the_greater_name_connects(void **state)
{
	struct slime_agent *a = start("a", NULL, 0), *b = start("b", &to_a, 1);

	(void)state;
	assert_connected(a, b, NULL);
	end(b);
	end(a);
}

static void link__wanted_by_both_is_one(void **state)
{
	struct slime_agent *a = start("a", &to_b, 1), *b = start("b", &to_a, 1);

	(void)state;
	assert_connected(a, b, NULL);
	assert_int_equal(n_connects(a), 1);
	assert_int_equal(n_connects(b), 1);
	end(a);
	end(b);
}

static void link__waits_for_a_peer_that_is_not_there(void **state)
{
	struct slime_agent *a = start("a", &to_b, 1), *b;
	struct slime_agent_link_info info;
	struct slime_endpoint *ep;

	(void)state;
	assert_int_equal(slime_agent_endpoint_get(a, "b", NULL, 0, &ep), -ETIMEDOUT);
	assert_int_equal(slime_agent_links(a, &info, 1), 1);
	assert_string_equal(info.cause, "b is not registered");
	b = start("b", NULL, 0);
	assert_connected(a, b, NULL);
	end(b);
	end(a);
}

static void link__of_each_profile_is_its_own(void **state)
{
	const struct slime_agent_link both[] = { to_b, to_b_bulk };
	struct slime_agent *a = start("a", both, 2), *b = start("b", NULL, 0);
	struct slime_endpoint *one, *other;

	(void)state;
	assert_connected(a, b, NULL);
	assert_connected(a, b, "bulk");
	one = get(a, "b", NULL);
	other = get(a, "b", "bulk");
	assert_ptr_not_equal(one, other);
	slime_agent_endpoint_put(a, one);
	slime_agent_endpoint_put(a, other);
	end(a);
	end(b);
}

static void link__to_a_selector_connects_everyone_it_matches(void **state)
{
	struct slime_agent_attr attr = attr_of("b");
	struct slime_agent *a = start("a", &to_decoders, 1), *b, *c;
	struct slime_endpoint *ep;

	(void)state;
	attr.topology.labels = &decode;
	attr.topology.n_labels = 1;
	b = start_with(&attr);
	c = start("c", NULL, 0);
	assert_connected(a, b, NULL);
	assert_int_equal(slime_agent_endpoint_get(a, "c", NULL, 0, &ep), -ENOENT);
	end(b);
	assert_true(fakectrl_wait_no_link("a", "b", "default", LONG_MS));
	end(c);
	end(a);
}

/* Who waits for all links waits for those, too, that have nobody at their other end yet. */
static void link__to_a_selector_that_nobody_matches_is_reported(void **state)
{
	static const struct slime_agent_link both[] = { { .to = "role=decode" }, { .to = "b" } };
	struct slime_agent_attr attr = attr_of("b");
	struct slime_topology empty = { .n_links = 0 };
	struct slime_agent *a = start("a", both, 2), *b;

	(void)state;
	assert_true(
		fakectrl_wait_link("a", "role=decode", "default", SLIME_LINK_CONNECTING, LONG_MS));
	attr.topology.labels = &decode;
	attr.topology.n_labels = 1;
	b = start_with(&attr);
	assert_connected(a, b, NULL);
	assert_true(fakectrl_wait_no_link("a", "role=decode", "default", LONG_MS));
	end(b);
	assert_true(
		fakectrl_wait_link("a", "role=decode", "default", SLIME_LINK_CONNECTING, LONG_MS));
	assert_int_equal(slime_agent_apply(a, &empty), 0);
	assert_true(fakectrl_wait_no_link("a", "role=decode", "default", LONG_MS));
	assert_int_equal(
		slime_agent_apply(a, &(struct slime_topology){ .links = both, .n_links = 1 }), 0);
	assert_true(
		fakectrl_wait_link("a", "role=decode", "default", SLIME_LINK_CONNECTING, LONG_MS));
	end(a);
}

static void link__comes_back_with_a_peer_that_left(void **state)
{
	struct slime_agent *a = start("a", &to_b, 1), *b = start("b", NULL, 0);

	(void)state;
	assert_connected(a, b, NULL);
	end(b);
	assert_true(fakectrl_wait_link("a", "b", "default", SLIME_LINK_CONNECTING, LONG_MS));
	b = start("b", NULL, 0);
	assert_connected(a, b, NULL);
	assert_int_equal(n_connects(a), 2);
	end(a);
	end(b);
}

static void link__of_an_expired_peer_goes_on(void **state)
{
	struct slime_agent *a = start("a", &to_b, 1), *b = start("b", NULL, 0);

	(void)state;
	assert_connected(a, b, NULL);
	fakectrl_expire("b");
	assert_true(fakectrl_wait_link("b", "a", "default", SLIME_LINK_CONNECTED, LONG_MS));
	assert_int_equal(n_connects(a), 1);
	assert_int_equal(n_connects(b), 1);
	end(a);
	end(b);
}

static void link__closed_by_hand_is_forgotten_by_both(void **state)
{
	struct slime_agent *a = start("a", NULL, 0), *b = start("b", NULL, 0);

	(void)state;
	assert_ok(slime_agent_link_add(a, &to_b));
	assert_int_equal(slime_agent_link_add(a, &to_b), -EEXIST);
	assert_connected(a, b, NULL);
	assert_ok(slime_agent_link_remove(a, "b", NULL));
	assert_int_equal(slime_agent_link_remove(a, "b", NULL), -ENOENT);
	assert_true(fakectrl_wait_no_link("a", "b", "default", LONG_MS));
	assert_true(fakectrl_wait_no_link("b", "a", "default", LONG_MS));
	end(a);
	end(b);
}

static void link__that_the_peer_wants_comes_back_as_its_own(void **state)
{
	struct slime_agent *a = start("a", NULL, 0), *b = start("b", &to_a, 1);

	(void)state;
	assert_ok(slime_agent_link_add(a, &to_b));
	assert_connected(a, b, NULL);
	assert_ok(slime_agent_link_remove(a, "b", NULL));
	while (n_connects(b) < 2)
		poll(NULL, 0, 1);
	assert_connected(a, b, NULL);
	end(a);
	end(b);
}

static void endpoint__held_outlives_its_link(void **state)
{
	struct slime_agent *a = start("a", &to_b, 1), *b = start("b", NULL, 0);
	struct slime_endpoint *ep = get(a, "b", NULL);

	(void)state;
	end(b);
	assert_true(fakectrl_wait_link("a", "b", "default", SLIME_LINK_CONNECTING, LONG_MS));
	b = start("b", NULL, 0);
	assert_connected(a, b, NULL);
	assert_int_equal(slime_agent_destroy(a), -EBUSY);
	slime_agent_endpoint_put(a, ep);
	end(a);
	end(b);
}

/* ---- nanoctrl away ---- */

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

/* ---- regions ---- */

/* b, with the region kv full of byte. */
static struct slime_agent *start_with_kv(int byte)
{
	struct slime_agent_attr attr = attr_of("b");
	struct slime_agent *b;
	struct slime_mr *mr;

	attr.topology.regions = &kv;
	attr.topology.n_regions = 1;
	b = start_with(&attr);
	assert_ok(slime_agent_wait_ready(b, LONG_MS));
	assert_ok(slime_agent_region_local(b, "kv", &mr));
	memset(slime_mr_addr(mr), byte, kv.size);
	assert_true(fakectrl_wait_region("b", "kv", true, LONG_MS));
	return b;
}

/* Read the region over the link to b, and compare: the status of the read. */
static int read_kv(struct slime_agent *a, const struct slime_remote_mr *remote, int byte)
{
	struct slime_context *ctx = slime_agent_context(a);
	struct slime_endpoint *ep = get(a, "b", NULL);
	struct slime_xfer x = { .remote = remote, .len = kv.size };
	struct slime_mem *mem;
	struct slime_mr *mine;
	struct slime_op *op;
	int ret;

	assert_ok(slime_mem_alloc(ctx, kv.size, NULL, &mem));
	assert_ok(slime_mr_create(ctx, slime_mem_addr(mem), kv.size, 0, &mine));
	assert_ok(slime_op_create(ctx, NULL, &op));
	x.local = mine;
	ret = slime_read(ep, &x, 1, 0, op);
	if (!ret) {
		assert_ok(slime_op_wait(op, LONG_MS));
		ret = slime_op_status(op);
	}
	for (size_t i = 0; !ret && i < kv.size; i++)
		assert_int_equal(((unsigned char *)slime_mem_addr(mem))[i], byte);
	slime_agent_endpoint_put(a, ep);
	assert_ok(slime_op_destroy(op));
	assert_ok(slime_mr_destroy(mine));
	assert_ok(slime_mem_destroy(mem));
	return ret;
}

static void region__of_a_peer_is_read_by_name(void **state)
{
	struct slime_agent *a = start("a", &to_b, 1), *b = start_with_kv(0x5a);
	struct slime_remote_mr remote;

	(void)state;
	assert_ok(slime_agent_region_remote(a, "b", "kv", LONG_MS, &remote));
	assert_ok(read_kv(a, &remote, 0x5a));
	end(a);
	end(b);
}

/* Nothing of the former one is remembered, and what was kept of it reaches nothing. */
static void region__of_a_peer_that_came_again_is_the_new_one(void **state)
{
	struct slime_agent *a = start("a", &to_b, 1), *b = start_with_kv(0x5a);
	struct slime_remote_mr former, remote;

	(void)state;
	assert_ok(slime_agent_region_remote(a, "b", "kv", LONG_MS, &former));
	assert_ok(read_kv(a, &former, 0x5a));
	end(b);
	assert_int_equal(slime_agent_region_remote(a, "b", "kv", LONG_MS, &remote), -ENOENT);
	b = start_with_kv(0x77);
	assert_ok(slime_agent_region_remote(a, "b", "kv", LONG_MS, &remote));
	assert_ok(read_kv(a, &remote, 0x77));
	assert_int_not_equal(read_kv(a, &former, 0x5a), 0);
	assert_ok(read_kv(a, &remote, 0x77));
	end(a);
	end(b);
}

static void peer_find__says_who_is_registered(void **state)
{
	struct slime_agent *a = start("a", NULL, 0), *b = start("b", NULL, 0);
	char names[2][SLIME_AGENT_NAME_MAX + 1];

	(void)state;
	assert_int_equal(slime_agent_peers(a, names, 0, LONG_MS), 0);
	assert_int_equal(slime_agent_peers(a, names, 2, LONG_MS), 1);
	assert_string_equal(names[0], "b");
	assert_string_equal(slime_agent_scope(a), "default");
	assert_ok(slime_agent_peer_find(a, "b", LONG_MS));
	assert_int_equal(slime_agent_peer_find(a, "c", LONG_MS), -ENOENT);
	end(b);
	assert_int_equal(slime_agent_peer_find(a, "b", LONG_MS), -ENOENT);
	fakectrl_go_away();
	assert_int_equal(slime_agent_peer_find(a, "b", LONG_MS), -EAGAIN);
	assert_int_equal(slime_agent_peers(a, names, 2, LONG_MS), -EAGAIN);
	fakectrl_come_back(true);
	end(a);
}

static void region__unknown_is_not_found(void **state)
{
	struct slime_agent *a = start("a", NULL, 0);
	struct slime_remote_mr remote;
	struct slime_mr *mr;

	(void)state;
	assert_int_equal(slime_agent_region_remote(a, "b", "kv", LONG_MS, &remote), -ENOENT);
	assert_int_equal(slime_agent_region_local(a, "kv", &mr), -ENOENT);
	assert_int_equal(slime_agent_region_withdraw(a, "kv"), -ENOENT);
	end(a);
}

static void region__of_the_caller_is_shown_and_withdrawn(void **state)
{
	struct slime_agent *a = start("a", NULL, 0);
	struct slime_mem *mem;
	struct slime_mr *mr;

	(void)state;
	assert_ok(slime_mem_alloc(slime_agent_context(a), 4096, NULL, &mem));
	assert_ok(slime_mr_create(slime_agent_context(a), slime_mem_addr(mem), 4096, 3, &mr));
	assert_ok(slime_agent_region_offer(a, "mine", mr, 3, NULL, 0));
	assert_int_equal(slime_agent_region_offer(a, "mine", mr, 3, NULL, 0), -EEXIST);
	assert_true(fakectrl_wait_region("a", "mine", true, LONG_MS));
	assert_ok(slime_agent_region_withdraw(a, "mine"));
	assert_true(fakectrl_wait_region("a", "mine", false, LONG_MS));
	assert_ok(slime_mr_destroy(mr));
	assert_ok(slime_mem_destroy(mem));
	end(a);
}

/* ---- another topology ---- */

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

/* ---- names ---- */

static void name__of_another_owner_is_refused(void **state)
{
	struct slime_agent_attr attr = attr_of("a");
	struct slime_agent *first = start("a", NULL, 0), *second = start_with(&attr);

	(void)state;
	while (slime_agent_state(second) != SLIME_AGENT_REFUSED)
		poll(NULL, 0, 1);
	assert_int_equal(slime_agent_wait_ready(second, 50), -EADDRINUSE);
	assert_int_equal(slime_agent_state(first), SLIME_AGENT_READY);
	end(second);
	end(first);
}

static void name__is_taken_over_with_the_owner_key(void **state)
{
	char dir[] = "/tmp/slime-agent-XXXXXX", key[64];
	struct slime_agent_attr attr = attr_of("a");
	struct slime_agent *first, *second;
	struct stat st;

	(void)state;
	assert_non_null(mkdtemp(dir));
	attr.state_dir = dir;
	first = start_with(&attr);
	assert_ok(slime_agent_wait_ready(first, LONG_MS));
	second = start_with(&attr);
	assert_ok(slime_agent_wait_ready(second, LONG_MS));
	while (slime_agent_state(first) != SLIME_AGENT_ENDED)
		poll(NULL, 0, 1);
	assert_int_equal(slime_agent_wait_ready(first, LONG_MS), -ESHUTDOWN);

	snprintf(key, sizeof(key), "%s/default:a.key", dir);
	assert_ok(stat(key, &st));
	assert_int_equal(st.st_mode & 0777, 0600);
	end(first);
	end(second);
	assert_ok(unlink(key));
	assert_ok(rmdir(dir));
}

static void key__that_others_can_read_is_refused(void **state)
{
	char dir[] = "/tmp/slime-agent-XXXXXX", key[64];
	struct slime_agent_attr attr = attr_of("a");
	struct slime_agent *agent;

	(void)state;
	assert_non_null(mkdtemp(dir));
	attr.state_dir = dir;
	assert_ok(slime_agent_create(&attr, &agent));
	end(agent);
	snprintf(key, sizeof(key), "%s/default:a.key", dir);
	assert_ok(chmod(key, 0640));
	assert_int_equal(slime_agent_create(&attr, &agent), -EACCES);
	assert_ok(truncate(key, 10));
	assert_ok(chmod(key, 0600));
	assert_int_equal(slime_agent_create(&attr, &agent), -EPROTO);
	assert_ok(unlink(key));
	assert_ok(rmdir(dir));
}

static void create__refuses_what_is_out_of_range(void **state)
{
	struct slime_agent_attr nameless = attr_of(""), scoped = attr_of("a"), alone = attr_of("a"),
				looped = attr_of("a");
	struct slime_agent *agent;

	(void)state;
	scoped.scope = "obs";
	alone.n_urls = 0;
	looped.topology.links = &to_a;
	looped.topology.n_links = 1;
	assert_int_equal(slime_agent_create(&nameless, &agent), -EINVAL);
	assert_int_equal(slime_agent_create(&scoped, &agent), -EINVAL);
	assert_int_equal(slime_agent_create(&alone, &agent), -EINVAL);
	assert_int_equal(slime_agent_create(&looped, &agent), -EINVAL);
}

static void create__and_destroy_without_a_start(void **state)
{
	struct slime_agent_attr attr = attr_of("a");
	struct slime_agent *agent;

	(void)state;
	assert_ok(slime_agent_create(&attr, &agent));
	assert_ok(slime_agent_service_add(agent, "echo"));
	assert_int_equal(slime_agent_service_add(agent, "echo"), -EEXIST);
	assert_ok(slime_agent_destroy(agent));
	assert_ok(slime_agent_destroy(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(link__wanted_by_the_smaller_name_connects, reset),
		cmocka_unit_test_setup(link__wanted_by_the_greater_name_connects, reset),
		cmocka_unit_test_setup(link__wanted_by_both_is_one, reset),
		cmocka_unit_test_setup(link__waits_for_a_peer_that_is_not_there, reset),
		cmocka_unit_test_setup(link__of_each_profile_is_its_own, reset),
		cmocka_unit_test_setup(link__to_a_selector_connects_everyone_it_matches, reset),
		cmocka_unit_test_setup(link__to_a_selector_that_nobody_matches_is_reported, reset),
		cmocka_unit_test_setup(link__comes_back_with_a_peer_that_left, reset),
		cmocka_unit_test_setup(link__of_an_expired_peer_goes_on, reset),
		cmocka_unit_test_setup(link__closed_by_hand_is_forgotten_by_both, reset),
		cmocka_unit_test_setup(link__that_the_peer_wants_comes_back_as_its_own, reset),
		cmocka_unit_test_setup(endpoint__held_outlives_its_link, reset),
		cmocka_unit_test_setup(server__away_and_back_with_its_data_changes_nothing, reset),
		cmocka_unit_test_setup(server__back_without_its_data_learns_everything_again,
				       reset),
		cmocka_unit_test_setup(server__away_does_not_keep_an_agent_from_stopping, reset),
		cmocka_unit_test_setup(region__of_a_peer_is_read_by_name, reset),
		cmocka_unit_test_setup(region__of_a_peer_that_came_again_is_the_new_one, reset),
		cmocka_unit_test_setup(region__unknown_is_not_found, reset),
		cmocka_unit_test_setup(peer_find__says_who_is_registered, reset),
		cmocka_unit_test_setup(region__of_the_caller_is_shown_and_withdrawn, reset),
		cmocka_unit_test_setup(apply__brings_and_takes_links_and_regions, reset),
		cmocka_unit_test_setup(apply__of_a_malformed_topology_changes_nothing, reset),
		cmocka_unit_test_setup(name__of_another_owner_is_refused, reset),
		cmocka_unit_test_setup(name__is_taken_over_with_the_owner_key, reset),
		cmocka_unit_test_setup(key__that_others_can_read_is_refused, reset),
		cmocka_unit_test_setup(create__refuses_what_is_out_of_range, reset),
		cmocka_unit_test_setup(create__and_destroy_without_a_start, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
