/* SPDX-License-Identifier: Apache-2.0 */
/* What the settings ask for, as jobs. */
#ifndef BENCH_JOBS_H
#define BENCH_JOBS_H

#include "bench/service/job.h"
#include "bench/settings.h"

/* One size of a sweep. */
void jobs_rpc(const struct settings *s, uint64_t size, struct bench_job *job);

void jobs_transfer(const struct settings *s, struct bench_job *job);

#endif
