/* SPDX-License-Identifier: Apache-2.0 */
/* A Redis that was just started, and reads its data before it serves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "redis/redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <event2/event.h>
#include <tests/support/log_lines.h>
#include "nanoctrl/net/loop.h"
#include "redis/url.h"

/* It answers everybody with what its greeting asks for, and knows nothing else. */
struct server {
	struct sockaddr_un at;
	int fd;
	struct event *accept;
	struct loop *loop;
	struct redis_url url;
	struct redis *redis;
	unsigned loads_for; /* so many connections */
	int last;	    /* the one that is there, or -1 */
	bool up;
};

static void on_connection(evutil_socket_t fd, short what, void *arg)
{
	struct server *s = arg;
	char info[64], answer[160];
	int len;

	(void)what;
	if (s->last >= 0)
		close(s->last);
	s->last = accept(fd, NULL, NULL);
	assert_true(s->last >= 0);
	snprintf(info, sizeof(info), "redis_version:7.0.15\r\nloading:%d\r\n", s->loads_for > 0);
	s->loads_for -= s->loads_for > 0;
	len = snprintf(answer, sizeof(answer), "+OK\r\n$%zu\r\n%s\r\n", strlen(info), info);
	assert_int_equal(send(s->last, answer, (size_t)len, MSG_NOSIGNAL), len);
}

static void on_up(void *arg, const char *run_id)
{
	struct server *s = arg;

	(void)run_id;
	s->up = true;
}

static void on_down(void *arg)
{
	(void)arg;
}

static void start(struct server *s, unsigned loads_for)
{
	char dir[] = "/tmp/slime-loading-XXXXXX", url[160];
	const char *why;

	*s = (struct server){ .at.sun_family = AF_UNIX, .loads_for = loads_for, .last = -1 };
	assert_non_null(mkdtemp(dir));
	snprintf(s->at.sun_path, sizeof(s->at.sun_path), "%s/redis.sock", dir);
	snprintf(url, sizeof(url), "unix://%s", s->at.sun_path);
	s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s->fd, (struct sockaddr *)&s->at, sizeof(s->at)), 0);
	assert_int_equal(listen(s->fd, 8), 0);
	assert_int_equal(loop_create(&s->loop), 0);
	s->accept = event_new(loop_base(s->loop), s->fd, EV_READ | EV_PERSIST, on_connection, s);
	assert_int_equal(event_add(s->accept, NULL), 0);
	assert_int_equal(redis_url_parse(url, &s->url, &why), 0);
}

static void stop(struct server *s)
{
	redis_destroy(s->redis);
	redis_url_fini(&s->url);
	event_free(s->accept);
	loop_destroy(s->loop);
	close(s->fd);
	close(s->last);
	unlink(s->at.sun_path);
	*strrchr(s->at.sun_path, '/') = '\0';
	rmdir(s->at.sun_path);
}

/* Connects until it serves, and keeps what the log says meanwhile. */
static void connect_to(struct server *s)
{
	struct redis_attr attr = { .url = &s->url,
				   .name = "test",
				   .timeout_ms = 30000,
				   .max_inflight = 16,
				   .up = on_up,
				   .down = on_down,
				   .arg = s };

	log_lines_keep_from(SLIME_LOG_INFO);
	assert_int_equal(redis_create(loop_base(s->loop), &attr, &s->redis), 0);
	while (!s->up)
		event_base_loop(loop_base(s->loop), EVLOOP_ONCE);
	log_lines_release();
}

/* As each private Redis does that has some. */
static void start__of_a_redis_that_reads_its_data_is_no_trouble(void **state)
{
	struct server s;

	(void)state;
	start(&s, 3);
	connect_to(&s);
	assert_int_equal(log_lines_with(""), 0);
	stop(&s);
}

/* As often as connecting is tried before its pauses are as long as they become. */
static void start__of_a_redis_that_reads_for_long_is_said_once(void **state)
{
	struct server s;

	(void)state;
	start(&s, 7);
	connect_to(&s);
	assert_int_equal(log_lines_with("Redis is loading its data"), 1);
	assert_int_equal(log_lines_with("serves again"), 1);
	stop(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(start__of_a_redis_that_reads_its_data_is_no_trouble),
		cmocka_unit_test(start__of_a_redis_that_reads_for_long_is_said_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
