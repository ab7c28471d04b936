/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load of calls: threads that each keep some echo calls of one size in flight and check that
 * every byte came back. Closed loop: a latency is from a call's start until its caller saw its end.
 */
#ifndef LOAD_RPC_H
#define LOAD_RPC_H

#include <stdint.h>

#include "bench/load/histogram.h"
#include "bench/load/control.h"
#include <slime/slime.h>

#define LOAD_INFLIGHT_MAX 4096
#define LOAD_CALL_MAX	  (UINT64_C(1) << 30) /* bytes of a request */
#define LOAD_CALLS_MAX	  UINT64_C(1000000000)

struct load_rpc {
	uint64_t method;
	uint64_t size; /* of request and reply */
	uint32_t threads;
	uint32_t inflight;    /* per thread */
	uint32_t warmup;      /* calls of each thread that are not measured */
	uint64_t iterations;  /* measured calls of each thread; 0: until duration_ms is over */
	uint32_t duration_ms; /* 0: until iterations are done */
};

struct load_rpc_result {
	uint64_t calls;
	uint64_t all_calls;  /* with those of the warm-up */
	uint64_t elapsed_ns; /* of the slowest thread, with the checks between calls */
	uint64_t cpu_ns;     /* of this process, all threads, for all calls */
	struct load_histogram latency;
};

/* Bytes of all requests and replies; of a load whose values are in range. */
uint64_t load_rpc_memory(const struct load_rpc *load);

/*
 * Run it over ep.
 *   -EINVAL  a value out of its range
 *   -E2BIG   it needs more memory than load_memory_budget()
 *   -EILSEQ  a reply was wrong: a log line says where
 *   -ECANCELED  control asked to stop; where calls did not end by themselves ep is closed
 *   -ETIMEDOUT  a call did not end in time: its peer stands still, and ep is closed
 *   -ENOMEM, -EAGAIN (no thread), what a call ended with
 */
int load_rpc_run(struct slime_context *ctx, struct slime_endpoint *ep, const struct load_rpc *load,
		 const struct load_control *control, struct load_rpc_result *out);

#endif
