/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/expand.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define N_MANY 500 /* a mesh of them is 124,750 links */

static const struct topology_params plain = { .profile = "default" };
static const struct topology_params wide = { .profile = "default", .qps = 4 };

/* Agents a, b, ... with one label each; NULL: none. */
struct scene {
	struct topology_label labels[8];
	struct topology_agent agents[8];
	size_t n;
	struct expansion out;
};

static void add(struct scene *s, const char *name, const char *key, const char *value)
{
	s->labels[s->n] = (struct topology_label){ key, value };
	s->agents[s->n] = (struct topology_agent){ .name = name,
						   .labels = key ? &s->labels[s->n] : NULL,
						   .n_labels = key ? 1 : 0 };
	s->n++;
}

static void run_kept(struct scene *s, const struct topology *t, size_t n,
		     const struct expanded_link *kept, size_t n_kept)
{
	assert_int_equal(expand(t, n, s->agents, s->n, kept, n_kept, &s->out), 0);
}

static void run(struct scene *s, const struct topology *t, size_t n)
{
	run_kept(s, t, n, NULL, 0);
}

static void run_wish(struct scene *s, const struct wish *wish)
{
	struct wish copy = *wish;
	struct topology t = { .name = "t", .wishes = &copy, .n_wishes = 1 };

	if (!copy.params.profile)
		copy.params = plain;
	run(s, &t, 1);
}

/* "a-b a-c" */
static void check_links(const struct scene *s, const char *expected)
{
	char have[256] = "";

	for (size_t i = 0; i < s->out.n_links; i++)
		snprintf(have + strlen(have), sizeof(have) - strlen(have), "%s%s-%s", i ? " " : "",
			 s->out.links[i].lower, s->out.links[i].upper);
	assert_string_equal(have, expected);
}

static const char *notes(const struct scene *s, size_t topology)
{
	static char all[4096];

	all[0] = '\0';
	for (size_t i = 0; i < s->out.topologies[topology].n_notes; i++)
		snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s\n",
			 s->out.topologies[topology].notes[i]);
	return all;
}

static void assert_noted(const struct scene *s, size_t topology, const char *text)
{
	if (!strstr(notes(s, topology), text))
		fail_msg("no \"%s\" in: %s", text, notes(s, topology));
}

/* "a: x > y" of each link: whose ports devices are. */
static void check_ports(const struct scene *s, const char *expected)
{
	char have[256] = "";

	for (size_t i = 0; i < s->out.n_links; i++) {
		const struct expanded_link *l = &s->out.links[i];

		snprintf(have + strlen(have), sizeof(have) - strlen(have), "%s%s: %s > %s",
			 i ? ", " : "", l->from_upper ? l->upper : l->lower, l->params->devices,
			 l->params->peer_devices);
	}
	assert_string_equal(have, expected);
}

static void expand__ports_are_those_of_the_first_end(void **state)
{
	static const struct topology_params ports = { .profile = "default",
						      .devices = "x",
						      .peer_devices = "y" };
	struct wish_pair pairs[] = { { "d", "a" } };
	struct wish wishes[] = {
		{ .kind = WISH_FROM_TO, .from = "role=y", .to = "role=x", .params = ports },
		{ .kind = WISH_PAIRS, .pairs = pairs, .n_pairs = 1, .params = ports },
	};
	struct topology t = { .name = "t", .wishes = wishes, .n_wishes = 2 };
	struct scene s = { .n = 0 };

	(void)state;
	add(&s, "a", "role", "x");
	add(&s, "b", "role", "y");
	add(&s, "c", "role", "x");
	run(&s, &t, 1);
	check_links(&s, "a-b a-d b-c");
	check_ports(&s, "b: x > y, d: x > y, b: x > y");
	expansion_fini(&s.out);
}

static void expand__ports_of_a_link_that_is_wanted_both_ways_agree_or_conflict(void **state)
{
	static const struct topology_params ports = { .profile = "default",
						      .devices = "x",
						      .peer_devices = "y" };
	static const struct topology_params turned = { .profile = "default",
						       .devices = "y",
						       .peer_devices = "x" };
	struct wish wishes[] = {
		{ .kind = WISH_FROM_TO, .from = "a", .to = "b", .params = ports },
		{ .kind = WISH_FROM_TO, .from = "b", .to = "a", .params = turned },
	};
	struct topology t = { .name = "t", .wishes = wishes, .n_wishes = 2 };
	struct scene s = { .n = 0 };

	(void)state;
	add(&s, "a", NULL, NULL);
	add(&s, "b", NULL, NULL);
	run(&s, &t, 1);
	check_links(&s, "a-b");
	assert_int_equal(s.out.topologies[0].state, TOPOLOGY_OK);
	expansion_fini(&s.out);
	wishes[1].params = ports;
	run(&s, &t, 1);
	assert_int_equal(s.out.topologies[0].state, TOPOLOGY_CONFLICTED);
	expansion_fini(&s.out);
}

