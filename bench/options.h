/* SPDX-License-Identifier: Apache-2.0 */
/* What slime-bench can be told. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/report.h"
#include "cli/option.h"

struct options {
	/* Of both commands. */
	const char *const *ctrl;
	size_t n_ctrl;
	const char *scope;
	const char *token_file;
	const char *from;
	const char *peer;
	int transport; /* enum slime_transport */
	int polling;   /* enum slime_polling */
	bool json;
	bool csv;
	int64_t threads;
	int64_t duration_ms;

	/* rpc */
	const uint64_t *sizes;
	size_t n_sizes;
	int64_t iterations;
	int64_t inflight;

	/* transfer */
	int op; /* enum load_op */
	const char *region;
	bool overwrite;
	uint64_t block_size;
	int64_t batch_size;
	int64_t qps;
};

extern const struct cli_program bench_program;

#endif
