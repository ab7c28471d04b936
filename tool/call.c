/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "tool/guest.h"

#define PROFILE	    "slime-call"
#define MESSAGE_MAX (UINT64_C(64) << 20)

static int fail(const char *what, const char *why)
{
	fprintf(stderr, "slime: call: %s: %s\n", what, why);
	return EXIT_FAILURE;
}

/* ---- the request ---- */

struct bytes {
	char *at;
	size_t len;
};

static int read_input(struct bytes *out)
{
	size_t cap = 0;
	ssize_t n;

	do {
		if (out->len == cap) {
			char *grown;

			if (cap >= MESSAGE_MAX)
				return -EMSGSIZE;
			cap = cap ? cap * 2 : 65536;
			grown = realloc(out->at, cap);
			if (!grown)
				return -ENOMEM;
			out->at = grown;
		}
		n = read(STDIN_FILENO, out->at + out->len, cap - out->len);
		out->len += n > 0 ? (size_t)n : 0;
	} while (n > 0 || (n < 0 && errno == EINTR));
	return n < 0 ? -errno : 0;
}

/* ---- the call ---- */

static int say_result(struct slime_call *c, const char *method)
{
	const char *message = "";
	char text[SLIME_RPC_MESSAGE_MAX + 64];
	uint32_t code;
	int status = slime_call_status(c);

	if (status == -EREMOTEIO) {
		code = slime_call_error(c, &message);
		snprintf(text, sizeof(text), "error %u of its handler%s%.256s", code,
			 message[0] ? ": " : "", message);
		sl_utf8_make_printable(text);
		return fail(method, text);
	}
	if (status == -ENOSYS)
		return fail(method, "the agent has no such method");
	if (status)
		return fail(method, strerror(-status));
	fwrite(slime_call_reply_data(c), 1, slime_call_reply_len(c), stdout);
	if (isatty(STDOUT_FILENO))
		putchar('\n');
	return EXIT_SUCCESS;
}

static int call(struct slime_agent *agent, struct slime_endpoint *ep, const struct options *o,
		const char *method, const struct bytes *request)
{
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	struct slime_call *c;
	int ret = slime_call_create(slime_agent_context(agent), NULL, &c);
	int status;

	if (ret)
		return fail(method, strerror(-ret));
	args.method = slime_rpc_method_id(method);
	args.request = request->at;
	args.request_len = request->len;
	args.reply_cap = MESSAGE_MAX;
	args.timeout_ms = o->timeout_ms;
	ret = slime_call_start(ep, &args, c);
	if (!ret)
		ret = slime_call_wait(c, -1);
	status = ret ? fail(method, strerror(-ret)) : say_result(c, method);
	/* One that a stopped peer still has ends with its link. */
	if (ret == -ETIMEDOUT) {
		slime_endpoint_close(ep);
		(void)!slime_call_wait(c, -1);
	}
	slime_call_destroy(c);
	return status;
}

int call_run(const struct options *o, const char *peer, const char *method, const char *data)
{
	struct bytes request = { NULL, 0 };
	struct slime_endpoint *ep = NULL;
	struct slime_agent *agent;
	char why[GUEST_WHY_MAX];
	int status = EXIT_FAILURE;
	int ret = 0;

	if (data && !strcmp(data, "-")) {
		ret = read_input(&request);
	} else if (data) {
		request.at = strdup(data);
		request.len = request.at ? strlen(data) : 0;
		ret = request.at ? 0 : -ENOMEM;
	}
	if (ret) {
		free(request.at);
		return fail("the request",
			    ret == -EMSGSIZE ? "expected at most 64 MiB" : strerror(-ret));
	}
	if (guest_open(o, &agent, why)) {
		free(request.at);
		return fail(peer, why);
	}
	if (guest_link(agent, o, peer, PROFILE, (enum slime_transport)o->transport, &ep, why))
		status = fail(peer, why);
	else
		status = call(agent, ep, o, method, &request);
	if (ep)
		slime_agent_endpoint_put(agent, ep);
	slime_agent_destroy(agent);
	free(request.at);
	return status;
}
