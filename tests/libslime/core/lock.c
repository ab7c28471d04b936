/* SPDX-License-Identifier: Apache-2.0 */
/* The lock that is taken where it stands: who has it is alone, and who waits for it comes. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/core/lock.h"

#define THREADS 4
#define TURNS	20000

static struct sl_lock lock;
static unsigned counted;

static void *count(void *arg)
{
	(void)arg;
	for (int i = 0; i < TURNS; i++) {
		sl_lock(&lock);
		counted++;
		sl_unlock(&lock);
	}
	return NULL;
}

static void lock__of_several_threads_lets_in_one_at_a_time(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	counted = 0;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, count, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(counted, THREADS * TURNS);
	assert_int_equal(lock.word, SL_LOCK_FREE);
}

static void *come(void *arg)
{
	_Atomic bool *came = arg;

	sl_lock(&lock);
	atomic_store(came, true);
	sl_unlock(&lock);
	return NULL;
}

static void unlock__lets_in_each_of_those_who_wait(void **state)
{
	_Atomic bool came[THREADS] = { 0 };
	pthread_t threads[THREADS];

	(void)state;
	sl_lock(&lock);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, come, &came[i]), 0);
	while (atomic_load(&lock.word) != SL_LOCK_AWAITED)
		sched_yield();
	for (int i = 0; i < THREADS; i++)
		assert_false(atomic_load(&came[i]));
	sl_unlock(&lock);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_true(atomic_load(&came[i]));
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(lock__of_several_threads_lets_in_one_at_a_time),
		cmocka_unit_test(unlock__lets_in_each_of_those_who_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
