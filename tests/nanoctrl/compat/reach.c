/* SPDX-License-Identifier: Apache-2.0 */
/* Whether agents of DLSlime get to Redis where they are told it is. */
#include "tests/nanoctrl/api/fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <base/clock.h>
#include "compat/store.h"
#include "support/lookups.h"
#include "support/name_server.h"

#define GIVE_UP_MS 60000
#define LONG_MS	   500 /* an answer that waits for nobody is here by then, as a rule */
#define OLD_NS	   (2 * SL_NS_PER_S)

static void keep_port(struct api_fixture *f, char public[API_PLACE_MAX])
{
	char file[sizeof(f->redis.dir) + 16];

	test_redis_do(&f->redis, "CONFIG SET bind 127.0.0.1");
	snprintf(file, sizeof(file), "%s/redis.port", f->redis.dir);
	private_port_set(f->hub, 0);
	assert_int_equal(private_port_keep(f->hub, file), 0);
	assert_int_equal(unlink(file), 0);
	snprintf(public, API_PLACE_MAX, "127.0.0.1:%u", f->hub->compat->port.port);
}

static struct test_redis other;		   /* at the place that is told */
static int held = -1;			   /* a port of this host, which nobody else takes: */
static char port[8], place[API_PLACE_MAX]; /* nothing listens there at first */

