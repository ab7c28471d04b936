/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/ctrl/baseline.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/agents/agent_name.h"
#include "cli/output/progress.h"
#include "cli/process/signals.h"

#define ENTITIES 100 /* what a list has, where there are not more connections */
#define WARM_MS	 100

static const int stopping[] = { SIGINT, SIGTERM };

static void count(void *arg, uint64_t ns)
{
	(void)ns;
	++*(uint64_t *)arg;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

/* A round at one of them: how many calls a second. */
static int one_round(struct routes *r, uint64_t ns, double *per_s)
{
	uint64_t begin = sl_clock_ns();
	uint64_t n = 0;
	int ret = routes_run(r, begin + ns, count, &n);

	*per_s = (double)n * 1e9 / (double)(sl_clock_ns() - begin);
	return ret;
}

struct comparison {
	struct routes pair[2]; /* ours, theirs */
	char name[AGENT_NAME_ROOM];
	char scopes[2][AGENT_NAME_ROOM + 32];
	double per_s[2][CTRL_BASELINE_ROUNDS];
	double ratio[CTRL_BASELINE_ROUNDS];
	int signals; /* descriptor */
	int caught;
};

static bool goes_on(struct comparison *b)
{
	int sig = cli_signals_read(b->signals);

	if (sig > 0)
		b->caught = sig;
	return !b->caught;
}

/* In turn. An error leaves why in the one that failed. */
static int all_rounds(struct comparison *b, uint64_t ns)
{
	double warm;
	int ret = 0;

	for (size_t side = 0; side < 2 && !ret; side++)
		ret = one_round(&b->pair[side], WARM_MS * SL_NS_PER_MS, &warm);
	for (size_t i = 0; i < CTRL_BASELINE_ROUNDS && !ret && goes_on(b); i++) {
		for (size_t side = 0; side < 2 && !ret; side++)
			ret = one_round(&b->pair[side], ns, &b->per_s[side][i]);
		if (!ret)
			b->ratio[i] = b->per_s[0][i] / b->per_s[1][i];
	}
	return ret;
}

static void sum_up(struct comparison *b, struct ctrl_baseline_row *out)
{
	qsort(b->per_s[0], CTRL_BASELINE_ROUNDS, sizeof(double), by_value);
	qsort(b->per_s[1], CTRL_BASELINE_ROUNDS, sizeof(double), by_value);
	qsort(b->ratio, CTRL_BASELINE_ROUNDS, sizeof(double), by_value);
	out->ours_per_s = b->per_s[0][CTRL_BASELINE_ROUNDS / 2];
	out->theirs_per_s = b->per_s[1][CTRL_BASELINE_ROUNDS / 2];
	out->low = b->ratio[CTRL_BASELINE_ROUNDS / 4];
	out->ratio = b->ratio[CTRL_BASELINE_ROUNDS / 2];
	out->high = b->ratio[CTRL_BASELINE_ROUNDS - 1 - CTRL_BASELINE_ROUNDS / 4];
}

/* Each in a scope of its own, also on one Redis. An error leaves both for routes_fini(). */
static int open_both(struct comparison *b, const struct settings *s, enum route route)
{
	const char *urls[] = { s->control.urls[0], s->ctrl.baseline };
	struct routes_attr attr = {
		.route = route,
		.n_callers = (size_t)s->ctrl.agents,
		.n_entities = ENTITIES,
		.stop_fd = b->signals,
	};
	int ret = 0;

	b->pair[0] = b->pair[1] = ROUTES_NONE;
	for (size_t side = 0; side < 2 && !ret; side++) {
		snprintf(b->scopes[side], sizeof(b->scopes[side]), "%s-%s-%zu", b->name,
			 route_names[route], side);
		attr.url = urls[side];
		attr.scope = b->scopes[side];
		ret = routes_init(&b->pair[side], &attr);
	}
	return ret;
}

static int measure_route(struct comparison *b, const struct settings *s,
			 struct ctrl_baseline_row *out)
{
	uint64_t ns = (uint64_t)s->ctrl.duration_ms * SL_NS_PER_MS / (2 * CTRL_BASELINE_ROUNDS);
	int ret = open_both(b, s, out->route);

	if (!ret)
		ret = all_rounds(b, ns);
	for (size_t side = 0; side < 2; side++) {
		if (ret && b->pair[side].why[0])
			fprintf(stderr, "slime-bench: %s\n", b->pair[side].why);
		routes_fini(&b->pair[side]);
	}
	if (!ret && !b->caught)
		sum_up(b, out);
	return ret;
}

int ctrl_baseline_measure(struct ctrl_baseline *out)
{
	static struct comparison b;
	struct cli_progress progress;
	int ret = 0;

	b.signals = cli_signals_open(stopping, sizeof(stopping) / sizeof(stopping[0]));
	if (b.signals < 0) {
		fprintf(stderr, "slime-bench: signals: %s\n", strerror(-b.signals));
		return EXIT_FAILURE;
	}
	agent_name_make(b.name);
	cli_progress_init(&progress, stderr);
	for (int i = 0; i < ROUTES_BESIDE && !ret && goes_on(&b); i++) {
		cli_progress_say(&progress, "%s ...", route_names[i]);
		out->rows[i].route = (enum route)i;
		ret = measure_route(&b, out->settings, &out->rows[i]);
		cli_progress_clear(&progress);
	}
	cli_signals_close(b.signals);
	if (b.caught)
		fprintf(stderr, "slime-bench: interrupted\n");
	return b.caught ? 128 + b.caught : ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
