/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of a control plane's routes. */
#include <stdio.h>

#include "bench/measure/measure.h"
#include "bench/routes/routes.h"

struct control {
	struct routes routes;
	struct pair alone; /* there is no server of ours */
};

static void count(void *arg, uint64_t ns)
{
	rounds_add(arg, ns, 0);
}

static int round_of_calls(void *arg, struct rounds *r)
{
	struct control *c = arg;

	return routes_run(&c->routes, r->end_ns, count, r);
}

int measure_control(const struct options *o, const struct rounds_attr *attr)
{
	const struct routes_attr of = {
		.url = o->url,
		.scope = "slime-measure",
		.route = (enum route)o->route,
		.n_callers = (size_t)o->connections,
		.n_entities = (size_t)o->entities,
	};
	struct control c = { .alone = { 0 } };
	struct rounds_side side = { .round = round_of_calls, .arg = &c, .pair = &c.alone };
	int ret = routes_init(&c.routes, &of);

	if (!ret)
		ret = rounds_run(attr, &side);
	if (ret && c.routes.why[0]) {
		fprintf(stderr, "slime-measure: %s\n", c.routes.why);
		ret = 1;
	}
	routes_fini(&c.routes);
	return ret;
}
