/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real redis-server for a test: private, on a unix socket in a directory of its own, dead when
 * the test is dead.
 */
#ifndef TESTS_SUPPORT_REDIS_H
#define TESTS_SUPPORT_REDIS_H

#include <stdbool.h>
#include <sys/types.h>

struct test_redis {
	char dir[64];
	char socket[96];
	char url[128]; /* unix://... */
	pid_t pid;     /* 0: not running */
	bool durable;  /* what it acknowledged survives test_redis_kill() */
	bool account;  /* of test_redis_account() */
};

/* Starts one and waits until it answers; exits the test with 77 when there is no redis-server. */
void test_redis_start(struct test_redis *r);

/* The same, with every write on disk before it is answered. */
void test_redis_start_durable(struct test_redis *r);

/* From now on the url has a user with all rights, as which test_redis_do() comes, too: the user
 * `default` may be restricted. It ends with the process. */
void test_redis_account(struct test_redis *r);

/* Kill it, with what it knew unless it is durable. */
void test_redis_kill(struct test_redis *r);

/* Start it again in the same place: empty, unless it is durable or somebody made it SAVE. */
void test_redis_restart(struct test_redis *r);

void test_redis_pause(struct test_redis *r);
void test_redis_resume(struct test_redis *r);

/* Run one command, printf-like as hiredis has it; fails the test when it cannot. Returns what an
 * integer reply says, the length of an array, or 0. */
long long test_redis_do(struct test_redis *r, const char *fmt, ...);

/* How often a command ran, in scripts too, since CONFIG RESETSTAT. */
long long test_redis_calls(struct test_redis *r, const char *command);

/* Kill and remove the directory; harmless when nothing was started. */
void test_redis_stop(struct test_redis *r);

#endif
