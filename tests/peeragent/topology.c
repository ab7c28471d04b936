/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "peeragent/lib/plan/topology.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

static const char *const decoders[] = { "role=decode", "name=node-c" };
static const char *const decoders_reversed[] = { "name=node-c", "role=decode" };

static const struct slime_agent_region kv = { .name = "kv", .size = 4096, .access = 3 };
static const struct slime_agent_region weights = {
	.name = "weights", .size = 1 << 20, .access = 1, .allow = decoders, .n_allow = 2
};
static const struct slime_agent_link to_b = { .to = "node-b" };
static const struct slime_agent_link to_b_tcp = { .to = "node-b",
						  .profile = "tcp",
						  .transports = { SLIME_TRANSPORT_TCP } };
static const struct slime_agent_link to_decoders = { .to = "role=decode,zone=a" };
static const struct slime_label prefill = { "role", "prefill" };
static const struct slime_label zone = { "zone", "a" };

struct draft {
	struct slime_label labels[4];
	struct slime_agent_region regions[4];
	struct slime_agent_link links[4];
	struct slime_topology t;
};

static struct slime_topology *seal(struct draft *d)
{
	d->t.labels = d->labels;
	d->t.regions = d->regions;
	d->t.links = d->links;
	return &d->t;
}

static void add_label(struct draft *d, struct slime_label l)
{
	d->labels[d->t.n_labels++] = l;
}

static void add_region(struct draft *d, struct slime_agent_region r)
{
	d->regions[d->t.n_regions++] = r;
}

static void add_link(struct draft *d, struct slime_agent_link l)
{
	d->links[d->t.n_links++] = l;
}

static void draft_all(struct draft *d)
{
	memset(d, 0, sizeof(*d));
	add_label(d, prefill);
	add_label(d, zone);
	add_region(d, kv);
	add_region(d, weights);
	add_link(d, to_b);
	add_link(d, to_b_tcp);
	add_link(d, to_decoders);
}

static void assert_plan(struct draft *want, struct draft *have, const struct plan_step *steps,
			size_t n)
{
	struct plan plan;

	assert_int_equal(topology_diff(seal(want), seal(have), &plan), 0);
	assert_int_equal(plan.n, n);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(plan.steps[i].verb, steps[i].verb);
		assert_int_equal(plan.steps[i].index, steps[i].index);
	}
	free(plan.steps);
}

static void diff__of_equal_topologies_is_empty(void **state)
{
	struct draft want, have;

	(void)state;
	draft_all(&want);
	draft_all(&have);
	assert_plan(&want, &have, NULL, 0);
}

static void diff__of_two_empty_topologies_is_empty(void **state)
{
	struct draft want = { 0 }, have = { 0 };

	(void)state;
	assert_plan(&want, &have, NULL, 0);
}

static void diff__ignores_the_order_of_elements(void **state)
{
	struct draft want, have = { 0 };
	struct slime_agent_region same = weights;

	(void)state;
	same.allow = decoders_reversed;
	draft_all(&want);
	add_label(&have, zone);
	add_label(&have, prefill);
	add_region(&have, same);
	add_region(&have, kv);
	add_link(&have, to_decoders);
	add_link(&have, to_b_tcp);
	add_link(&have, to_b);
	assert_plan(&want, &have, NULL, 0);
}

static void diff__from_nothing_offers_regions_then_opens_links(void **state)
{
	static const struct plan_step steps[] = {
		{ PLAN_REGION_OFFER, 0 }, { PLAN_REGION_OFFER, 1 }, { PLAN_LABELS, 0 },
		{ PLAN_LINK_OPEN, 0 },	  { PLAN_LINK_OPEN, 1 },    { PLAN_LINK_OPEN, 2 },
	};
	struct draft want, have = { 0 };

	(void)state;
	draft_all(&want);
	assert_plan(&want, &have, steps, N(steps));
}

static void diff__to_nothing_closes_links_then_withdraws_regions(void **state)
{
	static const struct plan_step steps[] = {
		{ PLAN_LINK_CLOSE, 0 },	     { PLAN_LINK_CLOSE, 1 },	  { PLAN_LINK_CLOSE, 2 },
		{ PLAN_REGION_WITHDRAW, 0 }, { PLAN_REGION_WITHDRAW, 1 }, { PLAN_LABELS, 0 },
	};
	struct draft want = { 0 }, have;

	(void)state;
	draft_all(&have);
	assert_plan(&want, &have, steps, N(steps));
}