static void expand__mesh_links_each_pair_once(void **state)
{
	struct scene s = { .n = 0 };

	(void)state;
	add(&s, "a", "role", "x");
	add(&s, "b", "role", "y");
	add(&s, "c", "role", "x");
	add(&s, "d", "role", "x");
	run_wish(&s, &(struct wish){ .kind = WISH_MESH, .from = "role=x" });
	check_links(&s, "a-c a-d c-d");
	assert_string_equal(s.out.links[0].lower, "a");
	assert_int_equal(s.out.topologies[0].state, TOPOLOGY_OK);
	expansion_fini(&s.out);
}

static void expand__from_to_links_both_sets_and_none_with_itself(void **state)
{
	struct scene s = { .n = 0 };

	(void)state;
	add(&s, "a", "role", "x");
	add(&s, "b", "role", "y");
	add(&s, "c", "role", "x");
	run_wish(&s, &(struct wish){ .kind = WISH_FROM_TO, .from = "role=y", .to = "role=x" });
	check_links(&s, "a-b b-c");
	expansion_fini(&s.out);
	run_wish(&s, &(struct wish){ .kind = WISH_FROM_TO, .from = "role=x", .to = "role=x" });
	check_links(&s, "a-c");
	expansion_fini(&s.out);
	run_wish(&s,
		 &(struct wish){ .kind = WISH_FROM_TO, .from = "role=y", .to = "name=c,role=x" });
	check_links(&s, "b-c");
	expansion_fini(&s.out);
}

static void expand__pairs_are_wanted_though_their_agents_are_absent(void **state)
{
	struct wish_pair pairs[] = { { "b", "a" }, { "b", "z" } };
	struct scene s = { .n = 0 };

	(void)state;
	add(&s, "a", NULL, NULL);
	add(&s, "b", NULL, NULL);
	run_wish(&s, &(struct wish){ .kind = WISH_PAIRS, .pairs = pairs, .n_pairs = 2 });
	check_links(&s, "a-b b-z");
	assert_noted(&s, 0, "z is not registered");
	expansion_fini(&s.out);
}

static void expand__star_links_the_center_with_each_leaf(void **state)
{
	struct scene s = { .n = 0 };

	(void)state;
	add(&s, "a", "role", "leaf");
	add(&s, "b", "role", "leaf");
	add(&s, "ps", NULL, NULL);
	run_wish(&s, &(struct wish){ .kind = WISH_STAR, .from = "ps", .to = "role=leaf" });
	check_links(&s, "a-ps b-ps");
	expansion_fini(&s.out);
}

static void place(struct scene *s, struct topology_label (*labels)[2], const char *const *ranks,
		  size_t n)
{
	static const char *const names[] = { "a", "b", "c", "d", "e", "f" };

	for (size_t i = 0; i < n; i++) {
		labels[i][0] = (struct topology_label){ "role", "stage" };
		labels[i][1] = (struct topology_label){ "rank", ranks[i] };
		s->agents[i] = (struct topology_agent){ .name = names[i],
							.labels = labels[i],
							.n_labels = ranks[i] ? 2 : 1 };
	}
	s->n = n;
}

static void run_ring(struct scene *s)
{
	run_wish(s, &(struct wish){ .kind = WISH_RING,
				    .from = "role=stage",
				    .by = "rank",
				    .settle_ms = 2000 });
}

static void ring_of(struct scene *s, struct topology_label (*labels)[2], const char *const *ranks,
		    size_t n)
{
	place(s, labels, ranks, n);
	run_ring(s);
}

static void expand__ring_is_in_the_order_of_integers(void **state)
{
	struct topology_label labels[6][2];
	struct scene s = { .n = 0 };

	(void)state;
	ring_of(&s, labels, (const char *[]){ "10", "9", "-1", "100" }, 4);
	check_links(&s, "a-b a-d b-c c-d");
	expansion_fini(&s.out);
	ring_of(&s, labels, (const char *[]){ "1", "2" }, 2);
	check_links(&s, "a-b");
	expansion_fini(&s.out);
	ring_of(&s, labels, (const char *[]){ "1" }, 1);
	check_links(&s, "");
	expansion_fini(&s.out);
}

