/* SPDX-License-Identifier: Apache-2.0 */
/* A connection that only listens, at a pace of its own; and one that nobody takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "redis/redis.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
#include <event2/event.h>
#include <base/clock.h>
#include "nanoctrl/net/loop.h"
#include "redis/url.h"
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
	assert_int_equal(loop_create(&l.loop), 0);
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

/* A listener whose queue is full drops what asks for more. */
static int listen_and_fill(struct sockaddr_in *at, int fillers[2])
{
	socklen_t len = sizeof(*at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*at = (struct sockaddr_in){ .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	assert_int_equal(bind(fd, (struct sockaddr *)at, sizeof(*at)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)at, &len), 0);
	assert_int_equal(listen(fd, 0), 0);
	for (int i = 0; i < 2; i++) {
		fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		connect(fillers[i], (struct sockaddr *)at, sizeof(*at));
	}
	return fd;
}

static void connect__that_nobody_takes_says_so(void **state)
{
	struct listener l = { .up = true };
	struct redis_attr attr = { .url = &l.url,
				   .name = "test",
				   .timeout_ms = 300,
				   .max_inflight = 16,
				   .tries = 1,
				   .up = on_up,
				   .down = on_down,
				   .arg = &l };
	struct sockaddr_in at;
	int fillers[2], fd;
	char url[64];
	const char *why;

	(void)state;
	fd = listen_and_fill(&at, fillers);
	snprintf(url, sizeof(url), "redis://127.0.0.1:%u", ntohs(at.sin_port));
	assert_int_equal(loop_create(&l.loop), 0);
	assert_int_equal(redis_url_parse(url, &l.url, &why), 0);
	assert_int_equal(redis_create(loop_base(l.loop), &attr, &l.redis), 0);
	while (l.up)
		event_base_loop(loop_base(l.loop), EVLOOP_ONCE);
	assert_string_equal(redis_trouble(l.redis), "it does not take the connection");
	redis_destroy(l.redis);
	redis_url_fini(&l.url);
	loop_destroy(l.loop);
	close(fillers[0]);
	close(fillers[1]);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages__that_came_together_are_read_together),
		cmocka_unit_test(connect__that_nobody_takes_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