static void diff__an_explicit_default_profile_is_the_default(void **state)
{
	struct draft want = { 0 }, have = { 0 };
	struct slime_agent_link named = to_b;

	(void)state;
	named.profile = "default";
	add_link(&want, named);
	add_link(&have, to_b);
	assert_plan(&want, &have, NULL, 0);
}

static void diff__other_transports_close_and_open_the_link(void **state)
{
	static const struct plan_step steps[] = { { PLAN_LINK_CLOSE, 1 }, { PLAN_LINK_OPEN, 1 } };
	struct draft want, have;

	(void)state;
	draft_all(&want);
	draft_all(&have);
	want.links[1].transports[0] = SLIME_TRANSPORT_SHM;
	assert_plan(&want, &have, steps, N(steps));
}

static void ask_qps(struct slime_agent_link *l)
{
	l->qps = 2;
}
static void ask_rails(struct slime_agent_link *l)
{
	l->rails = 2;
}
static void ask_devices(struct slime_agent_link *l)
{
	l->devices = "mlx5_0";
}
static void ask_peer_devices(struct slime_agent_link *l)
{
	l->peer_devices = "mlx5_0";
}
static void ask_min_bandwidth(struct slime_agent_link *l)
{
	l->min_bandwidth = 1;
}

static void ask_max_bandwidth(struct slime_agent_link *l)
{
	l->max_bandwidth = 1;
}

static void diff__a_link_that_asks_for_something_else_is_closed_and_opened(void **state)
{
	static const struct plan_step steps[] = { { PLAN_LINK_CLOSE, 1 }, { PLAN_LINK_OPEN, 1 } };
	static void (*const changes[])(struct slime_agent_link *) = {
		ask_qps,	  ask_rails,	     ask_devices,
		ask_peer_devices, ask_min_bandwidth, ask_max_bandwidth
	};

	(void)state;
	for (size_t i = 0; i < N(changes); i++) {
		struct draft want, have;

		draft_all(&want);
		draft_all(&have);
		changes[i](&want.links[1]);
		assert_plan(&want, &have, steps, N(steps));
	}
}

static void diff__another_profile_is_another_link(void **state)
{
	static const struct plan_step steps[] = { { PLAN_LINK_CLOSE, 0 }, { PLAN_LINK_OPEN, 0 } };
	struct draft want, have;

	(void)state;
	draft_all(&want);
	draft_all(&have);
	want.links[0].profile = "bulk";
	assert_plan(&want, &have, steps, N(steps));
}

static void change_size(struct slime_agent_region *r)
{
	r->size *= 2;
}

static void change_access(struct slime_agent_region *r)
{
	r->access = SLIME_ACCESS_REMOTE_READ;
}

static void change_huge(struct slime_agent_region *r)
{
	r->huge = SLIME_HUGE_OFF;
}

static void change_numa(struct slime_agent_region *r)
{
	r->numa_node = 1;
}

static void change_on_demand(struct slime_agent_region *r)
{
	r->on_demand = true;
}

static void change_gpu(struct slime_agent_region *r)
{
	r->gpu = "0000:17:00.0";
}

static void change_name(struct slime_agent_region *r)
{
	r->name = "kv2";
}

static void diff__other_memory_withdraws_and_offers_the_region(void **state)
{
	static const struct plan_step steps[] = { { PLAN_REGION_WITHDRAW, 0 },
						  { PLAN_REGION_OFFER, 0 } };
	void (*changes[])(struct slime_agent_region *) = { change_size, change_access,
							   change_huge, change_numa,
							   change_name, change_on_demand,
							   change_gpu };

	(void)state;
	for (size_t i = 0; i < N(changes); i++) {
		struct draft want, have;

		draft_all(&want);
		draft_all(&have);
		changes[i](&want.regions[0]);
		assert_plan(&want, &have, steps, N(steps));
	}
}

static void diff__other_readers_keep_the_memory(void **state)
{
	static const struct plan_step steps[] = { { PLAN_REGION_REPUBLISH, 1 } };
	struct draft want, have;

	(void)state;
	draft_all(&want);
	draft_all(&have);
	want.regions[1].n_allow = 1;
	assert_plan(&want, &have, steps, N(steps));
}

static void diff__a_changed_added_or_removed_label_is_one_step(void **state)
{
	static const struct plan_step steps[] = { { PLAN_LABELS, 0 } };
	struct draft want, have;

	(void)state;
	draft_all(&have);
	draft_all(&want);
	want.labels[0].value = "decode";
	assert_plan(&want, &have, steps, 1);

	draft_all(&want);
	add_label(&want, (struct slime_label){ "rack", "7" });
	assert_plan(&want, &have, steps, 1);

	draft_all(&want);
	want.t.n_labels = 1;
	assert_plan(&want, &have, steps, 1);
}

