/* SPDX-License-Identifier: Apache-2.0 */
/* slime call: one call of a method. */
#ifndef TOOL_CALL_H
#define TOOL_CALL_H

#include "tool/options.h"

/* The status to end with. */
int call_run(const struct options *o, const char *agent, const char *method, const char *data);

#endif
