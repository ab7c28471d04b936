/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/measure/echo.h"

#include <string.h>

static void echo(void *arg, struct slime_rpc_request *req)
{
	(void)arg;
	slime_rpc_reply(req, slime_rpc_request_data(req), slime_rpc_request_len(req));
}

static void copy(void *arg, struct slime_rpc_request *req)
{
	size_t len = slime_rpc_request_len(req);
	void *reply = slime_rpc_reply_buffer(req, len);

	(void)arg;
	if (!reply) {
		slime_rpc_reply_error(req, 1, "no room for the reply");
		return;
	}
	memcpy(reply, slime_rpc_request_data(req), len);
	slime_rpc_reply_commit(req, len);
}

static int add(struct slime_rpc_service *service, const char *name, slime_rpc_fn *fn)
{
	struct slime_rpc_method_attr attr = SLIME_RPC_METHOD_ATTR_INIT;

	attr.fn = fn;
	attr.flags = SLIME_RPC_INLINE | SLIME_RPC_IN_PLACE;
	return slime_rpc_method_add(service, name, &attr);
}

int echo_service_create(struct slime_context *ctx, struct slime_rpc_service **out)
{
	struct slime_rpc_service *service;
	int ret = slime_rpc_service_create(ctx, &service);

	if (ret)
		return ret;
	ret = add(service, "echo", echo);
	if (!ret)
		ret = add(service, "copy", copy);
	if (ret)
		slime_rpc_service_destroy(service);
	else
		*out = service;
	return ret;
}
