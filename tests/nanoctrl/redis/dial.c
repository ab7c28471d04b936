/* SPDX-License-Identifier: Apache-2.0 */
/* A Redis or a sentinel by its name, which a name server is asked for that says nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <event2/event.h>
#include <event2/util.h>
#include <base/clock.h>
#include "nanoctrl/net/loop.h"
#include "redis/redis.h"
#include "redis/url.h"
#include "support/lookups.h"
#include "support/name_server.h"

#define GIVE_UP_NS (60 * SL_NS_PER_S)
#define LABEL_70   "0123456789012345678901234567890123456789012345678901234567890123456789"

struct user {
	struct redis_url url;
	struct loop *loop;
	struct redis *redis;
	bool over;
};

static void on_up(void *arg, const char *run_id)
{
	(void)arg;
	(void)run_id;
	fail();
}

static void on_down(void *arg)
{
	struct user *u = arg;

	u->over = true;
}

static void begin(struct user *u, const char *url, uint32_t timeout_ms)
{
	struct redis_attr attr = { .url = &u->url,
				   .name = "test",
				   .timeout_ms = timeout_ms,
				   .max_inflight = 16,
				   .tries = 1,
				   .up = on_up,
				   .down = on_down,
				   .arg = u };
	const char *why;

	*u = (struct user){ .over = false };
	assert_int_equal(loop_create(&u->loop), 0);
	assert_int_equal(redis_url_parse(url, &u->url, &why), 0);
	assert_int_equal(redis_create(loop_base(u->loop), &attr, &u->redis), 0);
}

static void until_over(struct user *u)
{
	while (!u->over)
		event_base_loop(loop_base(u->loop), EVLOOP_ONCE);
}

static void end(struct user *u)
{
	redis_destroy(u->redis);
	redis_url_fini(&u->url);
	loop_destroy(u->loop);
	assert_int_equal(lookups_out(), 0);
}

static void end_while_asking(const char *url)
{
	uint64_t start = sl_clock_ns();
	struct user u;

	begin(&u, url, 60000);
	while (!name_server_is_asked()) {
		assert_true(sl_clock_ns() - start < GIVE_UP_NS);
		event_base_loop(loop_base(u.loop), EVLOOP_NONBLOCK);
	}
	assert_int_equal(lookups_out(), 1);
	end(&u);
}

static void destroy__while_the_name_of_redis_is_asked_for_leaves_nothing(void **state)
{
	(void)state;
	end_while_asking("redis://silent.example");
}

static void destroy__while_the_name_of_a_sentinel_is_asked_for_leaves_nothing(void **state)
{
	(void)state;
	end_while_asking("redis+sentinel://silent.example/primary");
}

/* Others may have an answer, and are asked in their turn. */
static void sentinel__whose_name_has_no_answer_is_left_in_time(void **state)
{
	struct user u;

	(void)state;
	begin(&u, "redis+sentinel://silent.example/primary", 200);
	until_over(&u);
	assert_string_equal(redis_trouble(u.redis),
			    "the sentinel at silent.example:26379: no name server answers");
	end(&u);
}

static void name__that_cannot_be_asked_for_says_so(void **state)
{
	struct user u;

	(void)state;
	begin(&u, "redis://" LABEL_70, 60000);
	until_over(&u);
	assert_string_equal(redis_trouble(u.redis), evutil_gai_strerror(EVUTIL_EAI_FAIL));
	end(&u);
}

static int setup(void **state)
{
	(void)state;
	name_server_start();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	name_server_stop();
	return 0;
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(destroy__while_the_name_of_redis_is_asked_for_leaves_nothing),
		T(destroy__while_the_name_of_a_sentinel_is_asked_for_leaves_nothing),
		T(sentinel__whose_name_has_no_answer_is_left_in_time),
		T(name__that_cannot_be_asked_for_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
