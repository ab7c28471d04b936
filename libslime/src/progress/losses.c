/* SPDX-License-Identifier: Apache-2.0 */
#include "src/progress/losses.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "src/progress/context.h"

/* A context of fewer endpoints logs each at once. */
#define MANY 16
/* A loss belongs to those before it when it comes so soon; the line comes in this time. */
#define SOON_NS	  (100 * SL_NS_PER_MS)
#define LATEST_NS (500 * SL_NS_PER_MS)

static void log_one(const char *name, const char *why)
{
	sl_warn("endpoint", "%s: connection lost: %s", name, why);
}

static void log_all(struct sl_losses *l)
{
	if (l->n == 1)
		log_one(l->name, l->why);
	else if (l->n)
		sl_warn("endpoint", "%u connections lost; the first: %s: %s", l->n, l->name,
			l->why);
	l->n = 0;
}

static void on_time(struct sl_timer *t)
{
	log_all(SL_CONTAINER_OF(t, struct sl_losses, timer));
}

void sl_losses_init(struct sl_losses *l)
{
	sl_timer_init(&l->timer, on_time);
	l->n = 0;
}

void sl_losses_fini(struct slime_context *ctx)
{
	sl_timer_cancel(&ctx->poller, &ctx->losses.timer);
	log_all(&ctx->losses);
}

static bool are_many(struct slime_context *ctx)
{
	bool many;

	pthread_mutex_lock(&ctx->lock);
	many = ctx->n_endpoints >= MANY;
	pthread_mutex_unlock(&ctx->lock);
	return many;
}

void sl_losses_note(struct slime_context *ctx, const char *name, const char *why)
{
	struct sl_losses *l = &ctx->losses;
	uint64_t now = sl_clock_ns();

	if (!l->n && !are_many(ctx)) {
		log_one(name, why);
		return;
	}
	if (!l->n++) {
		snprintf(l->name, sizeof(l->name), "%s", name);
		snprintf(l->why, sizeof(l->why), "%s", why);
		l->latest_ns = now + LATEST_NS;
	}
	sl_timer_set(&ctx->poller, &l->timer,
		     now + SOON_NS < l->latest_ns ? now + SOON_NS : l->latest_ns);
}
