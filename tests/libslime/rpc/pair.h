/* SPDX-License-Identifier: Apache-2.0 */
/* Two contexts in one process with a link between them, and a service whose methods the tests call.
 */
#ifndef TEST_RPC_PAIR_H
#define TEST_RPC_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <slime/slime.h>

#define PAIR_TIMEOUT_MS 60000

/* Requests that a "defer" handler was given and nobody answered yet. */
struct shelf {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct slime_rpc_request *requests[256];
	unsigned n;
};

/* "gate" handlers wait here. */
struct gate {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned n_inside;
	bool open;
};

struct side {
	struct slime_context *ctx;
	struct slime_rpc_service *service;
	struct slime_endpoint *ep;
	struct slime_op *op; /* of connect */
	struct shelf shelf;
	struct gate gate;
	_Atomic unsigned n_handled;   /* by "count" */
	_Atomic unsigned n_cancelled; /* "gate" handlers that saw it before they answered */
	_Atomic int outcome;	      /* what the last call of a handler returned */
};

struct pair {
	enum slime_transport transport;
	struct side a;
	struct side b;
};

/* Both sides offer:
 *	echo, echo_inline, echo_in_place	the request
 *	call_back	the same, after calling the caller's echo_inline
 *	length		as many bytes as the request, a u64, says: pattern of seed 1
 *	fail		error 42, message "no such page"
 *	limited		echo, of at most 2048 bytes
 *	count		counts, replies nothing (inline)
 *	gate		waits until the gate is open, then echo
 *	defer		to the shelf (inline); who takes it answers
 *	defer_pool	the same, by a worker
 *	outlast		nothing; then waits for the gate and answers who is on the shelf: outcome
 *	destroy		tries to destroy its endpoint: outcome; replies nothing
 *	slice, slice_inline, slice_in_place
 *			part of the request, as the struct slice at its beginning says
 */
enum slice_how {
	SLICE_REPLY,  /* slime_rpc_reply() of the part where it lies */
	SLICE_COMMIT, /* copied to a reply buffer of room bytes */
	SLICE_OWN,    /* copied to a reply buffer of room bytes, which slime_rpc_reply() is given */
	SLICE_ERROR,  /* the message of slime_rpc_reply_error() where it lies */
	SLICE_HOWS,
};

struct slice {
	uint32_t how;
	uint32_t at;
	uint32_t len;
	uint32_t room;
};

struct pair *pair_open(enum slime_transport transport, const struct slime_context_attr *attr);
void pair_close(struct pair *p);

/* For cmocka: *state is a pair with the defaults, over the transport that PAIR_RUN() is at. */
int pair_setup(void **state);
int pair_teardown(void **state);
#define IN_PAIR(fn) cmocka_unit_test_setup_teardown(fn, pair_setup, pair_teardown)

/* The one that PAIR_RUN() is at. */
enum slime_transport pair_transport(void);

/* Run a group of tests over each transport that there is: how many failed. */
int pair_run(const char *group, const struct CMUnitTest *tests, size_t n);
#define PAIR_RUN(group, tests) pair_run(group, tests, sizeof(tests) / sizeof((tests)[0]))

/* End b's process, so to speak: its endpoint. */
void pair_drop(struct side *s);

/* Whether that transport can be had here. */
bool pair_has(enum slime_transport transport);

/* The oldest request of the shelf, waiting for it. */
struct slime_rpc_request *shelf_take(struct shelf *shelf);
unsigned shelf_count(struct shelf *shelf);
void shelf_wait(struct shelf *shelf, unsigned n);
void gate_wait(struct gate *gate, unsigned n_inside);
void gate_open(struct gate *gate);

void pattern_fill(uint8_t *p, size_t len, uint32_t seed);
bool pattern_ok(const uint8_t *p, size_t len, uint32_t seed);

/* Begin to connect ep to peer. */
void connect_to(struct slime_endpoint *ep, struct slime_endpoint *peer, struct slime_op *op);

struct slime_call *make_call(struct slime_context *ctx);

/* Start, wait, and the call's status. */
int call_now(struct slime_endpoint *ep, struct slime_call *call, const char *method,
	     const void *request, size_t len, void *reply, size_t cap);

#endif