/* Every subset of a topology against every other: what a plan leaves is what was wanted. */
static void apply(const struct plan *plan, const struct slime_topology *want,
		  const struct slime_topology *have, unsigned *regions, unsigned *links)
{
	for (size_t i = 0; i < plan->n; i++) {
		size_t at = plan->steps[i].index;

		switch (plan->steps[i].verb) {
		case PLAN_LINK_CLOSE:
			*links -= 1u << (have->links[at].profile ? 1 : 0);
			break;
		case PLAN_LINK_OPEN:
			*links += 1u << (want->links[at].profile ? 1 : 0);
			break;
		case PLAN_REGION_WITHDRAW:
			*regions -= 1u << (have->regions[at].n_allow ? 1 : 0);
			break;
		case PLAN_REGION_OFFER:
			*regions += 1u << (want->regions[at].n_allow ? 1 : 0);
			break;
		case PLAN_REGION_REPUBLISH:
		case PLAN_LABELS:
			fail();
		}
	}
}

static void draft_subset(struct draft *d, unsigned set)
{
	memset(d, 0, sizeof(*d));
	if (set & 1)
		add_region(d, kv);
	if (set & 2)
		add_region(d, weights);
	if (set & 4)
		add_link(d, to_b);
	if (set & 8)
		add_link(d, to_b_tcp);
}

static void diff__between_any_two_subsets_leads_to_the_wanted_one(void **state)
{
	(void)state;
	for (unsigned w = 0; w < 16; w++) {
		for (unsigned h = 0; h < 16; h++) {
			struct draft want, have;
			unsigned regions = h & 3, links = h >> 2;
			struct plan plan;

			draft_subset(&want, w);
			draft_subset(&have, h);
			assert_int_equal(topology_diff(seal(&want), seal(&have), &plan), 0);
			apply(&plan, &want.t, &have.t, &regions, &links);
			assert_int_equal(regions, w & 3);
			assert_int_equal(links, w >> 2);
			free(plan.steps);
		}
	}
}

static void copy__is_equal_and_owns_its_texts(void **state)
{
	char name[] = "kv", to[] = "node-b", key[] = "role", value[] = "prefill";
	char gpu[] = "0000:17:00.0";
	struct draft d = { 0 };
	struct slime_topology *copy;

	(void)state;
	add_label(&d, (struct slime_label){ key, value });
	add_region(&d, weights);
	d.regions[0].name = name;
	d.regions[0].gpu = gpu;
	add_link(&d, to_b_tcp);
	d.links[0].to = to;
	d.links[0].devices = "mlx5_0";
	d.links[0].peer_devices = "mlx5_1:2";
	assert_int_equal(topology_copy(seal(&d), &copy), 0);
	memset(name, 'x', 2);
	memset(gpu, 'x', 12);
	memset(to, 'x', 6);
	memset(key, 'x', 4);
	memset(value, 'x', 7);

	assert_string_equal(copy->labels[0].key, "role");
	assert_string_equal(copy->labels[0].value, "prefill");
	assert_string_equal(copy->regions[0].name, "kv");
	assert_string_equal(copy->regions[0].gpu, "0000:17:00.0");
	assert_string_equal(copy->regions[0].allow[1], "name=node-c");
	assert_string_equal(copy->links[0].to, "node-b");
	assert_string_equal(copy->links[0].profile, "tcp");
	assert_string_equal(copy->links[0].devices, "mlx5_0");
	assert_ptr_not_equal(copy->links[0].devices, d.links[0].devices);
	assert_string_equal(copy->links[0].peer_devices, "mlx5_1:2");
	assert_int_equal(copy->links[0].transports[0], SLIME_TRANSPORT_TCP);
	free(copy);
}

static void copy__of_an_empty_topology_is_empty(void **state)
{
	struct slime_topology empty = { 0 }, *copy;

	(void)state;
	assert_int_equal(topology_copy(&empty, &copy), 0);
	assert_int_equal(copy->n_links + copy->n_regions + copy->n_labels, 0);
	free(copy);
}

