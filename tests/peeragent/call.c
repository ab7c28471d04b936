/* SPDX-License-Identifier: Apache-2.0 */
/* call URL SCOPE PEER METHOD TEXT: an agent that calls a method of a peer once, and prints the
 * reply. */
#include <stdio.h>
#include <string.h>

#include <slime/agent.h>

#define TIMEOUT_MS 20000

static int call(struct slime_agent *agent, struct slime_endpoint *ep, const char *method,
		const char *text)
{
	char reply[256] = "";
	struct slime_call_args args = {
		.method = slime_rpc_method_id(method),
		.request = text,
		.request_len = strlen(text),
		.reply = reply,
		.reply_cap = sizeof(reply) - 1,
		.timeout_ms = TIMEOUT_MS,
	};
	struct slime_call *c;
	int ret = slime_call_create(slime_agent_context(agent), NULL, &c);

	if (ret)
		return ret;
	ret = slime_call_start(ep, &args, c);
	if (!ret)
		ret = slime_call_wait(c, TIMEOUT_MS);
	if (!ret)
		ret = slime_call_status(c);
	if (!ret)
		printf("%.*s\n", (int)slime_call_reply_len(c), reply);
	slime_call_destroy(c);
	return ret;
}

int main(int argc, char **argv)
{
	struct slime_agent_attr attr = SLIME_AGENT_ATTR_INIT;
	struct slime_agent_link link = { .profile = "call" };
	struct slime_endpoint *ep = NULL;
	struct slime_agent *agent;
	int ret;

	if (argc != 6)
		return 2;
	attr.name = "caller";
	attr.urls = (const char *const *)&argv[1];
	attr.n_urls = 1;
	attr.scope = argv[2];
	link.to = argv[3];
	ret = slime_agent_create(&attr, &agent);
	if (!ret)
		ret = slime_agent_start(agent);
	if (!ret)
		ret = slime_agent_link_add(agent, &link);
	if (!ret)
		ret = slime_agent_endpoint_get(agent, argv[3], "call", TIMEOUT_MS, &ep);
	if (!ret)
		ret = call(agent, ep, argv[4], argv[5]);
	if (ret)
		fprintf(stderr, "%s\n", strerror(-ret));
	if (ep)
		slime_agent_endpoint_put(agent, ep);
	slime_agent_destroy(agent);
	return ret ? 1 : 0;
}
