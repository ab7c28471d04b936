/* SPDX-License-Identifier: Apache-2.0 */
/* Method "echo": answers with the bytes of the request. */
#include <string.h>

#include "peeragent/src/service.h"

/* A longer one would keep the progress thread from its links for too long. */
#define ECHO_MAX (UINT64_C(256) << 20)

static void echo(void *arg, struct slime_rpc_request *req)
{
	size_t len = slime_rpc_request_len(req);
	void *reply = slime_rpc_reply_buffer(req, len);

	(void)arg;
	if (!reply) {
		slime_rpc_reply_error(req, 1, "the reply does not fit");
		return;
	}
	memcpy(reply, slime_rpc_request_data(req), len);
	slime_rpc_reply_commit(req, len);
}

static const char *check(const struct slime_plugin_option *options, size_t n_options, size_t *index)
{
	(void)options;
	*index = 0;
	return n_options ? "no options" : NULL;
}

static int init(struct slime_agent *agent, const struct slime_plugin_option *options,
		size_t n_options, void **state)
{
	struct slime_rpc_method_attr attr = SLIME_RPC_METHOD_ATTR_INIT;

	(void)options;
	(void)n_options;
	*state = NULL;
	attr.fn = echo;
	attr.flags = SLIME_RPC_INLINE | SLIME_RPC_IN_PLACE;
	attr.max_message = ECHO_MAX;
	return slime_agent_method_add(agent, "echo", &attr);
}

const struct slime_plugin echo_service = { SLIME_PLUGIN_HEAD, .name = "echo", .init = init,
					   .check = check };
