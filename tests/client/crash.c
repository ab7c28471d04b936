/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two nanoctrl and their Redis are killed again and again, at random, while agents write and hear
 * of each other's writes, and clients of DLSlime's NanoCtrl write as well. A ledger keeps what was
 * acknowledged and who lives; after each kill, and in the end, what the servers say is held against
 * it: no acknowledged write is lost, nobody healthy was given up, everybody has heard of every
 * write, and so has somebody who only polls, nobody dead stays, and nothing is left of those who
 * are gone. While one replica is dead its agents are with the other one, and write.
 *
 * SLIME_SOAK_S=SECONDS goes on for so long. The seed is printed; SLIME_SOAK_SEED gives it.
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include <event2/event.h>
#include <base/clock.h>

#include "nanoctrl/client/nanoctrl_client.h"
#include "stand.h"
#include "theirs.h"

#define SCOPE	  "crash"
#define N_AGENTS  16
#define N_DYING	  2 /* of them, in each phase */
#define N_REGIONS 16
#define PAUSE_MS  10		      /* between an agent's writes: the load is bounded */
#define N_KILLS	  10		      /* of a phase, of which a soak has several */
#define PATIENCE  (120 * SL_NS_PER_S) /* with what is to happen; leases end within a third of it */
#define KEY	  "00112233445566778899001122334455667788990011223344556677889900aa"

/* What is killed: each of them in each phase, in any order. */
enum victims { FIRST, SECOND, REDIS, SERVERS, ALL, N_VICTIMS };

/* The ledger: of a region by the numbers of its owner and itself. */
struct written {
	uint64_t sent;	/* the revision that was sent last */
	uint64_t acked; /* the last one that was acknowledged */
};

struct agent {
	struct nc_client *client; /* NULL: dead */
	struct event *timer;
	char name[16];
	char life[16];
	bool up;
	bool writes; /* a write is out, */
	size_t at;   /* of this region, or it is the next */
	struct written regions[N_REGIONS];
	uint64_t heard[N_AGENTS][N_REGIONS]; /* by this agent, of everybody's regions */
	bool done;
	int err;
};

static struct {
	struct stand stand;
	struct event_base *base;
	struct agent agents[N_AGENTS];
	unsigned n_lives;
	bool stop; /* no more writes */
	size_t n_writing;
	uint64_t n_acked, n_kills;
	struct nc_client *watcher; /* it polls, and owns nothing */
	char cursor[64];
	uint64_t watched[N_AGENTS][N_REGIONS]; /* as an agent's heard */
	const struct server *servers[2];
	struct server redis_port; /* its number, and nobody else's */
	size_t n_listed;
	bool listed;
} t;

/* ---- turning the loop ---- */

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
	while (!over)
		assert_int_equal(event_base_loop(t.base, EVLOOP_ONCE), 0);
}

static void await(bool (*condition)(void), const char *what)
{
	uint64_t end = sl_clock_ns() + PATIENCE;

	while (!condition()) {
		if (sl_clock_ns() > end)
			fail_msg("in vain waited for: %s", what);
		spend(10);
	}
}

/* The end of a call of this agent; its error. */
static int finish(struct agent *g)
{
	while (!g->done)
		assert_int_equal(event_base_loop(t.base, EVLOOP_ONCE), 0);
	g->done = false;
	return g->err;
}

static void on_done(void *arg, const struct nc_error *error)
{
	struct agent *g = arg;

	g->err = error ? error->err : 0;
	g->done = true;
}

/* ---- what an agent writes ---- */

static void pause_then_write(struct agent *g)
{
	struct timeval tv = { .tv_usec = PAUSE_MS * 1000 };

	evtimer_add(g->timer, &tv);
}

/* An error means that nobody knows; the next write of it has a greater revision, and says more. */
static void on_written(void *arg, const struct nc_error *error)
{
	struct agent *g = arg;
	struct written *w = &g->regions[g->at];

	t.n_writing--;
	g->writes = false;
	if (!error) {
		w->acked = w->sent;
		t.n_acked++;
	} else {
		assert_int_equal(error->err, -ETIMEDOUT);
	}
	g->at = (g->at + 1) % N_REGIONS;
	pause_then_write(g);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct agent *g = arg;
	struct written *w = &g->regions[g->at];
	struct nc_region region = { .access = NC_READ, .descriptor = "x", .descriptor_len = 1 };
	char name[16];

	(void)fd;
	(void)what;
	if (t.stop || g->writes)
		return;
	snprintf(name, sizeof(name), "kv-%zu", g->at);
	region.name = name;
	region.revision = region.size = ++w->sent;
	g->writes = true;
	t.n_writing++;
	assert_int_equal(nc_publish(g->client, &region, on_written, g), 0);
}

static void stop_writing(void)
{
	t.stop = true;
	theirs_write(false);
}

