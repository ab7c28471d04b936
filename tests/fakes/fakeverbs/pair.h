/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two connected queue pairs on two devices, by verbs alone: what the tests of fakeverbs stand on,
 * and, so that the fake is shown to be like what it stands for, also on real devices.
 */
#ifndef FAKEVERBS_PAIR_H
#define FAKEVERBS_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <infiniband/verbs.h>
#include <stdbool.h>

#define ALL_ACCESS                                                                   \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)

#define assert_ok(expr) assert_int_equal(expr, 0)

struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq; /* of both queues, announced by channel */
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_mr *mr; /* all of bytes, with all access */
	uint8_t *bytes;
	uint8_t gid_index;
	union ibv_gid gid;
	struct ibv_port_attr port;
	uint32_t psn;
};

struct pair_attr {
	size_t len; /* of each end's bytes */
	int cqe;
	uint32_t max_send_wr, max_recv_wr, max_sge, max_inline;
	bool srq; /* b receives by a shared queue of max_recv_wr */
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer;
	uint8_t max_rd_atomic;
	uint8_t wrong_psn; /* added to what b expects */
	bool unconnected;  /* in the state RESET */
};

#define PAIR_ATTR_INIT                                                                       \
	{                                                                                    \
		.len = 65536, .cqe = 64, .max_send_wr = 32, .max_recv_wr = 32, .max_sge = 4, \
		.max_inline = 64, .timeout = 8, .retry_cnt = 2, .rnr_retry = 6,              \
		.min_rnr_timer = 12 /* 0.64 ms */, .max_rd_atomic = 4                        \
	}

struct pair {
	struct pair_attr attr;
	struct end a, b;
};

/* On the first two devices that there are, or twice on the first one. */
struct pair *pair_open(const struct pair_attr *attr);
void pair_close(struct pair *p);

/* Setup and teardown of a test: *state is a pair of the defaults. */
int pair_setup(void **state);
int pair_teardown(void **state);

/* One end's queue pair by itself: made, or moved towards the other end's as far as state. */
struct ibv_qp *qp_new(struct pair *p, struct end *e);
int qp_to_init(struct ibv_qp *qp);
int qp_to_rtr(struct pair *p, struct ibv_qp *qp, const struct end *local, const struct end *remote,
	      uint32_t dest_qp_num);
int qp_to_rts(struct pair *p, struct ibv_qp *qp, const struct end *local);
int qp_to_error(struct ibv_qp *qp);
enum ibv_qp_state qp_state(struct ibv_qp *qp);
void pair_connect(struct pair *p);

/* A request of a's bytes at offset against b's at remote_offset; signaled, its id is its opcode. */
struct request {
	struct ibv_send_wr wr;
	struct ibv_sge sge;
};
void request_init(struct pair *p, struct request *r, enum ibv_wr_opcode opcode, uint64_t offset,
		  uint64_t remote_offset, uint32_t len);
int request_post(struct end *e, struct request *r);
/* All in one. */
void post(struct pair *p, enum ibv_wr_opcode opcode, uint64_t offset, uint64_t remote_offset,
	  uint32_t len);

int post_recv(struct end *e, uint64_t wr_id, uint64_t offset, uint32_t len);

/* The next completion, which comes. */
struct ibv_wc next_wc(struct end *e);
#define assert_wc(e, expected) assert_int_equal(next_wc(e).status, expected)
/* There is none. */
void assert_no_wc(struct end *e);

/* The next asynchronous event, which comes and is acknowledged: its type. */
enum ibv_event_type next_event(struct end *e);
/* Events until one of that type. */
void await_event(struct end *e, enum ibv_event_type type);
/* Whether a descriptor has something to read. */
bool is_readable(int fd);

void fill(struct end *e, uint64_t offset, size_t len, uint8_t seed);
void assert_filled(const struct end *e, uint64_t offset, size_t len, uint8_t seed);

#endif
