/* SPDX-License-Identifier: Apache-2.0 */
/* Who looks and finds nothing: how soon others have the CPU, and what it costs. Time and the yields
 * are the test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <time.h>

#include "base/clock.h"
#include "src/progress/context.h"
#include "src/progress/progress_spin.h"

#define ROUNDS 1000
/* Of rounds that look at nothing but memory: some microseconds. */
#define FIRST_YIELD_MAX 256
#define NEXT_YIELD_MAX	32

static struct slime_context ctx;
static uint64_t now_ns, yield_ns;
static unsigned n_yields, n_clocks;

int __wrap_sched_yield(void);
int __wrap_clock_gettime(clockid_t id, struct timespec *ts);

int __wrap_sched_yield(void)
{
	n_yields++;
	now_ns += yield_ns;
	return 0;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
	(void)id;
	n_clocks++;
	ts->tv_sec = (time_t)(now_ns / SL_NS_PER_S);
	ts->tv_nsec = (long)(now_ns % SL_NS_PER_S);
	return 0;
}

static struct sl_spin begin(enum slime_polling polling)
{
	static const struct slime_context_attr plain = SLIME_CONTEXT_ATTR_INIT;

	ctx.attr = plain;
	ctx.attr.polling = polling;
	now_ns = SL_NS_PER_S;
	yield_ns = 0;
	n_yields = n_clocks = 0;
	sl_spin_init(&ctx.progress, SL_NS_PER_S);
	return sl_spin_begin(&ctx.progress);
}

/* Rounds until the next yield. */
static unsigned rounds_to_yield(struct sl_spin *s)
{
	unsigned before = n_yields, n = 0;

	while (n_yields == before) {
		assert_int_equal(sl_spin_next(&ctx, s, 0, SL_NEVER), SL_SPIN_ON);
		assert_true(++n < ROUNDS);
	}
	return n;
}

static void check_yields(enum slime_polling polling)
{
	struct sl_spin s = begin(polling);

	assert_in_range(rounds_to_yield(&s), 2, FIRST_YIELD_MAX);
	for (int i = 0; i < ROUNDS; i++)
		assert_in_range(rounds_to_yield(&s), 1, NEXT_YIELD_MAX);
}

static void spin__that_finds_nothing_yields_soon_and_often(void **state)
{
	(void)state;
	check_yields(SLIME_POLLING_ADAPTIVE);
	check_yields(SLIME_POLLING_BUSY);
}

/* The one that is waited for shares our CPU: it has it sooner from then on. */
static void spin__whose_yield_helped_yields_sooner(void **state)
{
	struct sl_spin s = begin(SLIME_POLLING_ADAPTIVE);
	unsigned first = rounds_to_yield(&s);

	(void)state;
	for (int i = 0; i < 3; i++) {
		yield_ns = 50 * SL_NS_PER_US;
		s = sl_spin_begin(&ctx.progress);
		rounds_to_yield(&s);
		assert_int_equal(sl_spin_next(&ctx, &s, 1, SL_NEVER), SL_SPIN_ON);
	}
	assert_in_range(rounds_to_yield(&s), 1, first / 16);
}

/* Nobody else wanted it, or somebody with work of his own, for long. */
static void spin__whose_yield_did_not_help_is_patient_again(void **state)
{
	static const uint64_t in_vain[] = { 100, 20 * SL_NS_PER_MS };

	(void)state;
	for (size_t k = 0; k < sizeof(in_vain) / sizeof(in_vain[0]); k++) {
		struct sl_spin s = begin(SLIME_POLLING_ADAPTIVE);
		unsigned first = rounds_to_yield(&s);

		ctx.progress.yield_after = 1;
		yield_ns = in_vain[k];
		for (int i = 0; i < 16; i++) {
			s = sl_spin_begin(&ctx.progress);
			rounds_to_yield(&s);
			assert_int_equal(sl_spin_next(&ctx, &s, 1, SL_NEVER), SL_SPIN_ON);
		}
		assert_true(rounds_to_yield(&s) >= first);
	}
}

static void spin__looks_at_the_clock_once_in_many_rounds(void **state)
{
	struct sl_spin s = begin(SLIME_POLLING_ADAPTIVE);

	(void)state;
	for (int i = 0; i < ROUNDS; i++)
		assert_int_equal(sl_spin_next(&ctx, &s, 0, SL_NEVER), SL_SPIN_ON);
	/* A yield is measured: that is two more. */
	assert_true(n_clocks <= 2 * n_yields + ROUNDS / SL_SPIN_PASSES_PER_CLOCK);
	/* While there is something to do there is nothing to measure. */
	n_clocks = 0;
	for (int i = 0; i < ROUNDS; i++)
		assert_int_equal(sl_spin_next(&ctx, &s, 1, SL_NEVER), SL_SPIN_ON);
	assert_int_equal(n_clocks, 0);
}

