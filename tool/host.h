/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of `slime doctor` on this host: devices and their ports, memory, limits. */
#ifndef TOOL_HOST_H
#define TOOL_HOST_H

#include "tool/finding.h"

/* Below other roots these serve tests: NULL is this host's /sys and /proc. */
struct host_roots {
	const char *sys;
	const char *proc;
};

/* 0, -ENOMEM. What cannot be read is a finding. */
int host_examine(const struct host_roots *roots, struct report *report);

#endif
