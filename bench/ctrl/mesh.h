/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rendezvous in a full mesh: of every two agents the first posts an offer for the second, which
 * hears of it by an event, fetches it and posts its own; the first hears, fetches, and the two
 * could connect.
 */
#ifndef CTRL_MESH_H
#define CTRL_MESH_H

#include "bench/ctrl/crowd.h"
#include "bench/ctrl/ctrl.h"

/*
 * With sessions. rendezvous: of each pair, from the first post's start; inflight of them
 * are under way, 0: a few for each agent. event: of each post, from its start until the other one
 * heard. epoch: greater than that of each mesh of this crowd before. 0; -1 when the crowd is over.
 */
int mesh_run(struct crowd *c, size_t inflight, uint64_t epoch, struct ctrl_row *rendezvous,
	     struct ctrl_row *event);

#endif