static void expand__ring_leaves_out_and_reports_who_has_no_place(void **state)
{
	static const char *const ranks[] = { "1", NULL, "2", "x7", "3", "3" };
	struct topology_label labels[6][2];
	struct scene s = { .n = 0 };

	(void)state;
	ring_of(&s, labels, ranks, 6);
	check_links(&s, "a-c");
	assert_noted(&s, 0, "b is left out of the ring: it has no label rank");
	assert_noted(&s, 0, "d is left out of the ring: its label rank is no integer: x7");
	assert_noted(&s, 0, "e is left out of the ring: another agent has the same rank=3");
	assert_noted(&s, 0, "f is left out of the ring: another agent has the same rank=3");
	expansion_fini(&s.out);
}

/* One that left less than settle_ms ago has its place and its links, in rings alone, unless
 * another agent took the place over. */
static void expand__ring_keeps_the_place_of_an_agent_for_a_while(void **state)
{
	static const char *const ranks[] = { "1", "2", "3", "2" };
	struct topology_label labels[6][2];
	struct scene s = { .n = 0 };

	(void)state;
	place(&s, labels, ranks, 3);
	s.agents[1].gone = true;
	s.agents[1].gone_ms = 1999;
	run_ring(&s);
	check_links(&s, "a-b a-c b-c");
	expansion_fini(&s.out);
	run_wish(&s, &(struct wish){ .kind = WISH_MESH, .from = "role=stage" });
	check_links(&s, "a-c");
	expansion_fini(&s.out);
	s.agents[1].gone_ms = 2000;
	run_ring(&s);
	check_links(&s, "a-c");
	expansion_fini(&s.out);
	place(&s, labels, ranks, 4);
	s.agents[1].gone = true;
	run_ring(&s);
	check_links(&s, "a-c a-d c-d");
	expansion_fini(&s.out);
}

static void expand__selector_that_matches_nobody_is_a_warning(void **state)
{
	struct scene s = { .n = 0 };

	(void)state;
	add(&s, "a", "role", "x");
	run_wish(&s, &(struct wish){ .kind = WISH_FROM_TO, .from = "role=x", .to = "role=y" });
	check_links(&s, "");
	assert_noted(&s, 0, "no registered agent matches role=y");
	assert_int_equal(s.out.topologies[0].state, TOPOLOGY_OK);
	expansion_fini(&s.out);
}

static void expand__of_two_wishes_for_a_link_the_first_has_it(void **state)
{
	struct wish first = { .kind = WISH_MESH, .from = "role=x", .params = plain };
	struct wish second = { .kind = WISH_FROM_TO, .from = "a", .to = "b", .params = wide };
	struct topology t[] = { { .name = "one", .wishes = &first, .n_wishes = 1 },
				{ .name = "two", .wishes = &second, .n_wishes = 1 } };
	struct scene s = { .n = 0 };

	(void)state;
	add(&s, "a", "role", "x");
	add(&s, "b", "role", "x");
	run(&s, t, 2);
	check_links(&s, "a-b");
	assert_ptr_equal(s.out.links[0].topology, &t[0]);
	assert_int_equal(s.out.topologies[0].state, TOPOLOGY_OK);
	assert_int_equal(s.out.topologies[1].state, TOPOLOGY_CONFLICTED);
	assert_noted(&s, 1, "a - b (default) has other parameters in topology one");
	expansion_fini(&s.out);

	second.params = plain; /* the same wish twice is no conflict */
	run(&s, t, 2);
	check_links(&s, "a-b");
	assert_int_equal(s.out.topologies[1].state, TOPOLOGY_OK);
	expansion_fini(&s.out);

	second.params = wide;
	second.params.profile = "other"; /* another link */
	run(&s, t, 2);
	check_links(&s, "a-b a-b");
	expansion_fini(&s.out);
}

