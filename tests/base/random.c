/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/random.h"

static void random_up_to__reaches_both_ends_and_nothing_beyond(void **state)
{
	unsigned seen = 0;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		uint64_t v = sl_random_up_to(2);

		assert_true(v <= 2);
		seen |= 1u << v;
	}
	assert_int_equal(seen, 7);
	assert_int_equal(sl_random_up_to(0), 0);
}

static uint64_t of_another_process(void)
{
	uint64_t v = 0;
	int fds[2], status;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		v = sl_random_up_to(UINT64_MAX);
		_exit(write(fds[1], &v, sizeof(v)) != sizeof(v));
	}
	assert_int_equal(read(fds[0], &v, sizeof(v)), sizeof(v));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(fds[0]);
	close(fds[1]);
	return v;
}

/* Agents that a launcher begins at one time do not come again at one time. */
static void random_up_to__differs_from_one_process_to_the_next(void **state)
{
	(void)state;
	assert_int_not_equal(of_another_process(), of_another_process());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_up_to__reaches_both_ends_and_nothing_beyond),
		cmocka_unit_test(random_up_to__differs_from_one_process_to_the_next),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
