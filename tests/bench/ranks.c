/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that measure at the same time: they wait for each other, and all end with one that
 * fails. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "bench/process/ranks.h"

#define N 4

/* Between the processes. */
struct shared {
	_Atomic int here, early, broken;
	int fails; /* this rank, before the barrier; -1: none */
	int got[N];
	size_t n_got;
};

static int run(void *arg, size_t i, const struct rank *rank)
{
	struct shared *s = arg;
	int value = (int)i * 10;

	if ((int)i == s->fails)
		return 3;
	atomic_fetch_add(&s->here, 1);
	if (rank_barrier(rank)) {
		atomic_fetch_add(&s->broken, 1);
		return 1;
	}
	if (atomic_load(&s->here) != N)
		atomic_fetch_add(&s->early, 1);
	return rank_send(rank, &value, sizeof(value)) ? 1 : 0;
}

static int receive(void *arg, size_t i, const struct rank *rank)
{
	struct shared *s = arg;

	assert_int_equal(i, s->n_got);
	return rank_receive(rank, &s->got[s->n_got++], sizeof(int));
}

static int set_up(void **state)
{
	struct shared *s =
		mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	s->fails = -1;
	*state = s;
	return s == MAP_FAILED;
}

static int tear_down(void **state)
{
	return munmap(*state, sizeof(struct shared));
}

static int run_all(struct shared *s)
{
	const struct ranks_attr attr = {
		.n = N, .n_barriers = 1, .run = run, .receive = receive, .arg = s
	};

	return ranks_run(&attr);
}

static void ranks_run__waits_for_all_and_receives_in_order(void **state)
{
	struct shared *s = *state;

	assert_int_equal(run_all(s), EXIT_SUCCESS);
	assert_int_equal(atomic_load(&s->early), 0);
	assert_int_equal(s->n_got, N);
	for (int i = 0; i < N; i++)
		assert_int_equal(s->got[i], i * 10);
}

static void ranks_run__of_one_that_fails_ends_the_others_at_the_barrier(void **state)
{
	struct shared *s = *state;

	for (s->fails = 0; s->fails < N; s->fails++) {
		atomic_store(&s->broken, 0);
		assert_int_not_equal(run_all(s), EXIT_SUCCESS);
		assert_int_equal(atomic_load(&s->broken), N - 1);
		assert_int_equal(s->n_got, 0);
	}
}

static void rank_barrier__of_one_alone_passes(void **state)
{
	const struct rank alone = RANK_ALONE;

	(void)state;
	assert_int_equal(rank_barrier(&alone), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(ranks_run__waits_for_all_and_receives_in_order,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			ranks_run__of_one_that_fails_ends_the_others_at_the_barrier, set_up,
			tear_down),
		cmocka_unit_test(rank_barrier__of_one_alone_passes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
