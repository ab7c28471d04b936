/* SPDX-License-Identifier: Apache-2.0 */
/* Methods that answer with the bytes of the request. */
#ifndef TESTS_SUPPORT_ECHO_H
#define TESTS_SUPPORT_ECHO_H

#include <string.h>

#include <slime/slime.h>

static inline void test_echo(void *arg, struct slime_rpc_request *req)
{
	(void)arg;
	slime_rpc_reply(req, slime_rpc_request_data(req), slime_rpc_request_len(req));
}

/* Of flag SLIME_RPC_IN_PLACE. A hostile caller may have both in one place. */
static inline void test_echo_in_place(void *arg, struct slime_rpc_request *req)
{
	size_t len = slime_rpc_request_len(req);
	void *to = slime_rpc_reply_buffer(req, len);

	(void)arg;
	if (!to) {
		slime_rpc_reply_error(req, 1, "no room");
		return;
	}
	if (len)
		memmove(to, slime_rpc_request_data(req), len);
	slime_rpc_reply_commit(req, len);
}

#endif
