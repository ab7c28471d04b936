/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load of one-sided transfers: threads that each move batches of blocks between memory of their
 * own and a peer's region, walking over the whole of it, and check every byte of the last batches
 * afterwards.
 */
#ifndef LOAD_TRANSFER_H
#define LOAD_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/load/histogram.h"
#include "bench/load/control.h"
#include <slime/slime.h>

enum load_op {
	LOAD_READ,
	LOAD_WRITE,
	LOAD_WRITE_IMM,
	LOAD_OPS,
};

extern const char *const load_op_names[LOAD_OPS];

#define LOAD_THREADS_MAX     64
#define LOAD_BATCH_MAX	     65536
#define LOAD_DURATION_MAX_MS 3600000

struct load_transfer {
	enum load_op op;
	uint64_t block_size; /* bytes, a multiple of 8 */
	uint32_t batch_size; /* blocks to a trip */
	uint32_t threads;
	uint32_t duration_ms;
	uint32_t warmup_ms;
	uint32_t qps;  /* trips a second of all threads together, 0: as fast as it goes */
	bool verify;   /* check the bytes; what another region holds is not known */
	uint64_t seed; /* of what a write writes, and a read expects in the region */
};

struct load_transfer_result {
	uint64_t trips;
	uint64_t all_trips; /* with those of the warm-up and the check, which also reads */
	uint64_t bytes;
	uint64_t elapsed_ns;
	uint64_t cpu_ns; /* of this process, all threads, for the measured trips */
	uint64_t late;	 /* qps: trips that began over one interval too late */
	struct load_histogram latency;
};

/* Bytes of the trips of all threads; of a load whose values are in range. */
uint64_t load_transfer_memory(const struct load_transfer *load);

/*
 * Run it over ep against remote.
 *   -EINVAL  a value out of its range, or a trip of every thread does not fit the region
 *   -E2BIG   it needs more memory than load_memory_budget()
 *   -EILSEQ  bytes were wrong: a log line says which
 *   -ECANCELED  control asked to stop; where trips did not end by themselves ep is closed
 *   -ETIMEDOUT  a trip took half a minute: ep is closed, which ended it
 *   -ENOMEM, -EAGAIN (no thread), what a transfer ended with
 */
int load_transfer_run(struct slime_context *ctx, struct slime_endpoint *ep,
		      const struct slime_remote_mr *remote, const struct load_transfer *load,
		      const struct load_control *control, struct load_transfer_result *out);

/* CPU time this process used so far. */
uint64_t load_cpu_ns(void);

#endif
