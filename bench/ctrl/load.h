/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same call by all agents, for a time. Closed loop: each begins one when its last one ended.
 * Open loop: so many a second, each by an agent that has none under way; a latency counts from when
 * its call was meant to begin.
 */
#ifndef CTRL_LOAD_H
#define CTRL_LOAD_H

#include "bench/ctrl/crowd.h"
#include "bench/ctrl/ctrl.h"

/* op is CTRL_REGISTER, CTRL_HEARTBEAT or CTRL_LOOKUP; without sessions. 0; -1 when
 * the crowd is over. */
int load_run(struct crowd *c, enum ctrl_op op, const struct ctrl_settings *settings,
	     struct ctrl_row *out);

#endif
