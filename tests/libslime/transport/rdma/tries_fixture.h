/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links over rdma on fakeverbs whose ends try until the other is there. Time is the test's, so that
 * the rounds of both ends stand to each other as it says: clock_gettime() is wrapped.
 */
#ifndef TEST_RDMA_TRIES_H
#define TEST_RDMA_TRIES_H

#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/transport.h"
#include "tests/libslime/transport/rdma/pair.h"

#define LEN 4096

/* ---- time ---- */

/* It stands still from tries_begin() to this. */
void tries_release_time(void);
/* Meanwhile, a millisecond further: for the library; for the devices as well. */
void tries_tick(void);
void tries_pass(void);
/* What there is to do now is done, by workers as well; the same a millisecond later. */
void tries_do_all(struct rdma_pair *p);
void tries_step(struct rdma_pair *p);

/* ---- ends ---- */

/* A pair on these devices, of six, whose tries last 12 ms, and where nobody asks whether an idle
 * peer is there; both ends have made their offers. */
void tries_begin(struct rdma_pair *p, const char *devices);
/* Time goes on, the pair is closed, and nothing of it is left on the devices. */
void tries_end(struct rdma_pair *p);
void tries_connect(struct rdma_end *from, const struct rdma_end *to);
struct rdma_transport *tries_transport_of(const struct rdma_end *e);
bool tries_has_links(const struct rdma_end *e);
/* The first of them, which is there. */
const struct rdma_conn *tries_conn_of(const struct rdma_end *e);
/* Until it is in that state, in the time that it is. */
void tries_await(struct rdma_pair *p, const struct rdma_end *e, enum rdma_conn_state state);
/* And begins to bring rails up, which lasts until its workers are not busy any more. */
void tries_begin_to_bring_up(struct rdma_pair *p);

/* ---- devices ---- */

uint32_t tries_only_qp(unsigned device);
/* The next post there is refused; whether it was. One device at a time. */
void tries_refuse_post(struct ibv_context *device);
bool tries_has_refused(const struct ibv_context *device);

#endif
