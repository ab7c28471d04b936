/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nanoctrl and Redis are killed again and again while agents write: what was acknowledged is there
 * afterwards, nobody healthy was given up, nobody dead stays, and nothing is left of those who
 * leave.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <event2/event.h>
#include <base/clock.h>

#include "nanoctrl/client/nanoctrl_client.h"
#include "stand.h"

#define N_AGENTS 16
#define PAUSE_MS 10 /* between an agent's writes: the load is bounded */
#define N_KILLS	 9
#define KEY	 "00112233445566778899001122334455667788990011223344556677889900aa"

struct agent {
	struct nc_client *client;
	struct event *timer;
	char name[16];
	bool up;
	uint64_t sent;	/* the revision that was sent last */
	uint64_t acked; /* the last one that was acknowledged */
	uint64_t read;	/* as it is read back: its revision is its size */
	bool done;
	int err;
};

static struct {
	struct stand stand;
	struct event_base *base;
	struct agent agents[N_AGENTS];
	bool stop; /* no more writes */
	size_t n_writing;
	size_t n_listed;
	bool listed;
} t;

/* ---- what an agent does ---- */

static void pause_then_write(struct agent *g)
{
	struct timeval tv = { .tv_usec = PAUSE_MS * 1000 };

	evtimer_add(g->timer, &tv);
}

/* An error means that nobody knows; the next write has a greater revision, and says more. */
static void on_written(void *arg, const struct nc_error *error)
{
	struct agent *g = arg;

	t.n_writing--;
	if (!error)
		g->acked = g->sent;
	else
		assert_true(error->err == -ETIMEDOUT);
	pause_then_write(g);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct agent *g = arg;
	struct nc_region region = { .name = "kv",
				    .revision = ++g->sent,
				    .size = g->sent,
				    .access = NC_READ,
				    .descriptor = "x",
				    .descriptor_len = 1 };

	(void)fd;
	(void)what;
	if (t.stop)
		return;
	t.n_writing++;
	assert_int_equal(nc_publish(g->client, &region, on_written, g), 0);
}

static void on_up(void *arg)
{
	((struct agent *)arg)->up = true;
}

static void on_down(void *arg, const char *cause)
{
	(void)cause;
	((struct agent *)arg)->up = false;
}

static void on_ended(void *arg, enum nc_session_end why, const struct nc_error *error)
{
	fail_msg("the session of %s ended (%d): %s", ((struct agent *)arg)->name, why,
		 error ? error->message : "the lease was ended");
}

static const struct nc_session_ops ops = { on_up, on_down, NULL, NULL, on_ended };

static void on_grant(void *arg, const struct nc_error *error, const struct nc_grant *grant)
{
	struct agent *g = arg;

	assert_null(error);
	assert_non_null(grant);
	assert_int_equal(nc_session_open(g->client, &ops, g), 0);
	pause_then_write(g);
}

static void on_region(void *arg, const struct nc_error *error, const struct nc_region *region)
{
	struct agent *g = arg;

	g->err = error ? error->err : 0;
	g->read = region ? region->size : 0;
	g->done = true;
}

static void on_left(void *arg, const struct nc_error *error)
{
	struct agent *g = arg;

	g->err = error ? error->err : 0;
	g->done = true;
}

static void on_agents(void *arg, const struct nc_error *error, const struct nc_page *page)
{
	(void)arg;
	assert_null(error);
	t.n_listed = page->n;
	t.listed = true;
}

/* ---- the world ---- */

#define spin_until(condition)                                                      \
	do {                                                                       \
		while (!(condition))                                               \
			assert_int_equal(event_base_loop(t.base, EVLOOP_ONCE), 0); \
	} while (0)

static void on_spent(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	*(bool *)arg = true;
}

static void spend(unsigned ms)
{
	struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = (ms % 1000) * 1000 };
	bool over = false;

	assert_int_equal(event_base_once(t.base, -1, EV_TIMEOUT, on_spent, &over, &tv), 0);
	spin_until(over);
}

static bool all_up(void)
{
	for (size_t i = 0; i < N_AGENTS; i++)
		if (!t.agents[i].up)
			return false;
	return true;
}

