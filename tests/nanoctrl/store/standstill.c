/* SPDX-License-Identifier: Apache-2.0 */
/* No lease ends while this process, or a loop of it, stands still. */
#include "tests/nanoctrl/store/fixture.h"

#include <poll.h>
#include "nanoctrl/net/loop.h"

/* Beats until the time is over in which nobody is given up after the start. */
static void beat_past_the_start(struct fixture *f, const struct member *m)
{
	for (int i = 0; i < 4; i++) {
		assert_int_equal(fixture_beat(f, m, NULL), 0);
		fixture_spend(f, SHORT_TTL_MS * 3 / 10);
	}
	assert_int_equal(fixture_beat(f, m, NULL), 0);
}

/* Overdue, and still there when it beats again. */
static void assert_not_given_up(struct fixture *f, const struct member *m)
{
	fixture_spend(f, SHORT_TTL_MS / 4);
	assert_int_equal(fixture_beat(f, m, NULL), 0);
}

static void standstill_of_ours__ends_no_lease(void **state)
{
	struct fixture *f = *state;
	struct member m;

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	beat_past_the_start(f, &m);
	/* Nothing of ours runs. */
	poll(NULL, 0, SHORT_TTL_MS * 5 / 4);
	assert_not_given_up(f, &m);
	/* And it ends, when it beats no more. */
	fixture_until(f, 0, "ZCARD {" SCOPE "}:nanoctrl:names");
}

static void loop_without_redis__ends_no_lease(void **state)
{
	struct fixture *f = *state;
	struct store *other;
	struct loop *loop;
	struct member m;

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	beat_past_the_start(f, &m);
	/* It never comes up, since nobody runs it. */
	assert_int_equal(loop_create(&loop), 0);
	assert_int_equal(store_create(f->hub, loop, &other), 0);
	fixture_spend(f, SHORT_TTL_MS * 5 / 4);
	store_destroy(other);
	loop_destroy(loop);
	assert_not_given_up(f, &m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(standstill_of_ours__ends_no_lease,
						fixture_setup_short_leases, fixture_teardown),
		cmocka_unit_test_setup_teardown(loop_without_redis__ends_no_lease,
						fixture_setup_short_leases, fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
