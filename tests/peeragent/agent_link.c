/* SPDX-License-Identifier: Apache-2.0 */
/* Links of agents: who makes them, how they end and come back. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "peeragent/lib/agent/agent.h"
#include "peeragent/lib/links/entry.h"
#include "nanoctrl/net/loop.h"
#include "peeragent/lib/links/peer.h"
#include "peeragent/lib/plan/post.h"
#include "tests/peeragent/agents.h"
#include "tests/support/log_lines.h"

static const struct slime_agent_link to_b_bulk = { .to = "b", .profile = "bulk" };
static const struct slime_agent_link to_decoders = { .to = "role=decode" };
static const struct slime_label decode = { "role", "decode" };

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

/* The link to b that the topology of a names. */
static void links_end_by_hand(struct slime_agent *a)
{
	const struct slime_topology none = { .n_links = 0 };

	assert_ok(slime_agent_apply(a, &none));
}

static void link__beyond_those_that_the_peer_may_have_says_so(void **state)
{
	struct slime_agent *a = start("a", &to_b, 1), *b;
	struct slime_agent_attr attr = attr_of("b");
	struct slime_agent_link_info info[2];

	(void)state;
	attr.data.max_endpoints = 1;
	b = start_with(&attr);
	assert_connected(a, b, NULL);
	assert_ok(slime_agent_link_add(a, &to_b_bulk));
	do {
		poll(NULL, 0, 1);
		assert_int_equal(slime_agent_links(a, info, 2), 2);
	} while (info[1].state != SLIME_LINK_BROKEN);
	assert_string_equal(info[1].cause, "b: cannot connect: all places for links are taken "
					   "(data.max_links)");
	assert_true(fakectrl_wait_link("b", "a", "bulk", SLIME_LINK_REFUSED, LONG_MS));
	/* With a place it is not refused any more. */
	links_end_by_hand(a);
	assert_connected(a, b, "bulk");
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

static void await_failures(const char *agent, const char *peer, uint32_t n);

/* One end does not listen, and so has no tcp; the other one has, and is told. */
static void link__over_a_transport_that_this_end_lacks_is_refused(void **state)
{
	static const struct slime_agent_link over_tcp = { .to = "b",
							  .transports = { SLIME_TRANSPORT_TCP } };
	struct slime_agent_attr attr = attr_of("b");
	struct slime_agent_link_info info;
	struct slime_agent *a, *b;

	(void)state;
	attr.data.tcp_bind = "127.0.0.1";
	attr.transports[0] = SLIME_TRANSPORT_TCP;
	a = start("a", &over_tcp, 1);
	b = start_with(&attr);
	assert_true(fakectrl_wait_link("a", "b", "default", SLIME_LINK_REFUSED, LONG_MS));
	await_failures("b", "a", 3);
	assert_int_equal(slime_agent_links(a, &info, 1), 1);
	assert_int_equal(info.state, SLIME_LINK_REFUSED);
	assert_string_equal(info.cause, "tcp: we do not listen");
	assert_true(fakectrl_wait_link("a", "b", "default", SLIME_LINK_REFUSED, LONG_MS));
	assert_int_equal(slime_agent_links(b, &info, 1), 1);
	assert_int_equal(info.state, SLIME_LINK_BROKEN);
	end(b);
	/* Of a peer that is not there nothing is refused. */
	assert_true(fakectrl_wait_link("a", "b", "default", SLIME_LINK_CONNECTING, LONG_MS));
	end(a);
}

/* ---- links of the cluster ---- */

struct wishes {
	struct slime_agent *agent;
	struct ctrl_wanted list[2];
	size_t n;
};

static void tell_wishes(void *arg)
{
	struct wishes *w = arg;

	links_set_cluster(&w->agent->reconcile.links, w->list, w->n);
}

/* One wish for b; why it is refused, or NULL. */
static void wish_of(struct slime_agent *a, const char *topology, const char *refusal)
{
	struct wishes w = { a,
			    { { .link = { .to = "b", .profile = "default" },
				.topology = topology,
				.refusal = refusal } },
			    1 };

	loop_call(a->loop, tell_wishes, &w);
}

static void wish(struct slime_agent *a, const char *refusal)
{
	wish_of(a, "t", refusal);
}

static void assert_wanted_by(const char *source)
{
	struct fakectrl_report report;

	assert_true(fakectrl_report("a", "b", "default", &report));
	assert_string_equal(report.source, source);
}

/* The same of a report that comes soon. */
static void await_wanted_by(const char *source)
{
	uint64_t deadline_ms = sl_clock_ms() + LONG_MS;
	struct fakectrl_report report = { .source = "" };

	while (!fakectrl_report("a", "b", "default", &report) || strcmp(report.source, source)) {
		assert_true(sl_clock_ms() < deadline_ms);
		poll(NULL, 0, 1);
	}
}

/* Each report says which topology wants the link, the first one too. */
static void wish__of_another_topology_is_reported_and_keeps_the_link(void **state)
{
	struct slime_agent *a = start("a", NULL, 0), *b = start("b", NULL, 0);

	(void)state;
	wish(a, "no");
	assert_true(fakectrl_wait_link("a", "b", "default", SLIME_LINK_REFUSED, LONG_MS));
	assert_wanted_by("topology t");
	wish(a, NULL);
	assert_connected(a, b, NULL);
	assert_wanted_by("topology t");
	wish_of(a, "u", NULL);
	await_wanted_by("topology u");
	/* One of our own goes before, and ends. */
	assert_ok(slime_agent_link_add(a, &to_b));
	await_wanted_by("the program");
	assert_ok(slime_agent_link_remove(a, "b", NULL));
	await_wanted_by("topology u");
	assert_int_equal(n_connects(a), 1);
	end(a);
	end(b);
}

/* The link was there as the peer's. */
static void wish__for_a_link_of_the_peer_is_reported(void **state)
{
	struct slime_agent *a = start("a", NULL, 0), *b = start("b", &to_a, 1);

	(void)state;
	assert_connected(a, b, NULL);
	assert_wanted_by("the peer");
	wish(a, NULL);
	await_wanted_by("topology t");
	assert_int_equal(n_connects(a), 1);
	end(b);
	end(a);
}

static void wish__that_cannot_be_had_is_reported_as_refused(void **state)
{
	struct slime_agent *a = start("a", NULL, 0), *b = start("b", NULL, 0);
	struct wishes none = { .agent = a };
	struct slime_agent_link_info info;

	(void)state;
	wish(a, "it is of another world");
	assert_true(fakectrl_wait_link("a", "b", "default", SLIME_LINK_REFUSED, LONG_MS));
	assert_int_equal(slime_agent_links(a, &info, 1), 1);
	assert_string_equal(info.cause, "it is of another world");
	assert_int_equal(slime_agent_links(b, NULL, 0), 0);
	/* Another wish for it, and back. */
	wish(a, NULL);
	assert_connected(a, b, NULL);
	wish(a, "it is of another world");
	assert_true(fakectrl_wait_link("a", "b", "default", SLIME_LINK_REFUSED, LONG_MS));
	assert_true(fakectrl_wait_no_link("b", "a", "default", LONG_MS));
	loop_call(a->loop, tell_wishes, &none);
	assert_true(fakectrl_wait_no_link("a", "b", "default", LONG_MS));
	assert_int_equal(slime_agent_links(a, NULL, 0), 0);
	end(a);
	end(b);
}

static void wish__that_cannot_be_had_leaves_other_wishes_for_the_link_alone(void **state)
{
	struct slime_agent *a = start("a", NULL, 0), *b = start("b", NULL, 0);

	(void)state;
	wish(a, "no");
	assert_true(fakectrl_wait_link("a", "b", "default", SLIME_LINK_REFUSED, LONG_MS));
	/* The agent's own. */
	assert_ok(slime_agent_link_add(a, &to_b));
	assert_connected(a, b, NULL);
	assert_ok(slime_agent_link_remove(a, "b", NULL));
	assert_true(fakectrl_wait_link("a", "b", "default", SLIME_LINK_REFUSED, LONG_MS));
	/* The peer's. */
	assert_ok(slime_agent_link_add(b, &to_a));
	assert_connected(a, b, NULL);
	assert_wanted_by("topology t");
	assert_ok(slime_agent_link_remove(b, "a", NULL));
	assert_true(fakectrl_wait_link("a", "b", "default", SLIME_LINK_REFUSED, LONG_MS));
	/* A peer that ends. */
	end(b);
	assert_true(fakectrl_wait_link("a", "b", "default", SLIME_LINK_REFUSED, LONG_MS));
	end(a);
}

/* It had no part in the link, which is the peer's. */
static void wish__that_cannot_be_had_ends_and_keeps_a_link_of_the_peer(void **state)
{
	struct slime_agent *a = start("a", NULL, 0), *b = start("b", NULL, 0);
	struct wishes none = { .agent = a };

	(void)state;
	wish(a, "no");
	assert_true(fakectrl_wait_link("a", "b", "default", SLIME_LINK_REFUSED, LONG_MS));
	assert_ok(slime_agent_link_add(b, &to_a));
	assert_connected(a, b, NULL);
	/* Another reason. */
	wish_of(a, "u", "never");
	await_wanted_by("topology u");
	assert_connected(a, b, NULL);
	loop_call(a->loop, tell_wishes, &none);
	await_wanted_by("the peer");
	assert_connected(a, b, NULL);
	assert_int_equal(n_connects(a), 1);
	assert_int_equal(n_connects(b), 1);
	/* It ends with the wish of the peer. */
	assert_ok(slime_agent_link_remove(b, "a", NULL));
	assert_true(fakectrl_wait_no_link("a", "b", "default", LONG_MS));
	end(a);
	end(b);
}

static void await_failures(const char *agent, const char *peer, uint32_t n)
{
	uint64_t deadline_ms = sl_clock_ms() + LONG_MS;
	struct fakectrl_report report = { .n_failures = 0 };

	while (!fakectrl_report(agent, peer, "default", &report) || report.n_failures < n) {
		assert_true(sl_clock_ms() < deadline_ms);
		poll(NULL, 0, 1);
	}
}

static void outage__of_many_tries_has_one_beginning(void **state)
{
	struct slime_agent_attr attr = attr_of("b");
	struct slime_agent_link_info info;
	struct slime_agent *a, *b;
	uint64_t begin_ms, took_ms;

	(void)state;
	attr.transports[0] = SLIME_TRANSPORT_TCP;
	a = start("a", &to_b, 1);
	b = start_with(&attr);
	await_failures("a", "b", 1);
	begin_ms = sl_clock_ms();
	await_failures("a", "b", 6);
	took_ms = sl_clock_ms() - begin_ms;
	assert_int_equal(slime_agent_links(a, &info, 1), 1);
	assert_int_not_equal(info.state, SLIME_LINK_CONNECTED);
	assert_true(info.age_ms >= took_ms);
	end(b);
	end(a);
}

static void report__says_why_a_transport_was_passed_over(void **state)
{
	static const struct slime_agent_link tcp_or_shm = {
		.to = "b", .transports = { SLIME_TRANSPORT_TCP, SLIME_TRANSPORT_SHM }
	};
	struct slime_agent_attr attr = attr_of("b");
	struct fakectrl_report of_a, of_b;
	struct slime_agent *a, *b;

	(void)state;
	attr.transports[0] = SLIME_TRANSPORT_SHM;
	a = start("a", &tcp_or_shm, 1);
	b = start_with(&attr);
	assert_connected(a, b, NULL);
	assert_true(fakectrl_report("a", "b", "default", &of_a));
	assert_true(fakectrl_report("b", "a", "default", &of_b));
	assert_string_equal(of_a.transports, "tcp,shm");
	assert_string_equal(of_b.transports, "shm");
	assert_string_equal(of_a.passed_over, "tcp: we do not listen");
	assert_string_equal(of_b.passed_over, "");
	assert_int_not_equal(of_a.own_order, of_b.own_order);
	end(b);
	end(a);
}

static void report__says_what_a_link_that_is_back_was_lost_for(void **state)
{
	struct slime_agent *a = start("a", &to_b, 1), *b = start("b", NULL, 0);
	struct fakectrl_report report;

	(void)state;
	assert_connected(a, b, NULL);
	assert_true(fakectrl_report("a", "b", "default", &report));
	assert_string_equal(report.last_error, "");
	assert_int_equal(report.n_connects, 1);
	end(b);
	assert_true(fakectrl_wait_link("a", "b", "default", SLIME_LINK_CONNECTING, LONG_MS));
	b = start("b", NULL, 0);
	assert_connected(a, b, NULL);
	assert_true(fakectrl_report("a", "b", "default", &report));
	assert_string_not_equal(report.last_error, "");
	assert_int_equal(report.n_connects, 2);
	end(a);
	end(b);
}

static unsigned n_failures(const char *agent, const char *peer)
{
	struct fakectrl_report report;

	return fakectrl_report(agent, peer, "default", &report) ? report.n_failures : 0;
}

/* Each end has its own reason or, when the other is first, the other's. */
static void log__of_a_link_that_cannot_connect_has_each_reason_once(void **state)
{
	static const struct slime_agent_link over_shm = { .to = "a",
							  .transports = { SLIME_TRANSPORT_SHM } };
	struct slime_agent_attr attr = attr_of("b");
	struct slime_agent *a, *b;

	(void)state;
	attr.transports[0] = SLIME_TRANSPORT_TCP;
	log_lines_keep_from(SLIME_LOG_INFO);
	a = start("a", &to_b, 1);
	b = start_with(&attr);
	while (n_failures("a", "b") < 8 || n_failures("b", "a") < 8)
		poll(NULL, 0, 1);
	assert_in_range(log_lines_with("link b/default is broken: "), 1, 2);
	assert_int_equal(log_lines_with("link a/default is refused: tcp: we do not listen"), 1);
	assert_int_equal(log_lines_with("/default: "), 0);

	/* With one that both have they come together. */
	assert_ok(slime_agent_link_add(b, &over_shm));
	assert_connected(a, b, NULL);
	assert_int_equal(log_lines_with("link b/default is connected over shm after "), 1);
	assert_int_equal(log_lines_with("link a/default is connected over shm after "), 1);
	assert_int_equal(log_lines_with(" failed attempts"), 2);
	log_lines_release();
	end(b);
	end(a);
}

static void log__of_a_link_that_connects_at_once_has_one_line(void **state)
{
	struct slime_agent *a, *b;

	(void)state;
	log_lines_keep_from(SLIME_LOG_INFO);
	b = start("b", NULL, 0);
	a = start("a", &to_b, 1);
	assert_connected(a, b, NULL);
	assert_int_equal(log_lines_with("link b/default is connected over shm"), 1);
	assert_int_equal(log_lines_with("connected over shm after"), 0);
	assert_int_equal(log_lines_with("/default: "), 0);
	log_lines_release();
	end(a);
	end(b);
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

static void call_nobody(struct slime_agent *agent, struct slime_endpoint *ep)
{
	struct slime_call_args args = { .method = slime_rpc_method_id("nobody"),
					.timeout_ms = LONG_MS };
	struct slime_call *call;

	assert_ok(slime_call_create(slime_agent_context(agent), NULL, &call));
	assert_ok(slime_call_start(ep, &args, call));
	assert_ok(slime_call_wait(call, LONG_MS));
	assert_int_equal(slime_call_status(call), -ENOSYS);
	slime_call_destroy(call);
}

/* A counter that went back would be taken for a new process. */
static void stats__of_a_link_that_is_gone_stay(void **state)
{
	struct slime_agent_attr attr = attr_of("b");
	struct slime_agent *a = start("a", &to_decoders, 1), *b;
	struct slime_agent_stats stats;
	struct slime_endpoint *ep;

	(void)state;
	attr.topology.labels = &decode;
	attr.topology.n_labels = 1;
	for (unsigned i = 1; i <= 2; i++) {
		b = start_with(&attr);
		ep = get(a, "b", NULL);
		call_nobody(a, ep);
		slime_agent_stats(a, &stats);
		assert_int_equal(stats.ops.kinds[SLIME_KIND_CALL].submitted, i);
		assert_int_equal(stats.n_links[SLIME_LINK_CONNECTED], 1);
		slime_agent_endpoint_put(a, ep);
		end(b);
		assert_true(fakectrl_wait_no_link("a", "b", "default", LONG_MS));
		slime_agent_stats(a, &stats);
		assert_int_equal(stats.ops.kinds[SLIME_KIND_CALL].submitted, i);
		assert_int_equal(stats.n_links[SLIME_LINK_CONNECTED], 0);
		assert_int_equal(stats.n_connects, i);
	}
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

/* A slip in a name shows in the log. */
static void link__that_nobody_fulfils_has_one_line_in_the_log(void **state)
{
	static const struct slime_agent_link links[] = { { .to = "role=decode" },
							 { .to = "nobody" },
							 { .to = "b" } };
	struct slime_agent *a, *b = start("b", NULL, 0);

	(void)state;
	log_lines_keep_from(SLIME_LOG_INFO);
	a = start("a", links, 3);
	assert_connected(a, b, NULL);
	while (!log_lines_with("link nobody/default waits: no agent of this name is registered"))
		poll(NULL, 0, 1);
	while (!log_lines_with("link role=decode/default waits: no agent of the scope matches"))
		poll(NULL, 0, 1);
	end(b);
	end(a);
	assert_int_equal(log_lines_with("link nobody/default waits"), 1);
	assert_int_equal(log_lines_with("link role=decode/default waits"), 1);
	assert_int_equal(log_lines_with("link b/default waits"), 0);
	log_lines_release();
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

struct peer_question {
	struct slime_agent *agent;
	const char *name;
	bool there, up;
};

static void look_for_peer(void *arg)
{
	struct peer_question *q = arg;
	struct sl_list *node;

	q->there = q->up = false;
	sl_list_for_each (node, &q->agent->reconcile.links.peers) {
		const struct peer *peer = SL_CONTAINER_OF(node, struct peer, node);

		if (strcmp(peer->name, q->name) != 0)
			continue;
		q->there = true;
		q->up = peer->up;
	}
}

static void link__of_a_selector_ends_with_an_expired_peer_whose_connection_breaks(void **state)
{
	struct slime_agent_attr attr = attr_of("b");
	struct slime_agent *a = start("a", &to_decoders, 1), *b;
	struct peer_question q = { a, "b", true, true };

	(void)state;
	attr.topology.labels = &decode;
	attr.topology.n_labels = 1;
	b = start_with(&attr);
	assert_connected(a, b, NULL);
	fakectrl_cut_off("b");
	while (q.up)
		loop_call(a->loop, look_for_peer, &q);
	assert_int_equal(n_connects(a), 1);
	end(b);
	assert_true(fakectrl_wait_no_link("a", "b", "default", LONG_MS));
	assert_true(
		fakectrl_wait_link("a", "role=decode", "default", SLIME_LINK_CONNECTING, LONG_MS));
	end(a);
}

struct post_again {
	struct slime_agent *agent;
	enum link_phase before, after;
};

static enum link_phase phase_of_b(struct links *set)
{
	const struct peer *b = SL_CONTAINER_OF(set->peers.next, struct peer, node);

	return entry_find(b, "default")->link.phase;
}

static void post_gone_and_post(void *arg)
{
	struct post_again *p = arg;
	struct links *set = &p->agent->reconcile.links;
	struct post want = { .kind = POST_WANT, .wants = true };
	uint8_t bytes[POST_MAX];
	struct ctrl_offer offer = {
		"b", "default", "one", 1, 1, 7, bytes, post_encode(&want, bytes)
	};

	links_offer(set, &offer);
	p->before = phase_of_b(set);
	links_offer_gone(set, "b", "default", 7);
	links_offer(set, &offer);
	p->after = phase_of_b(set);
}

/* As after a loss of the session, when events of before are told again. */
static void post__that_is_told_to_be_gone_and_comes_again_counts(void **state)
{
	struct slime_agent *a = start("a", NULL, 0);
	struct post_again p = { .agent = a };

	(void)state;
	loop_call(a->loop, post_gone_and_post, &p);
	assert_int_equal(p.before, LINK_OFFERED);
	assert_int_equal(p.after, LINK_OFFERED);
	end(a);
}

/* As each run of a measurement is one. */
static void peer__that_has_no_link_any_more_is_forgotten(void **state)
{
	struct slime_agent *a = start("a", NULL, 0), *b = start("b", &to_a, 1);
	struct peer_question q = { a, "b", true, true };
	uint64_t deadline_ns = sl_deadline_ns(LONG_MS);

	(void)state;
	assert_connected(a, b, NULL);
	end(b);
	while (q.there) {
		assert_true(sl_clock_ns() < deadline_ns);
		loop_call(a->loop, look_for_peer, &q);
	}
	end(a);
}

/* The attempt numbers of others are none of the agent's own. */
static void link__offered_under_a_large_number_leaves_those_of_other_links_small(void **state)
{
	const uint64_t large = POST_ATTEMPT_MAX;
	const struct post offer = { POST_OFFER, true, large, "no descriptor", 13 };
	struct slime_agent *a = start("a", NULL, 0), *b = start("b", NULL, 0),
			   *c = start("c", NULL, 0);
	const struct slime_agent_link to_c = { .to = "c" };
	uint8_t bytes[POST_MAX];

	(void)state;
	fakectrl_post("a", "b", "bulk", 1, bytes, post_encode(&offer, bytes));
	/* Broken, and asked for again: where it stays, since a begins with small numbers. */
	assert_true(fakectrl_wait_link("b", "a", "bulk", SLIME_LINK_CONNECTING, LONG_MS));
	assert_ok(slime_agent_link_add(b, &to_c));
	assert_connected(b, c, NULL);
	assert_in_range(fakectrl_post_number("b", "c", "default"), 1, large - 1);
	end(a);
	end(b);
	end(c);
}

/* The peer, whose endpoints are used up, cannot offer it. */
static void link__made_anew_over_other_transports_stays_reported(void **state)
{
	const struct slime_agent_link over_shm = { .to = "a",
						   .transports = { SLIME_TRANSPORT_SHM } };
	struct slime_topology other = { .links = &over_shm, .n_links = 1 };
	struct slime_agent_attr attr = attr_of("a");
	struct slime_agent *a, *b;
	struct slime_endpoint *held;

	(void)state;
	attr.data.max_endpoints = 1;
	a = start_with(&attr);
	b = start("b", &to_a, 1);
	assert_connected(a, b, NULL);
	held = get(a, "b", NULL);
	assert_ok(slime_agent_apply(b, &other));
	assert_true(fakectrl_wait_link("b", "a", "default", SLIME_LINK_CONNECTING, LONG_MS));
	slime_agent_endpoint_put(a, held);
	assert_connected(a, b, NULL);
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

/* Also where it was added before. */
static void link__that_the_topology_names_is_not_taken_back(void **state)
{
	struct slime_topology named = { .links = &to_b, .n_links = 1 };
	struct slime_agent *a = start("a", NULL, 0), *b = start("b", NULL, 0);

	(void)state;
	assert_ok(slime_agent_link_add(a, &to_b));
	assert_connected(a, b, NULL);
	assert_ok(slime_agent_apply(a, &named));
	assert_ok(slime_agent_link_remove(a, "b", NULL));
	assert_int_equal(slime_agent_link_remove(a, "b", NULL), -ENOENT);
	assert_connected(a, b, NULL);
	assert_int_equal(n_connects(b), 1);
	end(a);
	end(b);
}

static void link__that_a_selector_matches_comes_back_as_its_own(void **state)
{
	struct slime_topology decoders = { .links = &to_decoders, .n_links = 1 };
	struct slime_agent_attr attr = attr_of("b");
	struct slime_agent *a = start("a", NULL, 0), *b;

	(void)state;
	attr.topology.labels = &decode;
	attr.topology.n_labels = 1;
	b = start_with(&attr);
	assert_ok(slime_agent_link_add(a, &to_b));
	assert_connected(a, b, NULL);
	assert_ok(slime_agent_apply(a, &decoders));
	assert_true(fakectrl_wait_no_link("a", "role=decode", "default", LONG_MS));
	assert_ok(slime_agent_link_remove(a, "b", NULL));
	assert_connected(a, b, NULL);
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

/* ---- the end of who waits for a link ---- */

struct getter {
	struct slime_agent *agent;
	uint64_t took_ns;
	int ret;
};

static void *get_b(void *arg)
{
	struct getter *g = arg;
	uint64_t since_ns = sl_clock_ns();
	struct slime_endpoint *ep;

	g->ret = slime_agent_endpoint_get(g->agent, "b", NULL, LONG_MS, &ep);
	g->took_ns = sl_clock_ns() - since_ns;
	return NULL;
}

struct waiters {
	struct slime_agent *agent;
	bool any;
};

static void look_for_waiters(void *arg)
{
	struct waiters *w = arg;

	w->any = !sl_list_empty(&w->agent->reconcile.links.waiters);
}

static void assert_told_at_once(const struct getter *g)
{
	assert_int_equal(g->ret, -ESHUTDOWN);
	assert_in_range(g->took_ns, 0, LONG_MS / 2 * SL_NS_PER_MS);
}

static void endpoint__of_an_agent_that_leaves_is_not_waited_for(void **state)
{
	struct slime_agent *a = start("a", &to_b, 1);
	struct getter before = { .agent = a }, after = { .agent = a };
	struct waiters waiters = { a, false };
	pthread_t thread;

	(void)state;
	assert_ok(pthread_create(&thread, NULL, get_b, &before));
	while (!waiters.any)
		loop_call(a->loop, look_for_waiters, &waiters);
	assert_ok(slime_agent_stop(a, LONG_MS));
	assert_ok(pthread_join(thread, NULL));
	assert_told_at_once(&before);
	get_b(&after);
	assert_told_at_once(&after);
	end(a);
}

static void link_add__of_an_agent_that_left_is_refused(void **state)
{
	struct slime_agent *a = start("a", NULL, 0), *b = start("b", NULL, 0);
	struct slime_topology wanted = { .links = &to_b, .n_links = 1 };

	(void)state;
	assert_ok(slime_agent_stop(a, LONG_MS));
	assert_int_equal(slime_agent_link_add(a, &to_b), -ESHUTDOWN);
	assert_int_equal(slime_agent_apply(a, &wanted), -ESHUTDOWN);
	assert_int_equal(slime_agent_links(a, NULL, 0), 0);
	end(a);
	end(b);
}

/* ---- what peers have posted ---- */

/* Closes the link to "a" and hears of its offer once more, before nanoctrl has answered. */
static void close_and_hear_again(void *arg)
{
	static const struct post offer = { POST_OFFER, false, 1, "d", 1 };
	struct slime_agent *agent = arg;
	struct links *links = &agent->reconcile.links;
	struct peer *peer = SL_CONTAINER_OF(links->peers.next, struct peer, node);
	struct entry *e = entry_find(peer, "default");
	uint8_t bytes[POST_MAX];
	struct ctrl_offer again = {
		.from = "a",
		.profile = "default",
		.incarnation = peer->incarnation,
		.epoch = peer->epoch,
		.generation = peer->generation,
		.number = e->seen,
		.descriptor = bytes,
		.len = post_encode(&offer, bytes),
	};

	links_close(links, &to_a, LINK_OF_CALLER);
	links_offer(links, &again);
}

/* A list may name it that was read before the link was closed. */
static void offer__that_was_taken_does_not_bring_back_a_link_that_was_closed(void **state)
{
	struct slime_agent *a = start("a", NULL, 0), *b = start("b", NULL, 0);

	(void)state;
	assert_ok(slime_agent_link_add(b, &to_a));
	assert_connected(a, b, NULL);
	loop_call(b->loop, close_and_hear_again, b);
	assert_int_equal(slime_agent_links(b, NULL, 0), 0);
	end(a);
	end(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(link__wanted_by_the_smaller_name_connects, reset),
		cmocka_unit_test_setup(link__wanted_by_the_greater_name_connects, reset),
		cmocka_unit_test_setup(link__wanted_by_both_is_one, reset),
		cmocka_unit_test_setup(link__beyond_those_that_the_peer_may_have_says_so, reset),
		cmocka_unit_test_setup(link__over_a_transport_that_this_end_lacks_is_refused,
				       reset),
		cmocka_unit_test_setup(wish__of_another_topology_is_reported_and_keeps_the_link,
				       reset),
		cmocka_unit_test_setup(wish__for_a_link_of_the_peer_is_reported, reset),
		cmocka_unit_test_setup(wish__that_cannot_be_had_is_reported_as_refused, reset),
		cmocka_unit_test_setup(
			wish__that_cannot_be_had_leaves_other_wishes_for_the_link_alone, reset),
		cmocka_unit_test_setup(wish__that_cannot_be_had_ends_and_keeps_a_link_of_the_peer,
				       reset),
		cmocka_unit_test_setup(link__waits_for_a_peer_that_is_not_there, reset),
		cmocka_unit_test_setup(post__that_is_told_to_be_gone_and_comes_again_counts, reset),
		cmocka_unit_test_setup(stats__of_a_link_that_is_gone_stay, reset),
		cmocka_unit_test_setup(outage__of_many_tries_has_one_beginning, reset),
		cmocka_unit_test_setup(report__says_why_a_transport_was_passed_over, reset),
		cmocka_unit_test_setup(report__says_what_a_link_that_is_back_was_lost_for, reset),
		cmocka_unit_test_setup(log__of_a_link_that_cannot_connect_has_each_reason_once,
				       reset),
		cmocka_unit_test_setup(log__of_a_link_that_connects_at_once_has_one_line, reset),
		cmocka_unit_test_setup(link__of_each_profile_is_its_own, reset),
		cmocka_unit_test_setup(link__to_a_selector_connects_everyone_it_matches, reset),
		cmocka_unit_test_setup(link__to_a_selector_that_nobody_matches_is_reported, reset),
		cmocka_unit_test_setup(link__that_nobody_fulfils_has_one_line_in_the_log, reset),
		cmocka_unit_test_setup(link__comes_back_with_a_peer_that_left, reset),
		cmocka_unit_test_setup(link__of_an_expired_peer_goes_on, reset),
		cmocka_unit_test_setup(
			link__of_a_selector_ends_with_an_expired_peer_whose_connection_breaks,
			reset),
		cmocka_unit_test_setup(peer__that_has_no_link_any_more_is_forgotten, reset),
		cmocka_unit_test_setup(
			link__offered_under_a_large_number_leaves_those_of_other_links_small,
			reset),
		cmocka_unit_test_setup(link__made_anew_over_other_transports_stays_reported, reset),
		cmocka_unit_test_setup(link__closed_by_hand_is_forgotten_by_both, reset),
		cmocka_unit_test_setup(link__that_the_topology_names_is_not_taken_back, reset),
		cmocka_unit_test_setup(link__that_a_selector_matches_comes_back_as_its_own, reset),
		cmocka_unit_test_setup(link__that_the_peer_wants_comes_back_as_its_own, reset),
		cmocka_unit_test_setup(endpoint__held_outlives_its_link, reset),
		cmocka_unit_test_setup(endpoint__of_an_agent_that_leaves_is_not_waited_for, reset),
		cmocka_unit_test_setup(link_add__of_an_agent_that_left_is_refused, reset),
		cmocka_unit_test_setup(
			offer__that_was_taken_does_not_bring_back_a_link_that_was_closed, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
