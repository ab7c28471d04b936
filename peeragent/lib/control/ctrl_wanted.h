/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the list of links that topologies want of this agent. */
#ifndef AGENT_CTRL_WANTED_H
#define AGENT_CTRL_WANTED_H

struct ctrl;

/* Read and report the links that topologies want of this agent. */
void ctrl_read_wanted(struct ctrl *ctrl);
/* The call that reads them was cancelled. The pages that were read stay, and the next one is read
 * later. */
void ctrl_drop_wanted(struct ctrl *ctrl);
/* Those pages are not needed any more. */
void ctrl_forget_wanted(struct ctrl *ctrl);

#endif