static bool nobody_writes(void)
{
	return !t.n_writing && theirs_are_quiet();
}

static void write_on(void)
{
	t.stop = false;
	theirs_write(true);
	for (size_t i = 0; i < N_AGENTS; i++)
		if (t.agents[i].client)
			pause_then_write(&t.agents[i]);
}

/* ---- what an agent hears ---- */

static size_t number_of(const char *name, const char *prefix, size_t max)
{
	size_t n;

	assert_int_equal(strncmp(name, prefix, strlen(prefix)), 0);
	n = strtoul(name + strlen(prefix), NULL, 10);
	assert_true(n < max);
	return n;
}

static void hear(uint64_t heard[N_AGENTS][N_REGIONS], const struct nc_event *event)
{
	uint64_t *at;

	if (event->type != NC_EVENT_REGION)
		return;
	at = &heard[number_of(event->agent, "agent-", N_AGENTS)]
		   [number_of(event->region, "kv-", N_REGIONS)];
	if (event->revision > *at)
		*at = event->revision;
}

/* Whoever is told so reads everything again, and sees what has been written until then. */
static void hear_all(uint64_t heard[N_AGENTS][N_REGIONS])
{
	for (size_t i = 0; i < N_AGENTS; i++)
		for (size_t k = 0; k < N_REGIONS; k++)
			heard[i][k] = t.agents[i].regions[k].sent;
}

static void on_event(void *arg, const struct nc_event *event)
{
	hear(((struct agent *)arg)->heard, event);
}

static void on_reset(void *arg)
{
	hear_all(((struct agent *)arg)->heard);
}

static void watch(void);

static void on_polled(void *arg, const struct nc_error *error, const struct nc_events *events)
{
	(void)arg;
	if (error)
		assert_int_equal(error->err, -ETIMEDOUT);
	else
		snprintf(t.cursor, sizeof(t.cursor), "%s", events->cursor);
	if (events && events->lost)
		hear_all(t.watched);
	for (size_t i = 0; events && i < events->n; i++)
		hear(t.watched, &events->list[i]);
	watch();
}

/* The first asks where events are. */
static void watch(void)
{
	assert_int_equal(nc_poll_events(t.watcher, *t.cursor ? t.cursor : NULL,
					*t.cursor ? NC_POLL_MS_MAX : 0, on_polled, NULL),
			 0);
}

static bool watches(void)
{
	return *t.cursor != '\0';
}

static bool has_heard_all(uint64_t heard[N_AGENTS][N_REGIONS])
{
	for (size_t i = 0; i < N_AGENTS; i++)
		for (size_t k = 0; k < N_REGIONS; k++)
			if (heard[i][k] < t.agents[i].regions[k].acked)
				return false;
	return true;
}

static bool all_have_heard_all(void)
{
	for (size_t i = 0; i < N_AGENTS; i++)
		if (t.agents[i].client && !has_heard_all(t.agents[i].heard))
			return false;
	return has_heard_all(t.watched);
}

/* ---- the life of an agent ---- */

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

static const struct nc_session_ops ops = { on_up, on_down, on_event, on_reset, on_ended };

static bool all_up(void)
{
	for (size_t i = 0; i < N_AGENTS; i++)
		if (t.agents[i].client && !t.agents[i].up)
			return false;
	return true;
}

static void on_grant(void *arg, const struct nc_error *error, const struct nc_grant *grant)
{
	struct agent *g = arg;

	if (error)
		fail_msg("%s cannot register: %s", g->name, error->message);
	assert_non_null(grant);
	assert_int_equal(nc_session_open(g->client, &ops, g), 0);
}

static void create_client(struct nc_client **out)
{
	const char *const urls[] = { t.stand.server.url, t.stand.second.url };
	struct nc_client_attr attr = NC_CLIENT_ATTR_INIT;

	attr.base = t.base;
	attr.urls = urls;
	attr.n_urls = 2;
	attr.scope = SCOPE;
	attr.timeout_ms = 60000;
	assert_int_equal(nc_client_create(out, &attr), 0);
}

/* With nothing of its last life. It reads all when it begins. */
static void begin_life(struct agent *g)
{
	struct nc_registration r = { .name = g->name, .incarnation = g->life, .owner_key = KEY };

	snprintf(g->name, sizeof(g->name), "agent-%zu", (size_t)(g - t.agents));
	snprintf(g->life, sizeof(g->life), "life-%u", ++t.n_lives);
	memset(g->regions, 0, sizeof(g->regions));
	for (size_t i = 0; i < N_AGENTS; i++)
		memset(t.agents[i].heard[g - t.agents], 0, sizeof(g->heard[0]));
	memset(t.watched[g - t.agents], 0, sizeof(g->heard[0]));
	g->timer = evtimer_new(t.base, on_timer, g);
	create_client(&g->client);
	assert_int_equal(nc_register(g->client, &r, on_grant, g), 0);
	on_reset(g);
}

