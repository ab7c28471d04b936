/* SPDX-License-Identifier: Apache-2.0 */
/* A real nanoctrl over a real Redis of its own. */
#ifndef TESTS_CLIENT_STAND_H
#define TESTS_CLIENT_STAND_H

#include <tests/support/redis.h>

#include "server.h"

struct stand {
	struct test_redis redis;
	struct server server;
	char run_dir[128];
	struct server second; /* a replica, when there is one */
	char second_dir[128];
};

/* Starts the server over the Redis that was started; setting is one more "--set" of it, or NULL. */
void stand_start(struct stand *s, const char *setting);

/* The same with several of them, for as long as the stand. */
void stand_start_with(struct stand *s, const char *const *settings, size_t n);

/* Starts another one over the same Redis. */
void stand_start_second(struct stand *s, const char *const *settings, size_t n);

/* Kills all and removes what they left. 0, -1: as a teardown returns it. */
int stand_stop(struct stand *s);

#endif
