/* SPDX-License-Identifier: Apache-2.0 */
/* What links of agents ask of rdma. a has fake0 to fake2 and b fake3 to fake5, of 100 Gbit/s each.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/fakes/fakeverbs.h"
#include "tests/peeragent/agents.h"

#define GBIT_S UINT64_C(1000000000)

static struct slime_agent *a, *b;

static int begin(void **state)
{
	fakeverbs_reset();
	for (unsigned i = 2; i < 6; i++)
		(void)fakeverbs_device(i);
	return reset(state);
}

static struct slime_agent *start_by(const char *name, const char *devices,
				    const struct slime_agent_link *link)
{
	struct slime_agent_attr attr = attr_of(name);

	attr.transports[0] = SLIME_TRANSPORT_RDMA;
	attr.transports[1] = SLIME_TRANSPORT_SHM;
	attr.data.rdma_devices = devices;
	attr.topology.links = link;
	attr.topology.n_links = link != NULL;
	return start_with(&attr);
}

static void start_both(const struct slime_agent_link *of_a, const struct slime_agent_link *of_b)
{
	a = start_by("a", "fake0,fake1,fake2", of_a);
	b = start_by("b", "fake3,fake4,fake5", of_b);
}

static void end_both(void)
{
	end(a);
	end(b);
	assert_int_equal(fakeverbs_check(), 0);
}

/* "fake0:1>fake3:1 ", of a's link, which is connected. */
static void assert_rails(const char *expected, uint32_t n_qps)
{
	struct slime_agent_link_info info;
	char have[256] = "";

	assert_connected(a, b, NULL);
	assert_int_equal(slime_agent_links(a, &info, 1), 1);
	assert_int_equal(info.transport, SLIME_TRANSPORT_RDMA);
	for (uint32_t i = 0; i < info.n_rails; i++) {
		snprintf(have + strlen(have), sizeof(have) - strlen(have), "%s>%s ",
			 info.rails[i].device, info.rails[i].peer);
		assert_int_equal(info.rails[i].n_qps, n_qps);
	}
	assert_string_equal(have, expected);
}

/* a's link is not, for that reason. */
static void assert_not(enum slime_link_state state, const char *why)
{
	struct slime_agent_link_info info;

	do {
		poll(NULL, 0, 1);
		assert_int_equal(slime_agent_links(a, &info, 1), 1);
	} while (info.state != state);
	if (!strstr(info.cause, why))
		fail_msg("'%s' does not say '%s'", info.cause, why);
}

static void link__has_the_numbers_that_its_agents_ask_for(void **state)
{
	static const struct slime_agent_link of_a = { .to = "b", .qps = 3, .rails = 2 };
	static const struct slime_agent_link of_b = { .to = "a", .qps = 4 };

	(void)state;
	start_both(&of_a, &of_b);
	assert_rails("fake0:1>fake3:1 fake1:1>fake4:1 ", 3);
	end_both();
}

static void link__has_the_ports_that_the_agent_names_of_both(void **state)
{
	static const struct slime_agent_link link = { .to = "a",
						      .devices = "fake5,fake3",
						      .peer_devices = "fake0,fake1" };

	(void)state;
	start_both(NULL, &link);
	assert_rails("fake0:1>fake5:1 fake1:1>fake3:1 ", 1);
	end_both();
}

/* The other one takes its data.rdma.qps_per_rail, which is 1. */
static void link__that_one_agent_wants_has_what_the_other_one_has(void **state)
{
	static const struct slime_agent_link link = { .to = "b", .qps = 3, .rails = 1 };

	(void)state;
	start_both(&link, NULL);
	assert_rails("fake0:1>fake3:1 ", 1);
	end_both();
}

static void link__over_a_device_that_is_not_there_says_so(void **state)
{
	static const struct slime_agent_link link = { .to = "b",
						      .transports = { SLIME_TRANSPORT_RDMA },
						      .devices = "fake9" };

	(void)state;
	start_both(&link, NULL);
	assert_not(SLIME_LINK_REFUSED, "fake9 is not among the RDMA devices of this process");
	end_both();
}

static void link__over_a_device_that_the_peer_has_not_says_so(void **state)
{
	static const struct slime_agent_link link = { .to = "b",
						      .transports = { SLIME_TRANSPORT_RDMA },
						      .peer_devices = "fake0" };

	(void)state;
	start_both(&link, NULL);
	assert_not(SLIME_LINK_BROKEN, "fake0");
	end_both();
}

static void link__with_too_little_bandwidth_says_so(void **state)
{
	static const struct slime_agent_link link = { .to = "b",
						      .transports = { SLIME_TRANSPORT_RDMA },
						      .rails = 2,
						      .min_bandwidth = 300 * GBIT_S };

	(void)state;
	start_both(&link, NULL);
	assert_not(SLIME_LINK_BROKEN, "2 rails have 200.0 Gbit/s together");
	end_both();
}

