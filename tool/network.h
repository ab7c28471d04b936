/* SPDX-License-Identifier: Apache-2.0 */
/* What `slime doctor` asks of others: Redis, nanoctrl, a peer. */
#ifndef TOOL_NETWORK_H
#define TOOL_NETWORK_H

#include "tool/finding.h"
#include "tool/options.h"

void network_examine(const struct options *o, struct report *report);

#endif
