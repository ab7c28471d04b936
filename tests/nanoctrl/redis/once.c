/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/once.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include <event2/event.h>
#include "redis/url.h"

static unsigned n_allowed; /* allocations of libevent that are left */

static void *allocate(size_t size)
{
	return n_allowed && n_allowed-- ? malloc(size) : NULL;
}

static void *reallocate(void *at, size_t size)
{
	return n_allowed && n_allowed-- ? realloc(at, size) : NULL;
}

static void ask_nothing(void *arg)
{
	redis_once_end(arg, 0, "");
}

/* Nobody is there; what is told of that, and of want of memory before it, are words. */
static void once__with_each_allocation_failing_says_why(void **state)
{
	struct redis_url url;
	const char *why;
	bool came_far = false;

	(void)state;
	assert_int_equal(redis_url_parse("unix:///nowhere/redis.sock", &url, &why), 0);
	for (unsigned n = 0; !came_far && n < 1000; n++) {
		struct redis_once o = {
			.url = &url, .name = "test", .timeout_ms = 20, .max_inflight = 1
		};
		int ret;

		o.serves = ask_nothing;
		o.arg = &o;
		n_allowed = n;
		ret = redis_once(&o);
		came_far = n_allowed > 0;
		assert_true(ret == -ENOMEM || ret == -ENOTCONN);
		assert_int_not_equal(o.why[0], '\0');
	}
	assert_true(came_far);
	redis_url_fini(&url);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(once__with_each_allocation_failing_says_why),
	};

	event_set_mem_functions(allocate, reallocate, free);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
