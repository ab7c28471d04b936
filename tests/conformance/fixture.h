/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the conformance tests stand on: a pair of ends linked over the transport under test, bytes
 * with a pattern, and waits that have an end. The tests speak the public API only, so that every
 * transport, also one of another maker, can be put under them.
 *
 * A program of the suite is a group of tests; it is started with --transport NAME.
 */
#ifndef CONFORMANCE_FIXTURE_H
#define CONFORMANCE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#include <slime/slime.h>

#define KiB (1024u)
#define MiB (1024u * 1024u)

/* Longer than anything that works takes, under a sanitizer on a busy machine. */
#define PATIENCE_MS 60000

#define assert_ok(expr) assert_int_equal(expr, 0)

/* Which transport the group was started for. */
extern enum slime_transport fixture_transport;
/* And for which devices; NULL: any. */
extern const char *fixture_rails;

/* One end of a link, in this process. */
struct end {
	struct slime_context *ctx;
	struct slime_endpoint *ep;
	struct slime_mem *mem;
	struct slime_mr *mr;		   /* all of mem */
	struct slime_remote_mr remote;	   /* mr, as the other end knows it */
	uint8_t *bytes;			   /* of mem */
	struct slime_op *op;		   /* waited for */
	struct slime_rpc_service *service; /* what the next endpoint offers; NULL: nothing */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool seen[SLIME_ENDPOINT_CLOSED + 1]; /* states that on_state reported */
	int cause;
};

struct pair {
	struct end a, b;
};

struct pair_attr {
	size_t len;		  /* of each end's memory */
	uint32_t access;	  /* to each end's memory */
	uint32_t max_pending_ops; /* 0: the default */
	uint64_t max_bandwidth;	  /* of each endpoint; 0: no cap */
	uint64_t context_max_bandwidth;
	bool manual_a; /* a's context has no thread */
	enum slime_foreign foreign_memory;
	enum slime_polling polling;
	const char *rails; /* rdma: of both ends; NULL: as the group was started */
};

#define PAIR_ATTR_INIT                                                                      \
	{                                                                                   \
		.len = MiB, .access = SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE, \
		.polling = SLIME_POLLING_ADAPTIVE,                                          \
	}

/*
 * A new pair; NULL means the defaults. attr->len 0 makes no memory. Steps of it, for tests about
 * the steps: contexts and memory, endpoints, connection.
 */
struct pair *pair_open(const struct pair_attr *attr);
struct pair *pair_create(const struct pair_attr *attr);
void pair_create_endpoints(struct pair *p, const struct pair_attr *attr);
void pair_connect(struct pair *p);

/* Destroys what is there; ends that a test took apart itself are NULL. */
void pair_close(struct pair *p);

/* For cmocka: *state is a pair with the defaults. */
int pair_setup(void **state);
int pair_teardown(void **state);
#define IN_PAIR(fn) cmocka_unit_test_setup_teardown(fn, pair_setup, pair_teardown)

/* One end's context and memory; its endpoint; both destroyed. */
void end_create(struct end *e, const struct pair_attr *attr);
void end_create_endpoint(struct end *e, const struct pair_attr *attr);
void end_destroy(struct end *e);

/* The state was reported to on_state, within PATIENCE_MS. */
void end_await(struct end *e, enum slime_endpoint_state state);

/* A region over memory of the end's own. */
struct slime_mr *end_mr(struct end *e, void *addr, size_t len, uint32_t access);
/* What a peer learns of a region. */
struct slime_remote_mr remote_of(const struct slime_mr *mr);

struct slime_op *op_new(struct slime_context *ctx);
/* Wait for the op, which must end in time: its status. */
int op_end(struct slime_op *op);
void op_end_ok(struct slime_op *op);

/* A piece between the memories of the two ends, seen from a. */
struct slime_xfer a_and_b(struct pair *p, uint64_t a_offset, uint64_t b_offset, uint64_t len);
/* Submit one piece by a and wait: the result of the submit, or the op's status. */
int read_now(struct pair *p, const struct slime_xfer *x);
int write_now(struct pair *p, const struct slime_xfer *x);

/* Bytes that tell where they come from: the i-th byte of the pattern of a seed. */
void pattern_fill(void *at, size_t len, uint64_t seed, uint64_t i);
/* Whether they are at this place. */
bool pattern_matches(const void *at, size_t len, uint64_t seed, uint64_t i);
#define assert_pattern(at, len, seed, i) assert_true(pattern_matches(at, len, seed, i))

/*
 * How often a test repeats what would be shown by one round, had chance its say in it: n times, or
 * n / N in a group that was started with --fewer N, on a machine where bytes cost much.
 */
uint64_t rounds(uint64_t n);
/* The same of what is as much as it is only to be much: bytes, pieces. */
size_t large(size_t n);

/* Numbers that a seed determines. */
uint64_t next_random(uint64_t *seed);

uint64_t now_ms(void);

/* Skips the test, with the reason, where there is less memory than it needs. */
void need_memory(uint64_t bytes);

/* Repeat try(arg) while it says -EAGAIN, at most PATIENCE_MS: its last result. */
int until_not_again(int (*try)(void *arg), void *arg);

/* main() of a group: reads the arguments, runs the tests. */
int fixture_main(int argc, char **argv, const char *group, const struct CMUnitTest *tests,
		 size_t n);
#define FIXTURE_MAIN(group)                                                                      \
	int main(int argc, char **argv)                                                          \
	{                                                                                        \
		return fixture_main(argc, argv, group, tests, sizeof(tests) / sizeof(tests[0])); \
	}

#endif
