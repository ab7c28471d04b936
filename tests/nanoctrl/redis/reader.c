/* SPDX-License-Identifier: Apache-2.0 */
/* What cannot be read of an answer, and whose fault that is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "redis/reader.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void *no_string(const redisReadTask *task, char *text, size_t len)
{
	(void)task;
	(void)text;
	(void)len;
	return NULL;
}

/* What becomes of these bytes, and why; hiredis has memory for strings or not. */
static int read_of(const char *bytes, bool memory, char why[128])
{
	struct redis_reader r;
	redisReply *reply = NULL;
	const char *text = "";
	int ret;

	assert_int_equal(redis_reader_init(&r), 0);
	if (!memory)
		r.own.createString = no_string;
	assert_int_equal(redis_reader_feed(&r, bytes, strlen(bytes), SIZE_MAX), 0);
	ret = redis_reader_next(&r, &reply, &text);
	snprintf(why, 128, "%s", text);
	if (reply)
		freeReplyObject(reply);
	redis_reader_fini(&r);
	return ret;
}

static void next__without_memory_says_so(void **state)
{
	char why[128];

	(void)state;
	assert_int_equal(read_of("*2\r\n:1\r\n$1\r\na\r\n", true, why), 0);
	assert_int_equal(read_of("*2\r\n:1\r\n$1\r\na\r\n", false, why), -ENOMEM);
	assert_string_equal(why, "out of memory");
	assert_int_equal(read_of("+OK\r\n", false, why), -ENOMEM);
}

static void next__of_more_than_an_answer_may_be_says_so(void **state)
{
	char why[128], array[32];

	(void)state;
	snprintf(array, sizeof(array), "*%u\r\n", REDIS_READER_ELEMENTS_MAX + 1);
	assert_int_equal(read_of(array, true, why), -EPROTO);
	assert_string_equal(why, "Redis sent an answer that is too large");
}

static void next__of_what_is_no_answer_says_so(void **state)
{
	char why[128];

	(void)state;
	assert_int_equal(read_of("?\r\n", false, why), -EPROTO);
	assert_non_null(strstr(why, "Protocol error"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(next__without_memory_says_so),
		cmocka_unit_test(next__of_more_than_an_answer_may_be_says_so),
		cmocka_unit_test(next__of_what_is_no_answer_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