static void hold_port(void)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);
	int one = 1;

	held = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(held >= 0);
	assert_int_equal(setsockopt(held, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
	assert_int_equal(bind(held, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(getsockname(held, (struct sockaddr *)&addr, &len), 0);
	snprintf(port, sizeof(port), "%d", ntohs(addr.sin_port));
	snprintf(place, sizeof(place), "127.0.0.1:%s", port);
}

static void listen_at_port(struct test_redis *r)
{
	test_redis_do(r, "CONFIG SET bind 127.0.0.1");
	test_redis_do(r, "CONFIG SET port %s", port);
}

static int setup_nobody(void **state)
{
	hold_port();
	return api_setup_told(state, place);
}

static int setup_other(void **state)
{
	hold_port();
	test_redis_start(&other);
	listen_at_port(&other);
	test_redis_do(&other, "CONFIG SET requirepass word");
	return api_setup_told(state, place);
}

static int setup_port(void **state)
{
	hold_port();
	return api_setup_port(state, port);
}

static int setup_private(void **state)
{
	return api_setup_private(state, place, keep_port);
}

static int setup_name(void **state)
{
	name_server_start();
	return api_setup_told(state, "silent.example:6379");
}

static int setup_elsewhere(void **state)
{
	return api_setup_told(state, API_ADVERTISED);
}

static int teardown(void **state)
{
	test_redis_stop(&other);
	memset(&other, 0, sizeof(other));
	if (held >= 0)
		close(held);
	held = -1;
	name_server_stop();
	return api_teardown(state);
}

/* A request of an agent "a" that says that it is there. */
static int begin_start(struct api_fixture *f, const char *address)
{
	char body[128];

	snprintf(body, sizeof(body), "{\"alias\":\"a\",\"address\":\"%s\"}", address);
	return api_begin(f, "POST", "/start_peer_agent", NULL, body);
}

static int start(struct api_fixture *f, const char *address)
{
	return api_finish(begin_start(f, address), &f->said);
}

static void assert_refused(struct api_fixture *f, const char *address, const char *why)
{
	assert_int_equal(start(f, address), 409);
	assert_string_equal(api_text(&f->said, "code", NULL), "redis_unreachable");
	if (!strstr(api_text(&f->said, "message", NULL), why))
		fail_msg("%s", api_text(&f->said, "message", NULL));
	assert_int_equal(test_redis_do(&f->redis, "EXISTS agent:a"), 0);
}

/* What /readyz warns of in the end: one such line, or none. */
static void until_warned(struct api_fixture *f, const char *what)
{
	uint64_t deadline = sl_deadline_ns(GIVE_UP_MS);
	bool warned;

	do {
		assert_true(sl_clock_ns() < deadline);
		assert_int_equal(api_do(f, &f->said, "GET", "/readyz", NULL, NULL), 200);
		assert_string_equal(api_text(&f->said, "status", NULL), "ok");
		warned = api_count(&f->said, "warnings") == 1;
		assert_true(warned || !json_object_get(f->said.body, "warnings"));
	} while (warned != (what != NULL));
	if (what && !strstr(api_text(&f->said, "warnings", "0", NULL), what))
		fail_msg("%s", api_text(&f->said, "warnings", "0", NULL));
}

static void start__where_nobody_listens_registers_nothing(void **state)
{
	struct api_fixture *f = *state;
	uint64_t deadline = sl_deadline_ns(GIVE_UP_MS);
	int status;

	until_warned(f, "Connection refused");
	assert_refused(f, "127.0.0.1", "Connection refused");
	/* It is this host's own: nobody gets to it from elsewhere, either. */
	assert_refused(f, "10.0.0.9", place);
	/* Who only asks where it is registers nothing, and does not say from where. */
	assert_int_equal(api_do(f, &f->said, "POST", "/get_redis_address", NULL, "{}"), 200);

	listen_at_port(&f->redis);

	while ((status = start(f, "127.0.0.1")) == 409)
		assert_true(sl_clock_ns() < deadline);
	assert_int_equal(status, 200);
	assert_string_equal(api_text(&f->said, "redis_address", NULL), place);
	until_warned(f, NULL);
}

static void start__where_redis_wants_a_password_registers_nothing(void **state)
{
	struct api_fixture *f = *state;

	assert_refused(f, "127.0.0.1", "NOAUTH");
	assert_refused(f, "10.0.0.9", "NOAUTH");
	until_warned(f, "NOAUTH");
}

/* Says something to whoever connects, until a request is answered. */
static void answer_as_another_server(int rq)
{
	struct pollfd p[] = { { .fd = rq, .events = POLLIN }, { .fd = held, .events = POLLIN } };
	char asked[64];
	int fd;

	for (;;) {
		assert_true(poll(p, 2, GIVE_UP_MS) > 0);
		if (p[0].revents)
			return;
		fd = accept(held, NULL, NULL);
		assert_true(fd >= 0);
		assert_true(recv(fd, asked, sizeof(asked), 0) > 0);
		assert_int_equal(send(fd, "HTTP/1.1 400 Bad\r\n\r\n", 20, MSG_NOSIGNAL), 20);
		close(fd);
	}
}

static void start__where_another_server_answers_registers_nothing(void **state)
{
	struct api_fixture *f = *state;
	uint64_t deadline = sl_deadline_ns(GIVE_UP_MS);

	until_warned(f, "Connection refused");
	assert_int_equal(listen(held, 8), 0);
	do {
		int rq = begin_start(f, "127.0.0.1");

		assert_true(sl_clock_ns() < deadline);
		answer_as_another_server(rq);
		assert_int_equal(api_finish(rq, &f->said), 409);
	} while (!strstr(api_text(&f->said, "message", NULL), "no Redis"));
}

/* Nothing follows from that we cannot reach what is elsewhere, for those who are. */
static void start__of_a_client_elsewhere_is_told_what_is_out_of_reach_from_here(void **state)
{
	struct api_fixture *f = *state;

	assert_refused(f, "127.0.0.1", "from here it cannot be reached");
	assert_int_equal(start(f, "10.0.0.9"), 200);
	assert_string_equal(api_text(&f->said, "redis_address", NULL), API_ADVERTISED);
	until_warned(f, "from here it cannot be reached");
}

/* Redis listens on loopback alone, and its client says another address of this host, or of another
 * one. */
static void start__of_a_client_beyond_a_redis_on_loopback_registers_nothing(void **state)
{
	struct api_fixture *f = *state;

	if (start(f, "192.0.2.77") == 200) { /* this host has no other address */
		assert_int_equal(strncmp(api_text(&f->said, "redis_address", NULL), "127.", 4), 0);
		skip();
	}
	assert_int_equal(f->said.status, 409);
	assert_non_null(strstr(api_text(&f->said, "message", NULL), "Connection refused"));
	assert_int_equal(test_redis_do(&f->redis, "EXISTS agent:a"), 0);
	assert_int_equal(start(f, "127.0.0.1"), 200);
}

/* It listens where something that is configured leads there. */
static void start__of_a_client_elsewhere_finds_the_private_redis(void **state)
{
	struct api_fixture *f = *state;

	assert_int_equal(start(f, "10.0.0.9"), 200);
	assert_string_equal(api_text(&f->said, "redis_address", NULL), place);
	assert_int_equal(start(f, "10.0.0.9"), 409);
	assert_string_equal(api_text(&f->said, "code", NULL), "name_taken");
	until_warned(f, NULL);
}

static void stop__while_a_name_is_asked_for_leaves_nothing(void **state)
{
	struct api_fixture *f = *state;
	uint64_t deadline = sl_deadline_ns(GIVE_UP_MS);

	while (!name_server_is_asked())
		assert_true(sl_clock_ns() < deadline);
	api_drain(f);
	api_stop(f);
	assert_int_equal(lookups_out(), 0);
}

/* What was found is held against nobody after a second, and without Redis nothing else is found. */
static void until_found_is_old(struct api_fixture *f)
{
	uint64_t at_ns;

	do {
		poll(NULL, 0, 1);
		pthread_mutex_lock(&f->hub->lock);
		at_ns = f->hub->compat->reach[0].at_ns;
		pthread_mutex_unlock(&f->hub->lock);
	} while (sl_clock_ns() - at_ns < OLD_NS);
}

/* That of a Redis that has gone meanwhile is no wrong address. */
static void start__while_redis_goes_away_is_503(void **state)
{
	struct api_fixture *f = *state;
	struct pollfd p = { .events = POLLIN };

	until_warned(f, "Connection refused");
	test_redis_pause(&f->redis);
	until_found_is_old(f);
	p.fd = begin_start(f, "127.0.0.1");
	/* It has the time to come that far. */
	assert_int_equal(poll(&p, 1, LONG_MS), 0);
	test_redis_kill(&f->redis);
	assert_int_equal(api_finish(p.fd, &f->said), 503);
	test_redis_restart(&f->redis);
}

#define TEST(name, setup) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(start__where_nobody_listens_registers_nothing, setup_nobody),
		TEST(start__where_redis_wants_a_password_registers_nothing, setup_other),
		TEST(start__where_another_server_answers_registers_nothing, setup_nobody),
		TEST(start__of_a_client_elsewhere_is_told_what_is_out_of_reach_from_here,
		     setup_elsewhere),
		TEST(start__of_a_client_beyond_a_redis_on_loopback_registers_nothing, setup_port),
		TEST(start__of_a_client_elsewhere_finds_the_private_redis, setup_private),
		TEST(stop__while_a_name_is_asked_for_leaves_nothing, setup_name),
		TEST(start__while_redis_goes_away_is_503, setup_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