static void spin__ends_in_sleep_or_at_the_deadline(void **state)
{
	struct sl_spin s = begin(SLIME_POLLING_ADAPTIVE);
	enum sl_spin_verdict v;

	(void)state;
	yield_ns = 10 * SL_NS_PER_MS;
	do
		v = sl_spin_next(&ctx, &s, 0, SL_NEVER);
	while (v == SL_SPIN_ON);
	assert_int_equal(v, SL_SPIN_SLEEP);
	s = begin(SLIME_POLLING_BUSY);
	yield_ns = 10 * SL_NS_PER_MS;
	do
		v = sl_spin_next(&ctx, &s, 0, 3 * SL_NS_PER_S);
	while (v == SL_SPIN_ON);
	assert_int_equal(v, SL_SPIN_TIMEOUT);
	assert_true(now_ns >= 3 * SL_NS_PER_S);
}

/* A server that always has something to do: a wait knows the time from the rounds, which look at
 * the clock now and then for the poller. */
static void spin__that_always_finds_something_ends_at_the_deadline(void **state)
{
	struct sl_spin s = begin(SLIME_POLLING_ADAPTIVE);

	(void)state;
	ctx.progress.poller_ns = now_ns;
	for (int i = 0; i < ROUNDS; i++)
		assert_int_equal(sl_spin_next(&ctx, &s, 1, now_ns + 1), SL_SPIN_ON);
	ctx.progress.poller_ns = now_ns + 1;
	assert_int_equal(sl_spin_next(&ctx, &s, 1, now_ns + 1), SL_SPIN_TIMEOUT);
	assert_int_equal(n_clocks, 0);
}

/* How long it spins until it is told to sleep, when each yield takes 1 us. */
static uint64_t spin_to_sleep(void)
{
	struct sl_spin s = sl_spin_begin(&ctx.progress);
	uint64_t begin = now_ns;

	yield_ns = SL_NS_PER_US;
	while (sl_spin_next(&ctx, &s, 0, SL_NEVER) == SL_SPIN_ON)
		;
	return now_ns - begin;
}

static void sleep_for(uint64_t ns)
{
	now_ns += ns;
	sl_spin_woke(&ctx.progress);
}

/* What comes one by one is found together, at one yield for all, in the place of a sleep for each.
 */
static void spin__that_would_sleep_at_once_lets_others_run_first(void **state)
{
	struct sl_spin s = begin(SLIME_POLLING_ADAPTIVE);

	(void)state;
	ctx.progress.patience_ns = 0;
	for (int i = 0; i < 3; i++) {
		n_yields = 0;
		assert_int_equal(sl_spin_next(&ctx, &s, 0, SL_NEVER), SL_SPIN_ON);
		assert_int_equal(n_yields, 1);
		assert_int_equal(sl_spin_next(&ctx, &s, 4, SL_NEVER), SL_SPIN_ON);
	}
	assert_int_equal(sl_spin_next(&ctx, &s, 0, SL_NEVER), SL_SPIN_ON);
	assert_int_equal(sl_spin_next(&ctx, &s, 0, SL_NEVER), SL_SPIN_SLEEP);
}

static void spin__is_short_while_waits_are_long_and_long_again_after_a_short_one(void **state)
{
	const uint64_t longest = SL_NS_PER_MS;
	uint64_t first, last;

	(void)state;
	begin(SLIME_POLLING_ADAPTIVE);
	sl_spin_init(&ctx.progress, longest);
	first = spin_to_sleep();
	assert_true(first >= longest);
	for (int i = 0; i < 16; i++) {
		sleep_for(10 * longest);
		last = spin_to_sleep();
	}
	assert_true(last < longest / 16);
	n_yields = 0;
	last = spin_to_sleep();
	assert_int_equal(n_yields, 1);
	assert_int_equal(last, yield_ns);
	/* Two wake-ups, one at each end, are no reason to fall asleep sooner. */
	sleep_for(2 * longest);
	assert_true(spin_to_sleep() >= longest);
	sleep_for(2 * longest);
	assert_true(spin_to_sleep() >= longest);
}

static void spin__of_who_did_not_sleep_is_as_long_as_before(void **state)
{
	(void)state;
	begin(SLIME_POLLING_ADAPTIVE);
	sl_spin_init(&ctx.progress, SL_NS_PER_MS);
	sleep_for(SL_NS_PER_S);
	assert_true(spin_to_sleep() >= SL_NS_PER_MS);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(spin__that_finds_nothing_yields_soon_and_often),
		cmocka_unit_test(spin__whose_yield_helped_yields_sooner),
		cmocka_unit_test(spin__whose_yield_did_not_help_is_patient_again),
		cmocka_unit_test(spin__looks_at_the_clock_once_in_many_rounds),
		cmocka_unit_test(spin__that_would_sleep_at_once_lets_others_run_first),
		cmocka_unit_test(spin__ends_in_sleep_or_at_the_deadline),
		cmocka_unit_test(spin__that_always_finds_something_ends_at_the_deadline),
		cmocka_unit_test(
			spin__is_short_while_waits_are_long_and_long_again_after_a_short_one),
		cmocka_unit_test(spin__of_who_did_not_sleep_is_as_long_as_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
