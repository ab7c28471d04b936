/* SPDX-License-Identifier: Apache-2.0 */
/* A store over a real Redis, driven by the test's own thread. */
#ifndef TESTS_NANOCTRL_STORE_FIXTURE_H
#define TESTS_NANOCTRL_STORE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "store/store.h"
#include <tests/support/redis.h>

struct fixture {
	struct test_redis redis;
	struct store_hub *hub;
	struct loop *loop;
	struct store *store;
	unsigned ttl_ms;     /* of leases */
	unsigned timeout_ms; /* of Redis */
	uint64_t order;	     /* of the last registration: each has the next one */
};

/* What the last call answered. */
struct answer {
	bool done;
	int result;
	bool created;
	uint64_t epoch;
	struct store_grant grant;
	char text[4096]; /* what was listed, a line each: see the fixture's callbacks */
	char next[STORE_NAME_MAX + 1];
	struct store_cursor cursor;
	size_t n;
};

/* An agent of a test and its lease. */
struct member {
	char name[32];
	char incarnation[32];
	struct store_lease lease;
	uint64_t generation;
	struct store_cursor cursor;
};

#define SCOPE	 "test"
#define GRACE_MS 1000

/* Leases that outlive every test, and ones to watch their end: for so long, too, the store gives
 * nobody up after it began. */
#define LONG_TTL_MS  60000
#define SHORT_TTL_MS 3000

#define OWNER_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define OWNER_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define SECRET	"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"

/* For EVAL: Redis refuses for want of memory a script's first write only, and one that frees is
 * not. */
#define UNREFUSED "redis.call('DEL', '') return redis.call(unpack(ARGV))"

int fixture_setup(void **state);
/* With short leases; and one that does not wait long for Redis, either. */
int fixture_setup_short_leases(void **state);
int fixture_setup_impatient(void **state);
int fixture_teardown(void **state);

void fixture_open(struct fixture *f); /* a hub and a store */
/* The same, with what the fixture does not set itself: the URL is its own. */
void fixture_open_with(struct fixture *f, struct store_config *config);
void fixture_close(struct fixture *f);

/* Turn the loop until *done; fails the test after a minute. */
void fixture_run(struct fixture *f, const bool *done);
/* Turn the loop while the command, as test_redis_do() has it, says another number than this one. */
void fixture_until(struct fixture *f, long long n, const char *command);
/* Turn the loop for so long: only where the lapse of time is what is tested. */
void fixture_spend(struct fixture *f, unsigned ms);
/* Turn the loop until the store serves, or does not. */
void fixture_until_serving(struct fixture *f, bool serving);
/* Redis is killed and started again, or its connections break, until the store serves again. */
void fixture_restart_redis(struct fixture *f);
void fixture_reconnect(struct fixture *f);

/* Redis is busy with a script that does not end by itself, until it is killed. */
struct redisContext;
struct redisContext *fixture_begin_script(struct fixture *f);
void fixture_end_script(struct fixture *f, struct redisContext *c);

int fixture_register(struct fixture *f, struct member *m, const char *name, const char *incarnation,
		     const char *owner, bool again);
int fixture_beat(struct fixture *f, const struct member *m, const char *session);
/* grant: NULL when nobody looks at it. */
int fixture_open_session(struct fixture *f, const struct member *m, const char *session,
			 uint64_t order, struct store_grant *grant);
int fixture_leave(struct fixture *f, const struct member *m);
/* Names of the scope's agents, blank-separated, in a->text. */
int fixture_names(struct fixture *f, struct answer *a);
int fixture_put(struct fixture *f, const struct member *m, enum store_kind kind, const char *name,
		uint64_t revision, const char *doc, const char *blob);
int fixture_offer(struct fixture *f, const struct member *m, const char *to, uint64_t attempt,
		  const char *to_incarnation, const char *blob);
/* "type agent object>to" of each event behind the cursor, ";" after each; moves the cursor.
 * 1: reset. */
int fixture_events(struct fixture *f, struct store_cursor *at, char *text, size_t size);

/* Callbacks that fill a struct answer. */
store_done_fn answer_done;
store_grant_fn answer_grant;
store_beat_fn answer_beat;
store_put_fn answer_put;
store_page_fn answer_page;     /* agents: "name "; objects: "agent/name=doc|blob " */
store_offers_fn answer_offers; /* "from>to:attempt=blob " */

#endif
