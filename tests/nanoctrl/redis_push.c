/* SPDX-License-Identifier: Apache-2.0 */
/* A connection that only listens, at a pace of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "redis.h"

#include <event2/event.h>
#include <base/clock.h>
#include "loop.h"
#include "redis_url.h"
#include "support/redis.h"

#define GIVE_UP_NS (60 * SL_NS_PER_S)
#define PACE_MS	   100
#define PUBLISHED  2000
/* Redis writes 64 KiB at a time, and there are 220 of them; we were to read 4 KiB each time. */
#define RESTS_MAX 10

struct listener {
	struct test_redis server;
	struct redis_url url;
	struct loop *loop;
	struct redis *redis;
	bool up;
	unsigned n_heard;
	unsigned n_rests;
	uint64_t heard_ns;
};

static void on_up(void *arg, const char *run_id)
{
	struct listener *l = arg;

	(void)run_id;
	l->up = true;
}

static void on_down(void *arg)
{
	struct listener *l = arg;

	l->up = false;
}

static void on_push(void *arg, const struct redisReply *message)
{
	struct listener *l = arg;
	uint64_t now = sl_clock_ns();

	(void)message;
	if (l->n_heard && now - l->heard_ns >= PACE_MS * SL_NS_PER_MS)
		l->n_rests++;
	l->heard_ns = now;
	l->n_heard++;
}

static void until_heard(struct listener *l, unsigned n)
{
	uint64_t start = sl_clock_ns();

	while (!l->up || l->n_heard < n) {
		if (sl_clock_ns() - start > GIVE_UP_NS)
			fail_msg("%u of %u were heard", l->n_heard, n);
		event_base_loop(loop_base(l->loop), EVLOOP_ONCE);
	}
}

static void messages__that_came_together_are_read_together(void **state)
{
	static const char *const words[] = { "SUBSCRIBE", "news" };
	struct listener l = { 0 };
	struct redis_attr attr = { .url = &l.url,
				   .name = "test",
				   .timeout_ms = 30000,
				   .max_inflight = 16,
				   .up = on_up,
				   .down = on_down,
				   .push = on_push,
				   .push_ms = PACE_MS,
				   .arg = &l };
	const char *why;

	(void)state;
	test_redis_start(&l.server);
	assert_int_equal(loop_create(0, &l.loop), 0);
	assert_int_equal(redis_url_parse(l.server.url, &l.url, &why), 0);
	assert_int_equal(redis_create(loop_base(l.loop), &attr, &l.redis), 0);
	until_heard(&l, 0);
	assert_int_equal(redis_command(l.redis, 2, words, (size_t[]){ 9, 4 }, NULL, NULL), 0);
	until_heard(&l, 1);

	test_redis_do(&l.server, "EVAL %s 0",
		      "for i = 1, 2000 do redis.call('PUBLISH', 'news', string.rep('x', 80)) end");
	until_heard(&l, 1 + PUBLISHED);
	assert_in_range(l.n_rests, 0, RESTS_MAX);

	redis_destroy(l.redis);
	redis_url_fini(&l.url);
	loop_destroy(l.loop);
	test_redis_stop(&l.server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages__that_came_together_are_read_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
