/* SPDX-License-Identifier: Apache-2.0 */
/* Foreign bytes as a job and as a result: what is taken is what would be written. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench/service/job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t bytes[BENCH_JOB_MAX];
	struct bench_result result;
	struct bench_job job;

	if (!bench_job_read(&job, data, size) &&
	    (bench_job_write(&job, bytes, sizeof(bytes)) != (int)size ||
	     memcmp(bytes, data, size) != 0))
		abort();
	/* A truth is any byte but 0: only the length comes back exactly. */
	if (!bench_result_read(&result, data, size) &&
	    bench_result_write(&result, bytes, sizeof(bytes)) != (int)size)
		abort();
	return 0;
}
