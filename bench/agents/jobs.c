/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "bench/rpc/baseline.h"
#include "bench/agents/jobs.h"

static void common_job(const struct between_settings *b, struct bench_job *job)
{
	snprintf(job->peer, sizeof(job->peer), "%s", b->peer);
	job->transport = (enum slime_transport)b->transport;
}

void jobs_rpc(const struct settings *s, uint64_t size, struct bench_job *job)
{
	*job = (struct bench_job){ .kind = BENCH_RPC };
	common_job(&s->between, job);
	job->rpc = (struct load_rpc){
		.size = size,
		.threads = (uint32_t)s->between.threads,
		.inflight = (uint32_t)s->rpc.inflight,
		.warmup = BASELINE_WARMUP,
		.iterations = s->rpc.duration_ms ? (uint64_t)s->rpc.iterations
						 : baseline_iterations(&s->rpc, size),
		.duration_ms = (uint32_t)s->rpc.duration_ms,
	};
}

void jobs_transfer(const struct settings *s, struct bench_job *job)
{
	const struct transfer_settings *t = &s->transfer;

	*job = (struct bench_job){ .kind = BENCH_TRANSFER };
	common_job(&s->between, job);
	if (t->region)
		snprintf(job->region, sizeof(job->region), "%s", t->region);
	job->transfer = (struct load_transfer){
		.op = (enum load_op)t->op,
		.block_size = t->block_size,
		.batch_size = (uint32_t)t->batch_size,
		.threads = (uint32_t)s->between.threads,
		.duration_ms = (uint32_t)t->duration_ms,
		.warmup_ms = 200,
		.qps = (uint32_t)t->qps,
	};
}
