/* SPDX-License-Identifier: Apache-2.0 */
/* What steers a load from outside: when it measures, and whether it ends early. */
#ifndef LOAD_CONTROL_H
#define LOAD_CONTROL_H

#include <stdbool.h>
#include <stddef.h>

struct load_control {
	/* Whether the load is to stop; NULL: it is not. Called by every thread of
	 * the load, between its calls and trips, and while it waits. */
	bool (*stop)(void *arg);
	/* Called once, by the thread that runs the load, after the warm-up of transfers and before
	 * they are measured: it returns when they may begin, 0, or the errno that ends the load.
	 * NULL: at once. */
	int (*begin)(void *arg);
	void *arg;
};

/* control NULL: never. */
static inline bool load_stop_asked(const struct load_control *control)
{
	return control && control->stop && control->stop(control->arg);
}

static inline int load_begin(const struct load_control *control)
{
	return control && control->begin ? control->begin(control->arg) : 0;
}

#endif
