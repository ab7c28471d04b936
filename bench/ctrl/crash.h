/* SPDX-License-Identifier: Apache-2.0 */
/* Agents that die without a word, and how soon the others hear of it. */
#ifndef CTRL_CRASH_H
#define CTRL_CRASH_H

#include "bench/ctrl/crowd.h"
#include "bench/ctrl/ctrl.h"

/* With sessions: n_killed of them, and each that lives hears of each: a latency counts from the
 * death. 0; -1 when the crowd is over. */
int crash_run(struct crowd *c, size_t n_killed, struct ctrl_row *out);

#endif
