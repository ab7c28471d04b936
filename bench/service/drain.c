/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/service/drain.h"

/* Receives posted at one time. */
#define DEPTH 64

struct bench_drain {
	struct slime_agent *agent;
	struct slime_endpoint *ep;
	char peer[SLIME_AGENT_NAME_MAX + 1];
	char profile[SLIME_AGENT_NAME_MAX + 1];
	struct slime_op *ops[DEPTH];
	_Atomic uint64_t count;
};

static void on_imm(void *arg, struct slime_op *op)
{
	struct bench_drain *d = arg;

	if (slime_op_status(op))
		return;
	atomic_fetch_add(&d->count, 1);
	/* An error is the connection's end: this op is done with. */
	if (slime_imm_recv(d->ep, op))
		return;
}

static int post_all(struct bench_drain *d)
{
	struct slime_op_attr attr = { .fn = on_imm, .arg = d };
	int ret = 0;

	for (int i = 0; i < DEPTH && !ret; i++) {
		ret = slime_op_create(slime_agent_context(d->agent), &attr, &d->ops[i]);
		if (!ret)
			ret = slime_imm_recv(d->ep, d->ops[i]);
	}
	return ret;
}

int bench_drain_create(struct slime_agent *agent, const char *peer, const char *profile,
		       struct bench_drain **out)
{
	struct bench_drain *d = calloc(1, sizeof(*d));
	int ret;

	if (!d)
		return -ENOMEM;
	d->agent = agent;
	snprintf(d->peer, sizeof(d->peer), "%s", peer);
	snprintf(d->profile, sizeof(d->profile), "%s", profile);
	ret = slime_agent_endpoint_get(agent, peer, profile, 1000, &d->ep);
	if (ret) {
		free(d);
		return ret;
	}
	ret = post_all(d);
	if (ret) {
		bench_drain_destroy(d);
		return ret;
	}
	*out = d;
	return 0;
}

bool bench_drain_is_of(const struct bench_drain *d, const char *peer, const char *profile)
{
	return !strcmp(d->peer, peer) && !strcmp(d->profile, profile);
}

uint64_t bench_drain_count(const struct bench_drain *d)
{
	return atomic_load(&d->count);
}

bool bench_drain_has_ended(const struct bench_drain *d)
{
	for (int i = 0; i < DEPTH; i++) {
		if (!slime_op_test(d->ops[i]))
			return false;
	}
	return true;
}

void bench_drain_destroy(struct bench_drain *d)
{
	if (!d)
		return;
	slime_endpoint_close(d->ep);
	for (int i = 0; i < DEPTH; i++) {
		if (d->ops[i] && slime_op_wait(d->ops[i], -1) == 0)
			slime_op_destroy(d->ops[i]);
	}
	slime_agent_endpoint_put(d->agent, d->ep);
	free(d);
}
