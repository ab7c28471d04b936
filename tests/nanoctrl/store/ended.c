/* SPDX-License-Identifier: Apache-2.0 */
/* The line of the log about those that ended without a goodbye. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include <hiredis/hiredis.h>

#include "store/ended.h"
#include "tests/support/log_lines.h"

static struct ended ended;

/* n more, of whom a script names these. */
static void add(uint64_t n, char *a, char *b)
{
	redisReply first = { .type = REDIS_REPLY_STRING, .str = a, .len = a ? strlen(a) : 0 };
	redisReply second = { .type = REDIS_REPLY_STRING, .str = b, .len = b ? strlen(b) : 0 };
	redisReply *names[] = { &first, &second };
	const redisReply list = { .type = REDIS_REPLY_ARRAY,
				  .elements = (size_t)(a != NULL) + (b != NULL),
				  .element = names };

	ended_add(&ended, n, &list);
}

static void log__of_many_names_the_first_and_counts_the_rest(void **state)
{
	(void)state;
	log_lines_keep_from(SLIME_LOG_INFO);
	add(100, "node-1", "node-2");
	add(400, "node-3", "node-4");
	ended_log(&ended, "scope demo: ", "leases");
	assert_int_equal(log_lines_with("scope demo: 500 leases ended without a goodbye: node-1, "
					"node-2, node-3 and 497 more"),
			 1);
	/* And then nothing is left to say. */
	ended_log(&ended, "scope demo: ", "leases");
	assert_int_equal(log_lines_with("leases"), 1);
	log_lines_release();
}

static void log__of_few_names_all(void **state)
{
	(void)state;
	log_lines_keep_from(SLIME_LOG_INFO);
	add(2, "node-1", "node-2");
	ended_log(&ended, "", "agents");
	assert_int_equal(log_lines_with("2 agents ended without a goodbye: node-1, node-2"), 1);
	assert_int_equal(log_lines_with("more"), 0);
	log_lines_release();
}

static void log__without_names_counts(void **state)
{
	static const redisReply junk = { .type = REDIS_REPLY_INTEGER };
	redisReply *elements[] = { (redisReply *)(uintptr_t)&junk };
	const redisReply list = { .type = REDIS_REPLY_ARRAY, .elements = 1, .element = elements };

	(void)state;
	log_lines_keep_from(SLIME_LOG_INFO);
	ended_add(&ended, 3, NULL);
	ended_add(&ended, 4, &list);
	ended_log(&ended, "", "agents");
	assert_int_equal(log_lines_with("7 agents ended without a goodbye"), 1);
	log_lines_release();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(log__of_many_names_the_first_and_counts_the_rest),
		cmocka_unit_test(log__of_few_names_all),
		cmocka_unit_test(log__without_names_counts),
	};

	return cmocka_run_group_tests_name("ended", tests, NULL, NULL);
}