/* Without a word: whatever it wrote is of no value any more. */
static void end_life(struct agent *g)
{
	if (!g->client)
		return;
	nc_client_destroy(g->client);
	event_free(g->timer);
	g->client = NULL;
	g->timer = NULL;
	t.n_writing -= g->writes;
	g->up = g->done = g->writes = false;
	memset(g->regions, 0, sizeof(g->regions));
}

/* Something of everybody is with its neighbour. */
static void post_offers(void)
{
	for (size_t i = 0; i < N_AGENTS; i++) {
		struct agent *g = &t.agents[i];

		assert_int_equal(nc_post_offer(g->client, t.agents[(i + 1) % N_AGENTS].name,
					       "default", 1, NULL, "x", 1, on_done, g),
				 0);
		assert_int_equal(finish(g), 0);
	}
}

static void begin_lives(void)
{
	for (size_t i = 0; i < N_AGENTS; i++)
		if (!t.agents[i].client)
			begin_life(&t.agents[i]);
	await(all_up, "everybody to have a session");
	post_offers();
	write_on();
}

/* ---- the world ---- */

/* Clients of DLSlime's are told of a port of Redis. */
static void let_redis_listen(void)
{
	test_redis_do(&t.stand.redis, "CONFIG SET port %s", t.redis_port.port);
}

static int setup(void **state)
{
	static char advertise[64];
	const char *const settings[] = { "lease.ttl=12s", advertise };

	(void)state;
	test_redis_start_durable(&t.stand.redis);
	server_init(&t.redis_port);
	let_redis_listen();
	snprintf(advertise, sizeof(advertise), "redis.advertise=127.0.0.1:%s", t.redis_port.port);
	stand_start_with(&t.stand, settings, 2);
	stand_start_second(&t.stand, settings, 2);
	t.servers[0] = &t.stand.server;
	t.servers[1] = &t.stand.second;
	t.base = event_base_new();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_AGENTS; i++)
		end_life(&t.agents[i]);
	nc_client_destroy(t.watcher);
	theirs_stop();
	event_base_free(t.base);
	server_fini(&t.redis_port);
	return stand_stop(&t.stand);
}

static unsigned choose(unsigned below)
{
	return (unsigned)rand() % below;
}

static void restart_all(void)
{
	if (!t.stand.redis.pid) {
		test_redis_restart(&t.stand.redis);
		let_redis_listen();
	}
	if (!t.stand.server.pid)
		server_start(&t.stand.server);
	if (!t.stand.second.pid)
		server_start(&t.stand.second);
}

static uint64_t wanted; /* writes acknowledged */

static bool so_many_are_acknowledged(void)
{
	return t.n_acked >= wanted;
}

/* Everybody goes on at the other one while this one is dead. */
static void live_without(struct server *replica)
{
	server_kill(replica);
	spend(choose(300));
	await(all_up, "everybody to have a session at the other replica");
	wanted = t.n_acked + (uint64_t)2 * N_AGENTS;
	await(so_many_are_acknowledged, "writes at the other replica");
}

/* At moments of no meaning to anybody. Nobody writes when all are there again, so that what was
 * acknowledged before is not written anew. */
static void kill_some(enum victims which)
{
	spend(200 + choose(400));
	if (which == FIRST)
		live_without(&t.stand.server);
	if (which == SECOND)
		live_without(&t.stand.second);
	if (which == SERVERS || which == ALL) {
		server_kill(&t.stand.server);
		server_kill(&t.stand.second);
	}
	if (which == REDIS || which == ALL)
		test_redis_kill(&t.stand.redis);
	stop_writing();
	spend(choose(300));
	restart_all();
	t.n_kills++;
}

/* ---- what the server says, held against the ledger ---- */

static void on_regions(void *arg, const struct nc_error *error, const struct nc_page *page)
{
	struct agent *g = arg;
	uint64_t read[N_REGIONS] = { 0 };

	g->err = error ? error->err : 0;
	g->done = true;
	for (size_t i = 0; page && i < page->n; i++) {
		size_t k = number_of(page->regions[i].name, "kv-", N_REGIONS);

		assert_true(page->regions[i].size == page->regions[i].revision);
		read[k] = page->regions[i].revision;
	}
	for (size_t k = 0; page && k < N_REGIONS; k++)
		if (read[k] < g->regions[k].acked || read[k] > g->regions[k].sent)
			fail_msg("%s/kv-%zu is at %" PRIu64 ": %" PRIu64
				 " was acknowledged, %" PRIu64 " sent",
				 g->name, k, read[k], g->regions[k].acked, g->regions[k].sent);
}

