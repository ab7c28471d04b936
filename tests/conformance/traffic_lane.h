/* SPDX-License-Identifier: Apache-2.0 */
/* What a lane does, and where: each has a part of our memory, and the same part of the peer's
 * inbox. */
#ifndef CONFORMANCE_TRAFFIC_LANE_H
#define CONFORMANCE_TRAFFIC_LANE_H

#include "fixture.h"

#define LANES 6
#define LANE  ((uint64_t)128 * KiB)
#define AREA  (LANES * LANE)

/* The memory: what peers read; what they write to, by lane; our lanes' own, two parts each; the
 * last message. */
#define INBOX_AT   AREA
#define OWN_AT	   (2 * AREA)
#define MESSAGE_AT (4 * AREA)
#define MEMORY_LEN (4 * AREA + LANE)

#define SOURCE_SEED    4711
#define UNTOUCHED_SEED 815
#define MESSAGE_TAG    (UINT64_C(1) << 63)
#define LANE_ERROR     42
#define DEFERRED_MAX   256

/* At the beginning of what says itself which bytes it is. */
struct letter {
	uint64_t len; /* with this */
	uint64_t seed;
};

struct lane {
	struct traffic *t;
	unsigned id;
	uint64_t seed;
	pthread_t thread;
	struct slime_op *op;
	struct slime_op *ack;
	struct slime_call *call;
	bool called_back;	    /* op is not waited for: it calls back */
	_Atomic unsigned n_ends;    /* callbacks */
	_Atomic unsigned n_submits; /* of op */
};

struct traffic {
	struct slime_context *ctx;
	struct slime_rpc_service *service;
	struct slime_endpoint *ep;
	struct slime_mem *mem;
	struct slime_mr *mr;
	struct slime_remote_mr remote;
	uint8_t *bytes;
	struct proxy *proxy;
	struct lane lanes[LANES];
	pthread_t immediates, messages, answers;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct slime_rpc_request *deferred[DEFERRED_MAX];
	unsigned n_deferred;
	bool served; /* no request comes any more */
	_Atomic bool stop;
	_Atomic uint64_t n_good;
};

static inline uint64_t inbox_at(unsigned id)
{
	return INBOX_AT + id * LANE;
}

void lane_create(struct lane *l, struct traffic *t, unsigned id, uint64_t seed);
/* One job after another until it is told to stop, or the link is over. */
void *lane_run(void *lane);
void lane_destroy(struct lane *l);

/* What a submission came to in the end, which comes in time: its own result, or the op's status. */
int ended(int submitted, struct slime_op *op, const char *what);

/* A status that everything may get, whatever else is right. */
bool link_is_over(int status);

#endif
