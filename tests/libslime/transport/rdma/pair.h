/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ends linked over rdma on fakeverbs, without threads of their own: whoever waits moves both.
 * Nothing here asserts that it works, since tests make it fail.
 */
#ifndef TEST_RDMA_PAIR_H
#define TEST_RDMA_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>

#include <slime/slime.h>

#include "tests/fakes/fakeverbs.h"

#define assert_ok(expr) assert_int_equal(expr, 0)

struct rdma_conn;

struct rdma_end {
	struct slime_context *ctx;
	struct slime_endpoint *ep;
	struct slime_mem *mem;
	struct slime_mr *mr; /* all of mem */
	struct slime_remote_mr remote;
	uint8_t *bytes;
	struct slime_op *op;
	/* Of its next endpoint. */
	bool isolated;
	bool or_tcp;	     /* when there is no link over rdma */
	uint32_t qps, rails; /* these as of struct slime_endpoint_attr */
	const char *devices, *peer_devices;
	uint64_t min_bandwidth;
	struct slime_rpc_service *service;
};

#define RDMA_FORMER_MAX 14

struct rdma_pair {
	struct rdma_end a, b;
	struct slime_endpoint *former[RDMA_FORMER_MAX]; /* of links that stay beside the last */
	unsigned n_former;
};

/* attr NULL: the defaults; manual in any case. a is on devices "fake0", b on "fake1", unless attr
 * names devices for both, or, where they differ, for a, then for b behind a semicolon. 0 or a
 * negative errno; rdma_pair_close() either way. */
int rdma_pair_open(struct rdma_pair *p, const struct slime_context_attr *attr, size_t len);
/* Contexts and memory only; then endpoints that connect. */
int rdma_pair_create(struct rdma_pair *p, const struct slime_context_attr *attr, size_t len);
int rdma_pair_connect(struct rdma_pair *p);
/* The same in steps: endpoints; both or one after the other begins; until both have ended that. */
int rdma_pair_create_endpoints(struct rdma_pair *p);
int rdma_pair_begin_to_connect(struct rdma_end *from, const struct rdma_end *to);
int rdma_pair_wait_for_both(struct rdma_pair *p);
/* One more link between the same contexts: the one before stays until those are destroyed. */
int rdma_pair_connect_another(struct rdma_pair *p);
void rdma_pair_destroy_former(struct rdma_pair *p);
void rdma_pair_close(struct rdma_pair *p);
/* Its first step: both are closed, and gone. */
void rdma_pair_destroy_endpoints(struct rdma_pair *p);
/* The connection in use of an endpoint over rdma. */
struct rdma_conn *rdma_endpoint_conn(struct slime_endpoint *ep);

/* Setup: the devices as they come, and no pair; teardown: nothing is left of it on the devices. The
 * state is the pair, for which a test has a place before it begins, or NULL. */
int rdma_pair_reset(void **state);
int rdma_pair_end(void **state);

/* Move both ends until the op ended: its status. It ends. */
int rdma_wait(struct rdma_pair *p, struct slime_op *op);
void rdma_poll(struct rdma_pair *p);
/* Until both are idle: no call moves anything. */
void rdma_settle(struct rdma_pair *p);
bool rdma_is_broken(const struct rdma_end *e);
/* Whether a worker of either end has a job, or is to have one. */
bool rdma_is_working(const struct rdma_pair *p);

/* From begin to end all workers of e have something to do: what is begun there waits. One end at a
 * time, and the next when the jobs of the last are done. */
void rdma_busy_begin(struct rdma_end *e);
void rdma_busy_end(void);

/* Bytes that differ from one to the next, and by seed. */
void rdma_fill(uint8_t *at, size_t len, unsigned seed);
struct slime_xfer rdma_a_and_b(struct rdma_pair *p, uint64_t a_offset, uint64_t b_offset,
			       uint64_t len);

/* Write or read len bytes of that value between the beginnings of both ends' memory: how the op
 * ended, or why there was none. After 0 the bytes are there. */
int rdma_write_now(struct rdma_pair *p, size_t len, uint8_t value);
int rdma_read_now(struct rdma_pair *p, size_t len, uint8_t value);

/* The defaults, with tries that are soon over. */
struct slime_context_attr rdma_quick(void);

/* These assert that it works: a message from a to b; another link in the place of the one there is;
 * that the cause is told in these words; that for this reason nothing can be offered to a peer. */
void rdma_exchange_a_message(struct rdma_pair *p);
void rdma_next_link(struct rdma_pair *p);
void rdma_assert_says(const struct slime_endpoint_info *info, const char *what);
void rdma_assert_refused(struct rdma_end *e, int status, const char *why);

#endif
