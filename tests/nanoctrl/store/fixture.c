/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nanoctrl/store/fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <event2/event.h>
#include <hiredis/hiredis.h>
#include <base/clock.h>
#include "nanoctrl/net/loop.h"
#include "server/compat.h"
#include "store/redis_store.h"

#define GIVE_UP_NS (60 * SL_NS_PER_S)

static void add(struct answer *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void add(struct answer *a, const char *fmt, ...)
{
	size_t len = strlen(a->text);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(a->text + len, sizeof(a->text) - len, fmt, ap);
	va_end(ap);
}

void answer_done(void *arg, int result)
{
	struct answer *a = arg;

	a->result = result;
	a->done = true;
}

void answer_grant(void *arg, int result, const struct store_grant *grant)
{
	struct answer *a = arg;

	if (grant)
		a->grant = *grant;
	a->grant.holder = NULL; /* valid here only */
	answer_done(a, result);
}

void answer_beat(void *arg, int result, uint64_t epoch)
{
	struct answer *a = arg;

	a->epoch = epoch;
	answer_done(a, result);
}

void answer_put(void *arg, int result, bool created)
{
	struct answer *a = arg;

	a->created = created;
	answer_done(a, result);
}

void answer_page(void *arg, int result, const struct store_page *page)
{
	struct answer *a = arg;

	for (size_t i = 0; page && i < page->n_agents; i++)
		add(a, "%s ", page->agents[i].name);
	for (size_t i = 0; page && i < page->n_objects; i++) {
		const struct store_object *o = &page->objects[i];

		add(a, "%s/%s=%.*s|%.*s ", o->agent, o->name, (int)o->doc.len, o->doc.at,
		    (int)o->blob.len, o->blob.at);
	}
	if (page && page->next)
		snprintf(a->next, sizeof(a->next), "%s", page->next);
	if (page)
		a->cursor = page->cursor;
	answer_done(a, result);
}

void answer_offers(void *arg, int result, const struct store_cursor *cursor,
		   const struct store_offer *offers, size_t n)
{
	struct answer *a = arg;

	for (size_t i = 0; i < n; i++)
		add(a, "%s>%s:%llu=%.*s ", offers[i].from, offers[i].to,
		    (unsigned long long)offers[i].connection_epoch, (int)offers[i].blob.len,
		    offers[i].blob.at);
	a->cursor = *cursor;
	a->n = n;
	answer_done(a, result);
}

static void expire(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	*(bool *)arg = true;
}

/* One turn that may sleep, for at most ms. */
static void turn(struct fixture *f, unsigned ms)
{
	struct timeval tv = { .tv_usec = (suseconds_t)ms * 1000 };
	bool over = false;
	struct event *ev = evtimer_new(loop_base(f->loop), expire, &over);

	event_add(ev, &tv);
	event_base_loop(loop_base(f->loop), EVLOOP_ONCE);
	event_free(ev);
}

void fixture_run(struct fixture *f, const bool *done)
{
	uint64_t start = sl_clock_ns();

	while (!*done) {
		if (sl_clock_ns() - start > GIVE_UP_NS)
			fail_msg("nothing happened for a minute");
		turn(f, 100);
	}
}

void fixture_spend(struct fixture *f, unsigned ms)
{
	uint64_t end = sl_clock_ns() + ms * SL_NS_PER_MS;

	while (sl_clock_ns() < end)
		turn(f, 5);
}

void fixture_until(struct fixture *f, long long n, const char *command)
{
	uint64_t start = sl_clock_ns();

	while (test_redis_do(&f->redis, command) != n) {
		if (sl_clock_ns() - start > GIVE_UP_NS)
			fail_msg("%s is never %lld", command, n);
		turn(f, 20);
	}
}

void fixture_until_serving(struct fixture *f, bool serving)
{
	uint64_t start = sl_clock_ns();

	while ((store_trouble(f->store) == NULL) != serving) {
		if (sl_clock_ns() - start > GIVE_UP_NS)
			fail_msg("the store is %s", serving ? store_trouble(f->store) : "up");
		turn(f, 20);
	}
}

void fixture_restart_redis(struct fixture *f)
{
	test_redis_kill(&f->redis);
	fixture_until_serving(f, false);
	test_redis_restart(&f->redis);
	fixture_until_serving(f, true);
}

void fixture_reconnect(struct fixture *f)
{
	test_redis_do(&f->redis, "CLIENT KILL TYPE normal");
	fixture_until_serving(f, false);
	fixture_until_serving(f, true);
}

void fixture_open_with(struct fixture *f, struct store_config *config)
{
	config->url = f->redis.url;
	config->compat = compat.store;
	assert_int_equal(store_hub_create(config, &f->hub), 0);
	assert_int_equal(loop_create(&f->loop), 0);
	assert_int_equal(store_create(f->hub, f->loop, &f->store), 0);
}

void fixture_open(struct fixture *f)
{
	struct store_config config = STORE_CONFIG_INIT;

	config.ttl_ms = f->ttl_ms;
	config.grace_ms = GRACE_MS;
	config.reap_ms = 20;
	config.timeout_ms = f->timeout_ms;
	config.check_ms = 200;
	config.max_inflight = 64;
	config.max_objects = 4;
	config.keep_events = 100;
	fixture_open_with(f, &config);
}

void fixture_close(struct fixture *f)
{
	store_destroy(f->store);
	if (f->loop)
		loop_destroy(f->loop);
	store_hub_destroy(f->hub);
	f->store = NULL;
	f->loop = NULL;
	f->hub = NULL;
}

static int setup_with(void **state, unsigned ttl_ms, unsigned timeout_ms)
{
	struct fixture *f = calloc(1, sizeof(*f));

	*state = f;
	f->ttl_ms = ttl_ms;
	f->timeout_ms = timeout_ms;
	signal(SIGPIPE, SIG_IGN); /* as the daemon does */
	test_redis_start(&f->redis);
	fixture_open(f);
	fixture_until_serving(f, true);
	return 0;
}

int fixture_setup(void **state)
{
	/* A long answer takes its time on a busy machine. */
	return setup_with(state, LONG_TTL_MS, 30000);
}

int fixture_setup_short_leases(void **state)
{
	return setup_with(state, SHORT_TTL_MS, 10000);
}

int fixture_setup_impatient(void **state)
{
	return setup_with(state, SHORT_TTL_MS, 1500);
}

int fixture_teardown(void **state)
{
	struct fixture *f = *state;

	fixture_close(f);
	test_redis_stop(&f->redis);
	free(f);
	return 0;
}

int fixture_register(struct fixture *f, struct member *m, const char *name, const char *incarnation,
		     const char *owner, bool again)
{
	struct answer a = { .done = false };
	struct store_registration r = {
		.name = name,
		.incarnation = incarnation,
		.owner_hash = owner,
		.secret_hash = SECRET,
		.again = again,
		.order = ++f->order,
		.profile = { .labels = { "{\"role\":\"x\"}", 12 } },
	};

	store_register(f->store, SCOPE, &r, answer_grant, &a);
	fixture_run(f, &a.done);
	if (a.result == 0) {
		snprintf(m->name, sizeof(m->name), "%s", name);
		snprintf(m->incarnation, sizeof(m->incarnation), "%s", incarnation);
		m->lease = (struct store_lease){ m->name, a.grant.lease_id, SECRET };
		m->generation = a.grant.generation;
		m->cursor = a.grant.cursor;
	}
	return a.result;
}

int fixture_beat(struct fixture *f, const struct member *m, const char *session)
{
	struct answer a = { .done = false };

	store_beat(f->store, SCOPE, &m->lease, session, &(struct store_cursor){ 0, 0 }, answer_beat,
		   &a);
	fixture_run(f, &a.done);
	return a.result;
}

int fixture_open_session(struct fixture *f, const struct member *m, const char *session,
			 uint64_t order, struct store_grant *grant)
{
	struct answer a = { .done = false };

	store_open_session(f->store, SCOPE, &m->lease, session, order, answer_grant, &a);
	fixture_run(f, &a.done);
	if (grant)
		*grant = a.grant;
	return a.result;
}

int fixture_leave(struct fixture *f, const struct member *m)
{
	struct answer a = { .done = false };

	store_leave(f->store, SCOPE, &m->lease, answer_done, &a);
	fixture_run(f, &a.done);
	return a.result;
}

int fixture_names(struct fixture *f, struct answer *a)
{
	memset(a, 0, sizeof(*a));
	store_list_agents(f->store, SCOPE, "", 100, answer_page, a);
	fixture_run(f, &a->done);
	return a->result;
}

int fixture_put(struct fixture *f, const struct member *m, enum store_kind kind, const char *name,
		uint64_t revision, const char *doc, const char *blob)
{
	struct answer a = { .done = false };
	struct store_object o = { .name = name,
				  .revision = revision,
				  .doc = { doc, strlen(doc) },
				  .blob = { blob, strlen(blob) } };

	store_put(f->store, SCOPE, &m->lease, kind, &o, answer_put, &a);
	fixture_run(f, &a.done);
	return a.result;
}

int fixture_offer(struct fixture *f, const struct member *m, const char *to, uint64_t attempt,
		  const char *to_incarnation, const char *blob)
{
	struct answer a = { .done = false };
	struct store_offer o = { .to = to,
				 .profile = "default",
				 .connection_epoch = attempt,
				 .to_incarnation = to_incarnation,
				 .blob = { blob, strlen(blob) } };

	store_put_offer(f->store, SCOPE, &m->lease, &o, answer_offers, &a);
	fixture_run(f, &a.done);
	return a.result;
}

struct listing {
	bool done;
	int result;
	bool reset;
	struct store_cursor *at;
	char *text;
	size_t size;
};

static void list_events(void *arg, int result, const struct store_events *ev)
{
	struct listing *l = arg;

	l->done = true;
	l->result = result;
	if (!ev)
		return;
	for (size_t i = 0; i < ev->n; i++) {
		size_t len = strlen(l->text);

		snprintf(l->text + len, l->size - len, "%s %s %s>%s;", ev->events[i].type,
			 ev->events[i].agent, ev->events[i].object, ev->events[i].to);
	}
	l->reset = ev->reset;
	l->at->epoch = ev->epoch;
	l->at->id = ev->n ? ev->events[ev->n - 1].id : ev->last;
}

int fixture_events(struct fixture *f, struct store_cursor *at, char *text, size_t size)
{
	struct listing l = { .at = at, .text = text, .size = size };

	*text = '\0';
	store_read_events(f->store, SCOPE, at, 100, list_events, &l);
	fixture_run(f, &l.done);
	assert_int_equal(l.result, 0);
	return l.reset;
}

redisContext *fixture_begin_script(struct fixture *f)
{
	redisContext *c = redisConnectUnix(f->redis.socket);
	int done = 0;

	assert_true(c && !c->err);
	assert_int_equal(redisAppendCommand(c, "EVAL %s 0", "while true do end"), REDIS_OK);
	while (!done)
		assert_int_equal(redisBufferWrite(c, &done), REDIS_OK);
	return c;
}

void fixture_end_script(struct fixture *f, redisContext *c)
{
	void *reply = NULL;

	test_redis_do(&f->redis, "SCRIPT KILL");
	assert_int_equal(redisGetReply(c, &reply), REDIS_OK);
	freeReplyObject(reply);
	redisFree(c);
}
