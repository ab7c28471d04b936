/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the list of links that topologies want of this agent. */
#ifndef AGENT_CTRL_WANTED_H
#define AGENT_CTRL_WANTED_H

struct ctrl;

/* Read and report the links that topologies want of this agent. */
void ctrl_read_wanted(struct ctrl *ctrl);
/* The call that reads them was cancelled. */
void ctrl_drop_wanted(struct ctrl *ctrl);

#endif
