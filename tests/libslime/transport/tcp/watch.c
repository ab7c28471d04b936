/* SPDX-License-Identifier: Apache-2.0 */
/* When a host that acknowledges nothing is taken for dead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "src/transport/tcp/tcp.h"

#define TIMEOUT	 2000
#define INTERVAL 500

static void silence__of_a_whole_timeout_lasts(void **state)
{
	uint64_t since = 0;

	(void)state;
	/* Long idle before: the last acknowledgement is old, and no silence. */
	for (uint64_t now = 10000; now < 10000 + TIMEOUT; now += INTERVAL)
		assert_false(tcp_silence_lasts(&since, now, true, now - 1, TIMEOUT));
	assert_true(tcp_silence_lasts(&since, 10000 + TIMEOUT, true, 10000 + TIMEOUT - 1, TIMEOUT));
}

/* Looks and acknowledgements take turns: whoever looks finds data under way and an old
 * acknowledgement, for ever. */
static void silence__ends_with_each_acknowledgement(void **state)
{
	uint64_t since = 0;

	(void)state;
	for (uint64_t now = 10000; now < 100000; now += INTERVAL + 400)
		assert_false(tcp_silence_lasts(&since, now, true, INTERVAL + 300, TIMEOUT));
}

static void silence__without_anything_under_way_is_none(void **state)
{
	uint64_t since = 0;

	(void)state;
	assert_false(tcp_silence_lasts(&since, 10000, true, 9000, TIMEOUT));
	assert_false(tcp_silence_lasts(&since, 11000, false, 10000, TIMEOUT));
	assert_false(tcp_silence_lasts(&since, 12500, true, 11500, TIMEOUT));
	assert_false(tcp_silence_lasts(&since, 14000, true, 13000, TIMEOUT));
	assert_true(tcp_silence_lasts(&since, 14500, true, 13500, TIMEOUT));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(silence__of_a_whole_timeout_lasts),
		cmocka_unit_test(silence__ends_with_each_acknowledgement),
		cmocka_unit_test(silence__without_anything_under_way_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