static void selects__every_term_has_to_match(void **state)
{
	static const struct slime_label labels[] = { { "role", "decode" }, { "zone", "a" } };

	(void)state;
	assert_true(topology_selects("role=decode", "n", labels, 2));
	assert_true(topology_selects("role=decode,zone=a", "n", labels, 2));
	assert_true(topology_selects("name=n,zone=a", "n", labels, 2));
	assert_false(topology_selects("role=decode,zone=b", "n", labels, 2));
	assert_false(topology_selects("role=decod", "n", labels, 2));
	assert_false(topology_selects("role=decodeX", "n", labels, 2));
	assert_false(topology_selects("rack=1", "n", labels, 2));
	assert_false(topology_selects("name=m", "n", labels, 2));
	assert_false(topology_selects("role", "n", labels, 2));
	assert_false(topology_selects("role=decode,", "n", labels, 2));
}

static void check__accepts_what_is_well_formed(void **state)
{
	struct slime_topology_fault fault;
	struct draft d;

	(void)state;
	draft_all(&d);
	assert_int_equal(slime_topology_check(seal(&d), "node-a", &fault), 0);
}

struct bad {
	void (*spoil)(struct draft *d);
	const char *path;
};

static void same_region_twice(struct draft *d)
{
	d->regions[1].name = "kv";
}
static void empty_region(struct draft *d)
{
	d->regions[1].size = 0;
}
static void unnamed_region(struct draft *d)
{
	d->regions[0].name = "k v";
}
static void unknown_access(struct draft *d)
{
	d->regions[0].access = 4;
}
static void bad_allow(struct draft *d)
{
	static const char *const allow[] = { "role=decode", "decode" };

	d->regions[1].allow = allow;
}
static void allow_of_two_terms(struct draft *d)
{
	static const char *const allow[] = { "role=decode,zone=a" };

	d->regions[1].allow = allow;
	d->regions[1].n_allow = 1;
}
static void allow_of_nobody(struct draft *d)
{
	static const char *const allow[] = { "role=decode" };

	d->regions[1].allow = allow;
	d->regions[1].n_allow = 0;
}
static void allow_of_nothing(struct draft *d)
{
	d->regions[1].allow = NULL;
	d->regions[1].n_allow = 1;
}
static void gpu_without_a_domain(struct draft *d)
{
	d->regions[0].gpu = "17:00.0";
}
static void gpu_by_number(struct draft *d)
{
	d->regions[0].gpu = "0";
}
static void gpu_and_more(struct draft *d)
{
	d->regions[0].gpu = "0000:17:00.0/..";
}
static void gpu_on_demand(struct draft *d)
{
	d->regions[1].gpu = "0000:17:00.0";
	d->regions[1].on_demand = true;
}
static void link_to_self(struct draft *d)
{
	d->links[0].to = "node-a";
}
static void same_link_twice(struct draft *d)
{
	d->links[1].profile = "default";
}
static void bad_link_name(struct draft *d)
{
	d->links[2].to = "node b";
}
static void bad_selector(struct draft *d)
{
	d->links[2].to = "role=decode,,zone=a";
}
static void selector_by_two_signs(struct draft *d)
{
	d->links[2].to = "role==decode";
}
static void selector_of_one_label_twice(struct draft *d)
{
	d->links[2].to = "role=prefill,zone=a,role=decode";
}
static void selector_with_blanks(struct draft *d)
{
	d->links[2].to = "role=decode, zone=a";
}
static void selector_with_quotes(struct draft *d)
{
	d->links[2].to = "role=\"decode\"";
}
static void selector_by_a_pattern_sign(struct draft *d)
{
	d->links[2].to = "role=~decode";
}
static void allow_by_two_signs(struct draft *d)
{
	static const char *const allow[] = { "role==decode" };

	d->regions[1].allow = allow;
	d->regions[1].n_allow = 1;
}
static void selector_without_key(struct draft *d)
{
	d->links[2].to = "=decode";
}
static void bad_profile(struct draft *d)
{
	d->links[1].profile = "a/b";
}
static void too_many_qps(struct draft *d)
{
	d->links[1].qps = 9;
}
static void too_many_rails(struct draft *d)
{
	d->links[1].rails = SLIME_RAILS_MAX + 1;
}
static void bad_device(struct draft *d)
{
	d->links[1].devices = "mlx5_0,mlx5_0";
}
static void bad_peer_device(struct draft *d)
{
	d->links[1].peer_devices = "mlx5_0:0";
}
static void transport_twice(struct draft *d)
{
	d->links[1].transports[1] = SLIME_TRANSPORT_TCP;
}
static void bad_label_key(struct draft *d)
{
	d->labels[0].key = "a b";
}
static void bad_label_value(struct draft *d)
{
	d->labels[1].value = "a,b";
}
static void label_not_utf8(struct draft *d)
{
	d->labels[1].value = "\xff\xfe";
}
static void allow_not_utf8(struct draft *d)
{
	static const char *const allow[] = { "role=\xff" };

	d->regions[1].allow = allow;
	d->regions[1].n_allow = 1;
}
static void label_twice(struct draft *d)
{
	d->labels[1].key = "role";
}
static void label_called_name(struct draft *d)
{
	d->labels[0].key = "name";
}

