/* SPDX-License-Identifier: Apache-2.0 */
/* An agent for the time of one command. */
#ifndef TOOL_GUEST_H
#define TOOL_GUEST_H

#include <slime/agent.h>

#include "tool/options.h"

#define GUEST_WHY_MAX 512

/* Join the scope. 0, or an errno with the reason for people in why. */
int guest_open(const struct options *o, struct slime_agent **out, char why[GUEST_WHY_MAX]);

/* The endpoint of a link to peer over these transports (as of struct slime_agent_link). */
int guest_link(struct slime_agent *agent, const struct options *o, const char *peer,
	       const char *profile, enum slime_transport transport, struct slime_endpoint **out,
	       char why[GUEST_WHY_MAX]);

#endif
