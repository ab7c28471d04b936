/* SPDX-License-Identifier: Apache-2.0 */
/* Agents that only live: a session each, in which they beat. What that costs is to be seen at
 * nanoctrl. */
#ifndef CTRL_SESSIONS_H
#define CTRL_SESSIONS_H

#include "bench/ctrl/crowd.h"
#include "bench/ctrl/ctrl.h"

/* With sessions: for so long, and none breaks. 0; -1 when the crowd is over. */
int sessions_run(struct crowd *c, int64_t duration_ms, struct ctrl_row *out);

#endif
