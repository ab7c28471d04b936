/* SPDX-License-Identifier: Apache-2.0 */
/* An agent to measure with: the bench service that peeragent loads, in this program. */
#include <inttypes.h>

#include "bench/agents/client.h"
#include "bench/transfer/transfer.h"
#include <slime/plugin.h>

static int prepare(struct client *c)
{
	char size[32];
	const struct slime_plugin_option options[] = { { "size", size } };
	int ret;

	snprintf(size, sizeof(size), "%" PRIu64, c->settings->transfer.size);
	ret = slime_plugin.init(c->agent, options, 1, &c->state);
	return ret ? ret : slime_agent_service_add(c->agent, slime_plugin.name);
}

static int offer(struct client *c)
{
	return slime_plugin.start(c->state);
}

static void withdraw(struct client *c)
{
	slime_plugin.stop(c->state);
}

/* The service itself says when its memory cannot be freed yet. */
static int fini(struct client *c)
{
	slime_plugin.fini(c->state);
	return 0;
}

int transfer_target(const struct settings *settings)
{
	static const struct client_role role = {
		.workers = 2, .prepare = prepare, .offer = offer, .withdraw = withdraw, .fini = fini
	};

	return client_serve(settings, &role, "is a target of transfers");
}
