/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about an agent, which its other files ask for. */
#include "peeragent/lib/agent/agent.h"

#include <errno.h>

struct slime_context *slime_agent_context(const struct slime_agent *agent)
{
	return agent->ctx;
}

const char *slime_agent_name(const struct slime_agent *agent)
{
	return agent->settings.attr.name;
}

const char *slime_agent_scope(const struct slime_agent *agent)
{
	return agent->settings.attr.scope;
}

int agent_started(const struct slime_agent *agent)
{
	if (agent->started)
		return 0;
	return agent->left ? -ESHUTDOWN : -ENOTCONN;
}
