/* SPDX-License-Identifier: Apache-2.0 */
/* The whole server in this process, over a real Redis, spoken to through its socket. */
#ifndef TESTS_NANOCTRL_API_FIXTURE_H
#define TESTS_NANOCTRL_API_FIXTURE_H

#include <tests/support/redis.h>
#include "nanoctrl/net/loop.h"
#include "server/routes.h"
#include "tests/nanoctrl/api/client.h"

struct api_fixture {
	struct test_redis redis;
	struct store_hub *hub;
	struct route routes[ROUTES_MAX];
	struct loop *loop;
	struct server *server;
	unsigned port;
	struct api_answer said; /* to the last api_post() */
};

/* Leases outlive every test, or they are short, to watch their end. */
int api_setup(void **state);
int api_setup_short_leases(void **state);
/* Redis is said to be where nobody gets to from here, and clients elsewhere might. */
#define API_ADVERTISED "255.255.255.255:6379"
int api_setup_advertised(void **state);
/* The same, and what has ended is looked for as rarely as nanoctrl does. */
int api_setup_as_a_program(void **state);
/* Redis is said to be there; or it is reached at this port of 127.0.0.1, on which it listens. */
int api_setup_told(void **state, const char *advertise);
int api_setup_port(void **state, const char *port);
/* It is the server's own, and clients elsewhere are told where it will listen; that is in public,
 * which lasts until the teardown. */
#define API_PLACE_MAX 32
typedef void api_own_fn(struct api_fixture *f, char public[API_PLACE_MAX]);
int api_setup_private(void **state, char public[API_PLACE_MAX], api_own_fn *own);
/* As advertised, and after an outage, as before this start, no agent of DLSlime's ends for so long;
 * with the others that is no time at all. */
int api_setup_held(void **state, uint32_t hold_ms);
/* As advertised, and lists end at 4096 bytes. */
int api_setup_short_lists(void **state);
/* Streams have a line every millisecond, sockets that take little, and queues that are shorter than
 * what is given to a socket at once: when one is full there is no room for anything. */
int api_setup_short_queues(void **state);
/* A server that shuts down accepts and keeps its streams for ten minutes: a test cuts that off. */
int api_setup_long_drain(void **state);
int api_teardown(void **state);

/* Has the server shut down; the second time, at once. */
void api_drain(struct api_fixture *f);
/* Waits until it has, and destroys it. */
void api_stop(struct api_fixture *f);

/* What /metrics says of a counter without labels. */
long long api_metric(struct api_fixture *f, const char *name);
void api_await_metric(struct api_fixture *f, const char *name, long long value);

#endif
