/* SPDX-License-Identifier: Apache-2.0 */
/* A job that abandon() refused is asked for again when devices release something. */
#include "src/transport/rdma/job.h"
#include "src/transport/rdma/tidy.h"
#include "src/transport/rdma/transport.h"

static void work_tidy(struct rdma_job *job)
{
	const struct sl_transport_env *env = job->t->base.env;

	env->tidy(env->arg);
}

static void done_tidy(struct rdma_job *job)
{
	struct rdma_transport *t = job->t;

	t->is_tidying = false;
	if (t->is_untidy)
		rdma_tidy(t);
}

void rdma_tidy(struct rdma_transport *t)
{
	t->is_untidy = t->is_tidying;
	if (t->is_tidying)
		return;
	t->is_tidying = true;
	rdma_registration_start(t, &t->tidy, work_tidy, done_tidy);
}