static void check_written(void)
{
	for (size_t i = 0; i < N_AGENTS; i++) {
		struct agent *g = &t.agents[i];

		if (!g->client)
			continue;
		assert_int_equal(nc_list_regions(g->client, g->name, on_regions, g), 0);
		assert_int_equal(finish(g), 0);
	}
}

static void check(void)
{
	await(nobody_writes, "the last writes to end");
	await(all_up, "everybody to be back");
	check_written();
	theirs_check();
	await(all_have_heard_all, "everybody to have heard of all that was written");
}

static void on_agents(void *arg, const struct nc_error *error, const struct nc_page *page)
{
	(void)arg;
	assert_null(error);
	assert_null(page->next);
	t.n_listed = page->n;
	for (size_t i = 0; i < page->n; i++)
		number_of(page->agents[i].name, "agent-", N_AGENTS);
	t.listed = true;
}

static bool only_the_living_are_listed(void)
{
	size_t n = 0;

	for (size_t i = 0; i < N_AGENTS; i++)
		n += t.agents[i].client != NULL;
	t.listed = false;
	assert_int_equal(nc_list_agents(t.agents[0].client, NULL, NULL, on_agents, &t), 0);
	while (!t.listed)
		assert_int_equal(event_base_loop(t.base, EVLOOP_ONCE), 0);
	assert_true(t.n_listed >= n); /* nobody healthy was given up */
	return t.n_listed == n;
}

/*
 * Keys, of those that are there when nobody is: the scope's counters and its events, the counter of
 * its services, and of our own keys what is of this Redis.
 */
static bool nothing_is_left(void)
{
	return test_redis_do(&t.stand.redis, "EVAL %s 0",
			     "local n = 0 for _, k in ipairs(redis.call('KEYS', '*')) do "
			     "if not string.find(k, '^{" SCOPE "}:nanoctrl:[es][a-z_]*$') and "
			     "not string.find(k, '^" SCOPE ":nano_meta:service_revision$') and "
			     "k ~= 'nanoctrl:schema' and k ~= 'nanoctrl:run' and "
			     "k ~= 'nanoctrl:scopes' then "
			     "n = n + 1 end end return n") == 0;
}

/* ---- the test ---- */

/* Each kind of them N_KILLS / N_VICTIMS times, in any order. */
static void shuffle(enum victims *which)
{
	for (unsigned i = 0; i < N_KILLS; i++) {
		unsigned k = choose(i + 1);

		which[i] = which[k];
		which[k] = (enum victims)(i % N_VICTIMS);
	}
}

/* Some die among the kills, and come back as others when they are forgotten. */
static void play_phase(void)
{
	enum victims which[N_KILLS];

	shuffle(which);
	begin_lives();
	for (unsigned i = 0; i < N_KILLS; i++) {
		kill_some(which[i]);
		check();
		for (unsigned k = 0; i == N_KILLS / 2 && k < N_DYING; k++)
			end_life(&t.agents[1 + choose(N_AGENTS - 1)]);
		write_on();
	}
	await(only_the_living_are_listed, "the dead to be forgotten");
}

static void leave_all(void)
{
	stop_writing();
	await(nobody_writes, "the last writes to end");
	theirs_leave();
	for (size_t i = 0; i < N_AGENTS; i++) {
		struct agent *g = &t.agents[i];

		if (!g->client)
			continue;
		assert_int_equal(nc_leave(g->client, on_done, g), 0);
		assert_int_equal(finish(g), 0);
	}
	await(nothing_is_left, "the keys of those who left to go");
}

static void crash__under_load_loses_nothing_and_leaves_nothing(void **state)
{
	const char *seconds = getenv("SLIME_SOAK_S");
	const char *given = getenv("SLIME_SOAK_SEED");
	unsigned seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);
	uint64_t end = sl_clock_ns() + (seconds ? strtoull(seconds, NULL, 10) : 0) * SL_NS_PER_S;

	(void)state;
	srand(seed);
	print_message("SLIME_SOAK_SEED=%u\n", seed);
	theirs_start(t.base, t.servers, 2, SCOPE);
	create_client(&t.watcher);
	watch();
	await(watches, "a place in the events");
	do {
		play_phase();
		print_message("%" PRIu64 " acknowledged writes, %" PRIu64
			      " of DLSlime's clients, %" PRIu64 " kills, %u lives\n",
			      t.n_acked, theirs_acknowledged(), t.n_kills, t.n_lives);
	} while (sl_clock_ns() < end);
	assert_true(t.n_acked > N_AGENTS);
	assert_true(theirs_acknowledged() > N_AGENTS);
	leave_all();
	assert_int_equal(server_stop(&t.stand.server), 0);
	assert_int_equal(server_stop(&t.stand.second), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(crash__under_load_loses_nothing_and_leaves_nothing,
						setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