static void region_of_dots(struct draft *d)
{
	d->regions[0].name = "..";
}
static void link_to_dots(struct draft *d)
{
	d->links[2].to = "..";
}
static void profile_of_a_dot(struct draft *d)
{
	d->links[1].profile = ".";
}

static void check__says_where_the_fault_is(void **state)
{
	static const struct bad bads[] = {
		{ same_region_twice, "regions.1.name" },
		{ empty_region, "regions.1.size" },
		{ unnamed_region, "regions.0.name" },
		{ unknown_access, "regions.0.access" },
		{ bad_allow, "regions.1.allow.1" },
		{ allow_of_two_terms, "regions.1.allow.0" },
		{ allow_of_nobody, "regions.1.allow" },
		{ allow_of_nothing, "regions.1.allow" },
		{ gpu_without_a_domain, "regions.0.gpu" },
		{ gpu_by_number, "regions.0.gpu" },
		{ gpu_and_more, "regions.0.gpu" },
		{ gpu_on_demand, "regions.1.on_demand" },
		{ link_to_self, "links.0.to" },
		{ same_link_twice, "links.1.to" },
		{ bad_link_name, "links.2.to" },
		{ bad_selector, "links.2.to" },
		{ selector_without_key, "links.2.to" },
		{ selector_by_two_signs, "links.2.to" },
		{ selector_of_one_label_twice, "links.2.to" },
		{ selector_with_blanks, "links.2.to" },
		{ selector_with_quotes, "links.2.to" },
		{ selector_by_a_pattern_sign, "links.2.to" },
		{ allow_by_two_signs, "regions.1.allow.0" },
		{ bad_profile, "links.1.profile" },
		{ too_many_qps, "links.1.qps" },
		{ too_many_rails, "links.1.rails" },
		{ bad_device, "links.1.devices" },
		{ bad_peer_device, "links.1.peer_devices" },
		{ transport_twice, "links.1.transports" },
		{ bad_label_key, "labels" },
		{ bad_label_value, "labels.zone" },
		{ label_not_utf8, "labels.zone" },
		{ allow_not_utf8, "regions.1.allow.0" },
		{ label_twice, "labels.role" },
		{ label_called_name, "labels" },
		{ region_of_dots, "regions.0.name" },
		{ link_to_dots, "links.2.to" },
		{ profile_of_a_dot, "links.1.profile" },
	};

	(void)state;
	for (size_t i = 0; i < N(bads); i++) {
		struct slime_topology_fault fault;
		struct draft d;

		draft_all(&d);
		bads[i].spoil(&d);
		assert_int_equal(slime_topology_check(seal(&d), "node-a", &fault), -22);
		assert_string_equal(fault.path, bads[i].path);
		assert_int_not_equal(fault.expected[0], 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(diff__of_equal_topologies_is_empty),
		cmocka_unit_test(diff__of_two_empty_topologies_is_empty),
		cmocka_unit_test(diff__ignores_the_order_of_elements),
		cmocka_unit_test(diff__from_nothing_offers_regions_then_opens_links),
		cmocka_unit_test(diff__to_nothing_closes_links_then_withdraws_regions),
		cmocka_unit_test(diff__an_explicit_default_profile_is_the_default),
		cmocka_unit_test(diff__other_transports_close_and_open_the_link),
		cmocka_unit_test(diff__a_link_that_asks_for_something_else_is_closed_and_opened),
		cmocka_unit_test(diff__another_profile_is_another_link),
		cmocka_unit_test(diff__other_memory_withdraws_and_offers_the_region),
		cmocka_unit_test(diff__other_readers_keep_the_memory),
		cmocka_unit_test(diff__a_changed_added_or_removed_label_is_one_step),
		cmocka_unit_test(diff__between_any_two_subsets_leads_to_the_wanted_one),
		cmocka_unit_test(copy__is_equal_and_owns_its_texts),
		cmocka_unit_test(copy__of_an_empty_topology_is_empty),
		cmocka_unit_test(selects__every_term_has_to_match),
		cmocka_unit_test(check__accepts_what_is_well_formed),
		cmocka_unit_test(check__says_where_the_fault_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