static void expand__too_many_links_keep_those_that_exist(void **state)
{
	struct wish first = { .kind = WISH_PAIRS, .params = plain };
	struct wish second = { .kind = WISH_MESH, .from = "role=x", .params = plain };
	struct wish_pair pair = { "y", "z" };
	struct topology t[] = { { .name = "small", .wishes = &first, .n_wishes = 1 },
				{ .name = "large", .wishes = &second, .n_wishes = 1 } };
	const struct expanded_link kept[] = { { "n000", "n001", &t[1], &plain, false },
					      { "o", "p", &t[0], &plain, false } };
	static const struct topology_label role = { "role", "x" };
	struct topology_agent *agents = calloc(N_MANY, sizeof(*agents));
	char(*names)[8] = calloc(N_MANY, sizeof(*names));
	struct scene s = { .n = 0 };

	(void)state;
	first.pairs = &pair;
	first.n_pairs = 1;
	for (size_t i = 0; i < N_MANY; i++) {
		snprintf(names[i], sizeof(names[i]), "n%03zu", i % 1000);
		agents[i] =
			(struct topology_agent){ .name = names[i], .labels = &role, .n_labels = 1 };
	}
	assert_int_equal(expand(t, 2, agents, N_MANY, kept, 2, &s.out), 0);
	check_links(&s, "n000-n001 y-z");
	assert_int_equal(s.out.topologies[0].state, TOPOLOGY_OK);
	assert_int_equal(s.out.topologies[1].state, TOPOLOGY_TOO_MANY_LINKS);
	expansion_fini(&s.out);
	assert_int_equal(expand(t, 2, agents, 447, NULL, 0, &s.out), 0);
	assert_int_equal(s.out.n_links, 447 * 446 / 2 + 1); /* 99,681 and the pair */
	expansion_fini(&s.out);
	free(names);
	free(agents);
}

static void expand__agents_that_are_expected_and_absent_are_counted(void **state)
{
	struct expected expected[] = { { .who = "role=x", .count = 3 },
				       { .who = "a", .count = 1 },
				       { .who = "z", .count = 1 } };
	struct topology t = { .name = "t", .expected = expected, .n_expected = 3 };
	struct scene s = { .n = 0 };

	(void)state;
	add(&s, "a", "role", "x");
	add(&s, "b", "role", "x");
	run(&s, &t, 1);
	assert_int_equal(s.out.topologies[0].state, TOPOLOGY_WAITING);
	assert_int_equal(s.out.topologies[0].n_absent, 2);
	assert_noted(&s, 0, "absent: role=x: 2 of 3 are registered");
	assert_noted(&s, 0, "absent: z: 0 of 1 are registered");
	expansion_fini(&s.out);
}

static void expand__agent_with_another_label_than_is_expected_is_absent(void **state)
{
	struct topology_label labels[] = { { "role", "y" } };
	struct expected expected[] = {
		{ .who = "a", .count = 1, .labels = labels, .n_labels = 1 },
		{ .who = "b", .count = 1, .labels = labels, .n_labels = 1 }
	};
	struct topology t = { .name = "t", .expected = expected, .n_expected = 2 };
	struct scene s = { .n = 0 };

	(void)state;
	add(&s, "a", "role", "x");
	add(&s, "b", "role", "y");
	run(&s, &t, 1);
	assert_int_equal(s.out.topologies[0].state, TOPOLOGY_WAITING);
	assert_int_equal(s.out.topologies[0].n_absent, 1);
	assert_noted(&s, 0, "absent: a has label role=x, and y is expected");
	expansion_fini(&s.out);
}

static void selects__all_terms_have_to_hold(void **state)
{
	const struct topology_label labels[] = { { "role", "x" }, { "zone", "" } };
	const struct topology_agent a = { .name = "a", .labels = labels, .n_labels = 2 };

	(void)state;
	assert_true(wish_selects("a", &a));
	assert_true(wish_selects("role=x,name=a,zone=", &a));
	assert_false(wish_selects("role=x,name=b", &a));
	assert_false(wish_selects("role=xy", &a));
	assert_false(wish_selects("rol=x", &a));
	assert_false(wish_selects("role=x,=", &a));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(expand__ports_are_those_of_the_first_end),
		cmocka_unit_test(
			expand__ports_of_a_link_that_is_wanted_both_ways_agree_or_conflict),
		cmocka_unit_test(expand__mesh_links_each_pair_once),
		cmocka_unit_test(expand__from_to_links_both_sets_and_none_with_itself),
		cmocka_unit_test(expand__pairs_are_wanted_though_their_agents_are_absent),
		cmocka_unit_test(expand__star_links_the_center_with_each_leaf),
		cmocka_unit_test(expand__ring_is_in_the_order_of_integers),
		cmocka_unit_test(expand__ring_leaves_out_and_reports_who_has_no_place),
		cmocka_unit_test(expand__ring_keeps_the_place_of_an_agent_for_a_while),
		cmocka_unit_test(expand__selector_that_matches_nobody_is_a_warning),
		cmocka_unit_test(expand__of_two_wishes_for_a_link_the_first_has_it),
		cmocka_unit_test(expand__too_many_links_keep_those_that_exist),
		cmocka_unit_test(expand__agents_that_are_expected_and_absent_are_counted),
		cmocka_unit_test(expand__agent_with_another_label_than_is_expected_is_absent),
		cmocka_unit_test(selects__all_terms_have_to_hold),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
