/* SPDX-License-Identifier: Apache-2.0 */
/* What a Redis says of itself, and whether it can serve us. */
#include "redis/info.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const char *const modes[] = {
	[REDIS_PLAIN] = "standalone",
	[REDIS_SENTINEL] = "standalone",
	[REDIS_CLUSTER] = "cluster",
};

/* What is wrong with a primary of this version; "" for nothing. */
static const char *trouble_of(enum redis_kind kind, const char *version)
{
	static char why[160];
	char info[256];

	snprintf(info, sizeof(info),
		 "redis_version:%s\r\nredis_mode:%s\r\nrole:master\r\nloading:0\r\n", version,
		 modes[kind]);
	if (!redis_info_unfit(info, kind, why, sizeof(why)))
		assert_string_equal(why, "");
	return why;
}

static void unfit__is_whoever_is_too_old_for_our_commands(void **state)
{
	(void)state;
	assert_non_null(strstr(trouble_of(REDIS_PLAIN, "6.0.16"), "6.2 or later is needed"));
	assert_non_null(strstr(trouble_of(REDIS_CLUSTER, "5.100.0"), "6.2 or later is needed"));
	assert_string_equal(trouble_of(REDIS_PLAIN, "6.2.0"), "");
	assert_string_equal(trouble_of(REDIS_PLAIN, "10.0.1"), "");
}

static void unfit__is_whoever_lets_scripts_write_without_replicas(void **state)
{
	(void)state;
	for (int kind = REDIS_SENTINEL; kind <= REDIS_CLUSTER; kind++) {
		assert_non_null(strstr(trouble_of(kind, "6.2.14"),
				       "with sentinels or in a cluster 7.0 or later is needed"));
		assert_string_equal(trouble_of(kind, "7.0.0"), "");
	}
}

static void unfit__is_nobody_who_does_not_say(void **state)
{
	char why[160];

	(void)state;
	for (int kind = REDIS_PLAIN; kind <= REDIS_CLUSTER; kind++)
		assert_false(redis_info_unfit("", kind, why, sizeof(why)));
}

static void crowded__is_who_has_little_memory_left(void **state)
{
	(void)state;
	assert_false(redis_info_crowded(""));
	assert_false(redis_info_crowded("used_memory:900\r\nmaxmemory:0\r\n"));
	assert_false(redis_info_crowded("used_memory:750\r\nmaxmemory:1000\r\n"));
	assert_true(
		redis_info_crowded("used_memory:751\r\nused_memory_rss:1\r\nmaxmemory:1000\r\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(crowded__is_who_has_little_memory_left),
		cmocka_unit_test(unfit__is_whoever_is_too_old_for_our_commands),
		cmocka_unit_test(unfit__is_whoever_lets_scripts_write_without_replicas),
		cmocka_unit_test(unfit__is_nobody_who_does_not_say),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
