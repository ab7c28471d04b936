/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connections of redis.h without a socket, linked instead of it: the test answers. Nothing
 * takes time, for timers of the store run out in the next turn of the loop
 * (-Wl,--wrap=event_add).
 */
#ifndef TESTS_NANOCTRL_FAKE_CONNECTION_H
#define TESTS_NANOCTRL_FAKE_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <hiredis/hiredis.h>

/* Those of a store, in the order in which it makes them. */
enum fake_connection { FAKE_COMMANDS, FAKE_NOTICES, FAKE_KEYS, N_FAKE_CONNECTIONS };

struct fake_word {
	const char *at;
	size_t len;
};

/* The reply to a command, for the connection to free; NULL breaks it. Commands whose answer does
 * not matter to the store are not asked about. */
typedef redisReply *fake_answer_fn(size_t n, const struct fake_word *words);

/* What Redis writes, as a reply that is somebody's to free. */
redisReply *fake_reply(const char *text);

/* Before a store is made. Every connection comes up by itself, once. */
void fake_connections_begin(fake_answer_fn *answer);

void fake_connection_break(enum fake_connection which);
void fake_connection_restore(enum fake_connection which);

/* A message of a subscription, which is freed; nobody hears it while the connection is broken. */
void fake_connection_push(enum fake_connection which, redisReply *message);

#endif
