/* SPDX-License-Identifier: Apache-2.0 */
#include <event2/event.h>

#include "base/clock.h"
#include "bench/ctrl/sessions.h"

#define LIMIT_EXTRA_MS 10000

static void on_down(void *arg, struct agent *of, const char *cause)
{
	crowd_fail(arg, "the session of %s broke: %s", of->name, cause);
}

static void on_end(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	crowd_finish(arg);
}

int sessions_run(struct crowd *c, int64_t duration_ms, struct ctrl_row *out)
{
	const struct crowd_step step = { .down = on_down, .arg = c };
	struct timeval tv = { .tv_sec = duration_ms / 1000, .tv_usec = duration_ms % 1000 * 1000 };
	uint64_t begin_ns = sl_clock_ns();
	struct event *timer = evtimer_new(c->base, on_end, c);
	int ret;

	out->what = "hold";
	load_histogram_init(&out->latency);
	if (!timer || evtimer_add(timer, &tv)) {
		crowd_fail(c, "hold: no memory");
		ret = -1;
	} else {
		ret = crowd_run(c, &step, out->what, duration_ms + LIMIT_EXTRA_MS);
	}
	if (timer)
		event_free(timer);
	out->n = c->n;
	out->elapsed_ns = sl_clock_ns() - begin_ns;
	return ret;
}
