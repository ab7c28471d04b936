/* SPDX-License-Identifier: Apache-2.0 */
/* Method "echo" answers with the bytes of the request, "echo.max_message" with how many that may
 * be, as a little-endian number of 8 bytes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/wire.h"
#include "cli/options/quantity.h"
#include "peeragent/src/service.h"

/* A longer one would keep the progress thread from its links for too long: a caller that wants it
 * has to say so. */
#define DEFAULT_MAX (UINT64_C(256) << 20)

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

static const char *parse_option(const struct slime_plugin_option *option, uint64_t *max_message)
{
	int64_t bytes;

	if (strcmp(option->key, "max_message"))
		return "max_message";
	if (cli_size_parse(option->value, &bytes) || bytes < 0)
		return "a size such as 256MiB";
	*max_message = (uint64_t)bytes;
	return NULL;
}

static const char *check(const struct slime_plugin_option *options, size_t n_options, size_t *index)
{
	const char *expected = NULL;
	uint64_t max_message;

	for (size_t i = 0; i < n_options && !expected; i++) {
		expected = parse_option(&options[i], &max_message);
		*index = i;
	}
	return expected;
}

/* The most that a caller may send: checked before memory of that size is allocated. */
static void tell_max(void *arg, struct slime_rpc_request *req)
{
	uint8_t reply[8];

	sl_put_le64(reply, *(const uint64_t *)arg);
	slime_rpc_reply(req, reply, sizeof(reply));
}

static int add_methods(struct slime_agent *agent, uint64_t *max_message)
{
	struct slime_rpc_method_attr attr = SLIME_RPC_METHOD_ATTR_INIT;
	int ret;

	attr.fn = echo;
	attr.flags = SLIME_RPC_INLINE | SLIME_RPC_IN_PLACE;
	attr.max_message = *max_message;
	ret = slime_agent_method_add(agent, "echo", &attr);
	if (ret)
		return ret;
	attr = (struct slime_rpc_method_attr){ .fn = tell_max,
					       .arg = max_message,
					       .flags = SLIME_RPC_INLINE };
	return slime_agent_method_add(agent, "echo.max_message", &attr);
}

static int init(struct slime_agent *agent, const struct slime_plugin_option *options,
		size_t n_options, void **state)
{
	uint64_t *max_message = malloc(sizeof(*max_message));
	int ret;

	if (!max_message)
		return -ENOMEM;
	*max_message = DEFAULT_MAX;
	for (size_t i = 0; i < n_options; i++)
		(void)parse_option(&options[i], max_message); /* checked by now */
	ret = add_methods(agent, max_message);
	if (ret) {
		free(max_message);
		return ret;
	}
	*state = max_message;
	return 0;
}

static void fini(void *state)
{
	free(state);
}

const struct slime_plugin echo_service = { SLIME_PLUGIN_HEAD, .name = "echo", .init = init,
					   .fini = fini, .check = check };
