/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link of three rails over rdma on fakeverbs: rail r is fake<r> of a and fake<3 + r> of b; only
 * one-sided work goes over another than the first, until that ends. Time is that of nobody who got
 * no CPU for a while: clock_gettime() is wrapped.
 */
#ifndef TEST_RDMA_RAILS_H
#define TEST_RDMA_RAILS_H

#include "tests/libslime/transport/rdma/pair.h"

#include <stdatomic.h>

#define LEN	(1024u * 1024)
#define RAILS	3
#define MESSAGE 64

/* The link of the test that runs. */
struct rails {
	struct rdma_pair pair;
	struct slime_op *sends[3], *recvs[3];
	_Atomic uint64_t ahead_ns; /* of the machine's clock */
};
extern struct rails rails;

int rails_open(unsigned n_qps); /* of each rail */
int rails_begin(void **state);
int rails_end(void **state);
#define IN_PAIR(fn) cmocka_unit_test_setup_teardown(fn, rails_begin, rails_end)

enum slime_endpoint_state rails_state_of(const struct rdma_end *e);
void rails_assert_connected(void);
/* Both ends say that of the rail; or they will. */
bool rails_both_say(unsigned rail, enum slime_rail_state state);
void rails_await(unsigned rail, enum slime_rail_state state);
/* Until it is up at both, which hear that its ports are: they would try by themselves, and wait
 * longer and longer in between. */
void rails_await_return(unsigned rail);

void rails_set_port(unsigned device, bool up);
void rails_cut(unsigned rail, bool is_cut);
/* That the end has its half on. */
struct ibv_context *rails_device_of(const struct rdma_end *e, unsigned rail);
/* Until workers have nothing to do, either. */
void rails_settle_workers(void);

/* The i-th message from a to b: its receive, itself, and that it arrived. */
void rails_post_recv(unsigned i);
void rails_send_value(unsigned i, uint8_t value);
void rails_assert_got(unsigned i, uint8_t value);

#endif
