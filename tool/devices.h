/* SPDX-License-Identifier: Apache-2.0 */
/* The RDMA devices of this host, and whether they can be used. */
#ifndef TOOL_DEVICES_H
#define TOOL_DEVICES_H

#include <stdbool.h>
#include <stdio.h>

#include <slime/topo.h>

/*
 * Print them. sysfs NULL is this host's. Returns the status to end with: success when at least one
 * port can be used.
 */
int devices_print(const char *sysfs, bool json, FILE *to);

/* How many ports can be used. */
size_t devices_n_usable(const struct slime_topo_devices *d);

/* All of them, as in devices_print_json(); NULL without memory. */
struct json_t *devices_json(const struct slime_topo_devices *d);

/* 0, -ENOMEM, -EIO. */
int devices_print_json(const struct slime_topo_devices *d, FILE *to);

#endif