static void link__with_too_little_bandwidth_takes_another_transport(void **state)
{
	static const struct slime_agent_link link = { .to = "b", .min_bandwidth = 301 * GBIT_S };
	struct slime_agent_link_info info;
	struct fakectrl_report report;

	(void)state;
	start_both(&link, NULL);
	assert_connected(a, b, NULL);
	assert_int_equal(slime_agent_links(a, &info, 1), 1);
	assert_int_equal(info.transport, SLIME_TRANSPORT_SHM);
	assert_true(fakectrl_report("a", "b", "default", &report));
	assert_non_null(strstr(report.passed_over, "rdma: 3 rails have 300.0 Gbit/s together"));
	end_both();
}

/* ---- death ---- */

/* The end of b that a is told of; and how long after the begin. */
static struct slime_peer_end next_end(struct slime_agent_watch *w, uint64_t begin_ms,
				      uint64_t *took_ms)
{
	struct pollfd fd = { .fd = slime_agent_watch_fd(w), .events = POLLIN };
	struct slime_peer_end end_;

	assert_int_equal(poll(&fd, 1, LONG_MS), 1);
	*took_ms = sl_clock_ms() - begin_ms;
	assert_ok(slime_agent_watch_next(w, &end_));
	return end_;
}

/* The host of b lost its power, or the network is gone: no packet arrives any more, and nothing
 * says so. */
static void watch__of_a_peer_that_falls_silent_says_reset_in_time(void **state)
{
	static const struct slime_agent_link link = { .to = "b" };
	struct slime_agent_watch *w;
	struct slime_peer_end end_;
	uint64_t took_ms;

	(void)state;
	start_both(&link, NULL);
	assert_rails("fake0:1>fake3:1 fake1:1>fake4:1 fake2:1>fake5:1 ", 1);
	assert_ok(slime_agent_watch_create(a, NULL, NULL, &w));
	for (unsigned i = 0; i < 3; i++)
		fakeverbs_set_cut(i, 3 + i, true);
	end_ = next_end(w, sl_clock_ms(), &took_ms);
	assert_string_equal(end_.peer, "b");
	assert_int_equal(end_.reason, SLIME_PEER_RESET);
	assert_true(took_ms <= 2500);
	/* A look of an idle link each 500 ms, and 7 tries of 4 x 67 ms; or b, which lives, was
	 * first and said so. */
	assert_true(end_.silent_ms == 2379 || end_.silent_ms == 0);
	slime_agent_watch_destroy(w);
	end_both();
}

/* b's queue pair fails, and b says so to nanoctrl at once; a would notice later. */
static void watch__of_a_peer_whose_end_broke_says_reset(void **state)
{
	static const struct slime_agent_link link = { .to = "b", .rails = 1 };
	struct slime_agent_watch *w;
	struct slime_peer_end end_;
	uint32_t qps[8];
	uint64_t took_ms;
	size_t n;

	(void)state;
	start_both(&link, NULL);
	assert_rails("fake0:1>fake3:1 ", 1);
	assert_ok(slime_agent_watch_create(a, NULL, NULL, &w));
	n = fakeverbs_qps(3, qps, 8);
	for (size_t i = 0; i < n; i++)
		fakeverbs_raise_qp(3, qps[i], IBV_EVENT_QP_FATAL);
	end_ = next_end(w, sl_clock_ms(), &took_ms);
	assert_string_equal(end_.peer, "b");
	assert_int_equal(end_.reason, SLIME_PEER_RESET);
	assert_true(took_ms <= 2500);
	slime_agent_watch_destroy(w);
	end_both();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(link__has_the_numbers_that_its_agents_ask_for, begin),
		cmocka_unit_test_setup(link__has_the_ports_that_the_agent_names_of_both, begin),
		cmocka_unit_test_setup(link__that_one_agent_wants_has_what_the_other_one_has,
				       begin),
		cmocka_unit_test_setup(link__over_a_device_that_is_not_there_says_so, begin),
		cmocka_unit_test_setup(link__over_a_device_that_the_peer_has_not_says_so, begin),
		cmocka_unit_test_setup(link__with_too_little_bandwidth_says_so, begin),
		cmocka_unit_test_setup(link__with_too_little_bandwidth_takes_another_transport,
				       begin),
		cmocka_unit_test_setup(watch__of_a_peer_that_falls_silent_says_reset_in_time,
				       begin),
		cmocka_unit_test_setup(watch__of_a_peer_whose_end_broke_says_reset, begin),
	};

	return cmocka_run_group_tests_name("agent_rdma", tests, NULL, NULL);
}
