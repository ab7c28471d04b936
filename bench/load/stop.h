/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a load should end early, because nobody wants its result any more. */
#ifndef LOAD_STOP_H
#define LOAD_STOP_H

#include <stdbool.h>
#include <stddef.h>

/* asked is called by every thread of the load, between its calls and trips, and while it waits. */
struct load_stop {
	bool (*asked)(void *arg);
	void *arg;
};

/* stop NULL: never. */
static inline bool load_stop_asked(const struct load_stop *stop)
{
	return stop && stop->asked(stop->arg);
}

#endif
