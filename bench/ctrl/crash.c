/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/ctrl/crash.h"

/* Beyond the leases of the dead. */
#define LIMIT_EXTRA_MS 30000

struct crash {
	struct crowd *crowd;
	size_t n_alive, n_missing;
	bool *heard; /* killed * n_alive + alive */
	struct ctrl_row *out;
	uint64_t begin_ns;
};

/* Of one of the dead, who are the last of the crowd; it counts once. */
static void hear(struct crash *k, const struct agent *to, const char *name)
{
	const struct agent *dead = crowd_find(k->crowd, name);
	bool *heard;

	if (!dead || dead->index < k->n_alive)
		return;
	heard = &k->heard[(dead->index - k->n_alive) * k->n_alive + to->index];
	if (*heard)
		return;
	*heard = true;
	load_histogram_add(&k->out->latency, sl_clock_ns() - k->begin_ns);
	k->out->n++;
	if (--k->n_missing == 0)
		crowd_finish(k->crowd);
}

static void on_event(void *arg, struct agent *to, const struct nc_event *event)
{
	if (event->type == NC_EVENT_EXPIRED)
		hear(arg, to, event->agent);
}

static void on_reset(void *arg, struct agent *to)
{
	struct crash *k = arg;

	crowd_fail(k->crowd, "%s lost events: how soon it heard is not known", to->name);
}

int crash_run(struct crowd *c, size_t n_killed, struct ctrl_row *out)
{
	struct crash k = { .crowd = c, .n_alive = c->n - n_killed, .out = out };
	const struct crowd_step step = { .event = on_event, .reset = on_reset, .arg = &k };
	int ret;

	k.n_missing = n_killed * k.n_alive;
	k.heard = calloc(k.n_missing, sizeof(*k.heard));
	if (!k.heard) {
		crowd_fail(c, "crash: %s", strerror(ENOMEM));
		return -1;
	}
	out->what = "crash";
	load_histogram_init(&out->latency);
	k.begin_ns = sl_clock_ns();
	for (size_t i = k.n_alive; i < c->n; i++)
		crowd_kill(&c->agents[i]);
	ret = crowd_run(c, &step, out->what, (int64_t)c->ttl_ms + c->grace_ms + LIMIT_EXTRA_MS);
	out->elapsed_ns = sl_clock_ns() - k.begin_ns;
	free(k.heard);
	return ret;
}
