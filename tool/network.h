/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of `slime doctor` over the network: Redis, nanoctrl, a peer. */
#ifndef TOOL_NETWORK_H
#define TOOL_NETWORK_H

#include "tool/finding.h"
#include "tool/options.h"

void network_examine(const struct options *o, struct report *report);

#endif
