/* SPDX-License-Identifier: Apache-2.0 */
/* The whole server in this process, over a real Redis, spoken to through its socket. */
#ifndef TESTS_NANOCTRL_API_FIXTURE_H
#define TESTS_NANOCTRL_API_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <cmocka.h>
#include <jansson.h>

#include <tests/support/redis.h>

/* An answer; body is NULL when it is no JSON. */
struct api_answer {
	int status;
	bool retry_after;
	json_t *body;
};

struct api_fixture {
	struct test_redis redis;
	struct store_hub *hub;
	struct loop *loop;
	struct server *server;
	unsigned port;
	struct api_answer said; /* to the last api_post() */
};

#define OWNER_KEY_A "AAAAAAAAAAAAAAAAaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define OWNER_KEY_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

/* A descriptor for an exchange. */
#define OFFER "{\"connection_epoch\":1,\"peer_incarnation\":\"i2\",\"descriptor\":\"QUJD\"}"

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

/* One request; lease and body may be NULL. The answer's body is freed with the next call of it on
 * the same answer, or by api_answer_fini(). */
int api_do(struct api_fixture *f, struct api_answer *a, const char *method, const char *target,
	   const char *lease, const char *body);
void api_answer_fini(struct api_answer *a);
/* Posts without a lease; the answer is f->said until the next. */
int api_post(struct api_fixture *f, const char *path, const char *body);

/* The two halves of it: sent on a connection of its own, and answered. */
int api_begin(struct api_fixture *f, const char *method, const char *target, const char *lease,
	      const char *body);
int api_finish(int fd, struct api_answer *a);
/* With other header fields, which are whole lines and let the server close. */
int api_begin_with(struct api_fixture *f, const char *method, const char *target, const char *lease,
		   const char *fields, const char *body);

/* A member of an answer by a path of names: "agent", "labels", NULL. */
const char *api_text(const struct api_answer *a, const char *first, ...);
long long api_number(const struct api_answer *a, const char *first, ...);
size_t api_count(const struct api_answer *a, const char *name);

/* Registers and copies the lease; the status. */
int api_register(struct api_fixture *f, const char *name, const char *incarnation, const char *key,
		 char lease[512]);
/* The same for node-a, after Redis was away. */
void api_until_registered(struct api_fixture *f, char lease[512]);

/* A WebSocket, or a stream of lines. */
struct api_stream {
	int fd;
	bool websocket;
	int status; /* of the answer */
	char in[65536];
	size_t len;
	unsigned close_code; /* once it was closed */
};

/* Open one; after a status other than 101 or 200 there is no stream. */
int api_open(struct api_fixture *f, struct api_stream *s, const char *target, const char *lease,
	     bool websocket);
/* The same over a connection that takes next to nothing unless it is read. */
int api_open_narrow(struct api_fixture *f, struct api_stream *s, const char *target,
		    const char *lease, bool websocket);
/* What /metrics says of a counter without labels. */
long long api_metric(struct api_fixture *f, const char *name);
/* The next message; NULL when it was closed. The caller decrefs it. */
json_t *api_next(struct api_stream *s);
/* The next message of this type, passing over others; fails when the stream ends before. */
json_t *api_next_of(struct api_stream *s, const char *type);
void api_send(struct api_stream *s, const char *text);
/* Break it without a goodbye. */
void api_close(struct api_stream *s);

#endif
