/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links that topologies want, beside the reports of agents: each end of a link that a topology
 * wants is marked so, and an end that no agent reports gets a row of its own, which is "wanted"
 * while its agent and peer are registered, and "absent" while one of them is not.
 */
#ifndef NANOCTRL_LINKS_WANTED_H
#define NANOCTRL_LINKS_WANTED_H

#include "commands/links_list.h"

/* As links_list_read(), and with what topologies want where a server is asked and no selector is
 * set. topology and of of the list are about the one topology that is waited for. */
void links_wanted_read(struct links_list *l);

#endif