static void create_agents(void)
{
	struct nc_client_attr attr = NC_CLIENT_ATTR_INIT;
	const char *url = t.stand.server.url;

	attr.base = t.base;
	attr.urls = &url;
	attr.n_urls = 1;
	attr.scope = "crash";
	attr.timeout_ms = 60000;
	for (size_t i = 0; i < N_AGENTS; i++) {
		struct agent *g = &t.agents[i];
		struct nc_registration r = { .name = g->name,
					     .incarnation = "one",
					     .owner_key = KEY };

		snprintf(g->name, sizeof(g->name), "agent-%zu", i);
		g->timer = evtimer_new(t.base, on_timer, g);
		assert_int_equal(nc_client_create(&g->client, &attr), 0);
		assert_int_equal(nc_register(g->client, &r, on_grant, g), 0);
	}
	spin_until(all_up());
}

static int setup(void **state)
{
	(void)state;
	test_redis_start_durable(&t.stand.redis);
	stand_start(&t.stand, "lease.ttl=20s");
	t.base = event_base_new();
	return 0;
}

static void destroy_agent(struct agent *g)
{
	nc_client_destroy(g->client);
	if (g->timer)
		event_free(g->timer);
	*g = (struct agent){ .client = NULL };
}

static int teardown(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_AGENTS; i++)
		destroy_agent(&t.agents[i]);
	event_base_free(t.base);
	return stand_stop(&t.stand);
}

/* ---- the test ---- */

/* nanoctrl, Redis, both, in turn; at moments of no meaning to either. */
static void kill_one(int i)
{
	spend(200 + (unsigned)(i * 137) % 400);
	if (i % 3 != 1)
		server_kill(&t.stand.server);
	if (i % 3 != 0)
		test_redis_kill(&t.stand.redis);
	spend((unsigned)(i * 61) % 300);
	if (!t.stand.redis.pid)
		test_redis_restart(&t.stand.redis);
	if (!t.stand.server.pid)
		server_start(&t.stand.server);
}

static void check_acknowledged(void)
{
	uint64_t n = 0;

	for (size_t i = 0; i < N_AGENTS; i++) {
		struct agent *g = &t.agents[i];

		g->done = false;
		assert_int_equal(nc_get_region(g->client, g->name, "kv", on_region, g), 0);
		spin_until(g->done);
		assert_int_equal(g->err, 0);
		assert_true(g->read >= g->acked && g->read <= g->sent);
		n += g->acked;
	}
	assert_true(n > N_AGENTS);
	print_message("%llu writes, %d kills\n", (unsigned long long)n, N_KILLS);
}

static size_t count_agents(void)
{
	t.listed = false;
	assert_int_equal(nc_list_agents(t.agents[1].client, NULL, NULL, on_agents, &t), 0);
	spin_until(t.listed);
	return t.n_listed;
}

static void crash__under_load_loses_nothing_and_leaves_nothing(void **state)
{
	(void)state;
	create_agents();
	for (int i = 0; i < N_KILLS; i++)
		kill_one(i);
	t.stop = true;
	spin_until(!t.n_writing && all_up());
	check_acknowledged();
	assert_int_equal(count_agents(), N_AGENTS);

	/* One dies without a word: it does not stay. */
	destroy_agent(&t.agents[0]);
	while (count_agents() != N_AGENTS - 1)
		spend(50);
	for (size_t i = 1; i < N_AGENTS; i++) {
		struct agent *g = &t.agents[i];

		g->done = false;
		assert_int_equal(nc_leave(g->client, on_left, g), 0);
		spin_until(g->done);
		assert_int_equal(g->err, 0);
	}
	assert_int_equal(test_redis_do(&t.stand.redis, "KEYS {crash}:nanoctrl:agent:*"), 0);
	assert_int_equal(test_redis_do(&t.stand.redis, "KEYS {crash}:nanoctrl:region:*"), 0);
	assert_int_equal(test_redis_do(&t.stand.redis, "ZCARD {crash}:nanoctrl:due"), 0);
	assert_int_equal(test_redis_do(&t.stand.redis, "ZCARD {crash}:nanoctrl:names"), 0);
	assert_int_equal(server_stop(&t.stand.server), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(crash__under_load_loses_nothing_and_leaves_nothing,
						setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
