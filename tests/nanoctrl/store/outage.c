/* SPDX-License-Identifier: Apache-2.0 */
/* No lease ends while Redis is away or refuses. */
#include "tests/nanoctrl/store/fixture.h"

#include <errno.h>
#include <string.h>
#include <hiredis/hiredis.h>
#include <base/clock.h>
#include "store/hold.h"
#include "store/redis_store.h"

/* Who has little patience, on a busy machine, finds Redis late before the test makes it so. */
static bool is_too_late(struct fixture *f, int ret)
{
	if (ret != -EIO && ret != -EAGAIN)
		return false;
	fixture_until_serving(f, true);
	return true;
}

static void outage__ends_no_lease(void **state)
{
	struct fixture *f = *state;
	struct member m;
	int ret;

	do
		ret = fixture_register(f, &m, "node-a", "i1", OWNER_A, false);
	while (is_too_late(f, ret));
	assert_int_equal(ret, 0);
	test_redis_pause(&f->redis);
	fixture_until_serving(f, false);
	fixture_spend(f, SHORT_TTL_MS);
	test_redis_resume(&f->redis);
	fixture_until_serving(f, true);
	/* Overdue, and still there when it beats again. */
	fixture_spend(f, SHORT_TTL_MS / 4);
	do
		ret = fixture_beat(f, &m, NULL);
	while (is_too_late(f, ret));
	assert_int_equal(ret, 0);
}

static void refusal__ends_no_lease(void **state)
{
	struct fixture *f = *state;
	struct member m;

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	fixture_spend(f, SHORT_TTL_MS / 2);
	assert_int_equal(fixture_beat(f, &m, NULL), 0);
	/* Nobody here asks for anything: the reaper finds out by itself. */
	test_redis_do(&f->redis, "CONFIG SET min-replicas-to-write 1");
	fixture_spend(f, SHORT_TTL_MS * 3 / 2);
	test_redis_do(&f->redis, "CONFIG SET min-replicas-to-write 0");
	/* Overdue, and still there when it beats again. */
	fixture_spend(f, SHORT_TTL_MS / 4);
	assert_int_equal(fixture_beat(f, &m, NULL), 0);
	/* And it ends, when it beats no more. */
	fixture_until(f, 0, "ZCARD {" SCOPE "}:nanoctrl:names");
}

/* Also again: what Redis answered before it was paused makes room when it is read. */
static void ask_for_lists(struct fixture *f, struct answer *lists, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!lists[i].done)
			continue;
		memset(&lists[i], 0, sizeof(lists[i]));
		store_list_agents(f->store, SCOPE, "", 10, answer_page, &lists[i]);
	}
}

static void beat__that_is_not_taken_ends_no_lease(void **state)
{
	struct fixture *f = *state;
	struct answer lists[64], a = { .done = false };
	uint64_t hold_ns, start, refused_ns;
	struct member m;

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	hold_ns = hold_lease_end_ns(f->hub);
	for (int i = 0; i < 64; i++)
		lists[i].done = true;
	test_redis_pause(&f->redis);
	/* Not for a moment: it beats again. */
	start = sl_clock_ns();
	do {
		refused_ns = sl_clock_ns();
		ask_for_lists(f, lists, 64);
		a.done = false;
		store_beat(f->store, SCOPE, &m.lease, NULL, &(struct store_cursor){ 0, 0 },
			   answer_beat, &a);
		fixture_run(f, &a.done);
		assert_int_equal(a.result, -EBUSY);
	} while (hold_lease_end_ns(f->hub) == hold_ns);
	test_redis_resume(&f->redis);
	assert_true(sl_clock_ns() - start >= SHORT_TTL_MS * SL_NS_PER_MS / 3);
	assert_true(hold_lease_end_ns(f->hub) > refused_ns);
	fixture_run(f, &lists[63].done);
}

static void script_that_does_not_end__refuses_all_and_ends_no_lease(void **state)
{
	struct fixture *f = *state;
	struct answer a;
	struct member m;
	redisContext *c;
	int ret;

	test_redis_do(&f->redis, "CONFIG SET lua-time-limit 50");
	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	fixture_spend(f, SHORT_TTL_MS / 2);
	assert_int_equal(fixture_beat(f, &m, NULL), 0);
	c = fixture_begin_script(f);
	do
		ret = fixture_beat(f, &m, NULL);
	while (!ret); /* it may be asked before it */
	assert_int_equal(ret, -EAGAIN);
	assert_int_equal(fixture_names(f, &a), -EAGAIN);
	fixture_spend(f, SHORT_TTL_MS * 3 / 2);
	fixture_end_script(f, c);
	/* Overdue, and still there when it beats again. */
	fixture_spend(f, SHORT_TTL_MS / 4);
	assert_int_equal(fixture_beat(f, &m, NULL), 0);
	/* And it ends, when it beats no more. */
	fixture_until(f, 0, "ZCARD {" SCOPE "}:nanoctrl:names");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(outage__ends_no_lease, fixture_setup_impatient,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(
			script_that_does_not_end__refuses_all_and_ends_no_lease,
			fixture_setup_short_leases, fixture_teardown),
		cmocka_unit_test_setup_teardown(refusal__ends_no_lease, fixture_setup_short_leases,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(beat__that_is_not_taken_ends_no_lease,
						fixture_setup_short_leases, fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
