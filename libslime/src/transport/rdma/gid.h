/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which address of a port a queue pair uses. Everything here is a function of tables: nothing asks
 * a device.
 */
#ifndef SL_RDMA_GID_H
#define SL_RDMA_GID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <slime/topo.h>

#define SL_GID_AUTO	 (-1)
#define SL_GID_WHY_MAX	 192
#define SL_GID_INDEX_MAX UINT8_MAX /* that a queue pair can name */

struct sl_gid_choice {
	struct slime_gid gid;
	char why[SL_GID_WHY_MAX]; /* of the choice, or of the error: a part of a log line */
};

/*
 * Choose from the n entries of a port's table. wanted is an index of that table, which is checked
 * and then taken whatever its type is, or SL_GID_AUTO: on Ethernet the lowest index of the best
 * kind there is, which is RoCE v2 of an IPv4 address, then of a global IPv6 address, then of a
 * link-local one, and never RoCE v1, which no router passes; on InfiniBand index 0.
 *
 *   -EADDRNOTAVAIL  the table has no such entry
 *   -EOPNOTSUPP     the link layer is neither of the two
 *
 * out->why is set in each case.
 */
int sl_gid_choose(const struct slime_gid *gids, size_t n, enum slime_link_layer layer, int wanted,
		  struct sl_gid_choice *out);

/*
 * Whether packets from one port to the other carry a global route header: always on Ethernet; on
 * InfiniBand only between subnets, and LIDs do within one.
 */
bool sl_gid_is_global(enum slime_link_layer layer, const uint8_t local[16],
		      const uint8_t remote[16]);

#endif
