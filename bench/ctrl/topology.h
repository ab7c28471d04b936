/* SPDX-License-Identifier: Apache-2.0 */
/* A topology that wants a full mesh, and how soon each agent has its list of wanted links. */
#ifndef CTRL_TOPOLOGY_H
#define CTRL_TOPOLOGY_H

#include "bench/ctrl/crowd.h"
#include "bench/ctrl/ctrl.h"

/* With sessions: the first agent applies it, and each hears, and reads its list; a latency counts
 * from the apply. The topology is deleted by mesh_topology_drop(). 0; -1 when the crowd is over. */
int mesh_topology_run(struct crowd *c, struct ctrl_row *out);
int mesh_topology_drop(struct crowd *c);

#endif
