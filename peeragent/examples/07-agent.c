/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lesson 7: a named agent in your own process.
 *
 * Alice registers with nanoctrl, wants a link to bob, writes into his region "board", reads it back
 * and calls the method "shout" of his plugin. Bob is a peeragent with the plugin of lesson 8:
 *
 *	cc -o 07-agent 07-agent.c $(pkg-config --cflags --libs slime-agent)
 *	nanoctrl start
 *	peeragent --config 08-plugin.yaml &
 *	./07-agent http://127.0.0.1:3000
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <slime/agent.h>

#define TIMEOUT_MS 20000

/* End this process with a line that names the call unless it returned 0 or more. */
#define TRY(call) must(#call, call)

static int must(const char *call, int ret)
{
	if (ret >= 0)
		return ret;
	fprintf(stderr, "%s: %s\n", call, strerror(-ret));
	exit(1);
}

static void wait_for(struct slime_op *op)
{
	TRY(slime_op_wait(op, -1));
	TRY(slime_op_status(op));
}

static void write_and_read(struct slime_agent *agent, struct slime_endpoint *ep)
{
	static const char text[] = "alice was here";
	struct slime_context *ctx = slime_agent_context(agent);
	struct slime_remote_mr board;
	struct slime_xfer piece;
	struct slime_mem *mem;
	struct slime_mr *mr;
	struct slime_op *op;

	TRY(slime_agent_region_remote(agent, "bob", "board", TIMEOUT_MS, &board));
	TRY(slime_mem_alloc(ctx, 4096, NULL, &mem));
	TRY(slime_mr_create(ctx, slime_mem_addr(mem), 4096, 0, &mr));
	TRY(slime_op_create(ctx, NULL, &op));

	memcpy(slime_mem_addr(mem), text, sizeof(text));
	piece = (struct slime_xfer){ .local = mr, .remote = &board, .len = sizeof(text) };
	TRY(slime_write(ep, &piece, 1, 0, op));
	wait_for(op);
	memset(slime_mem_addr(mem), 0, sizeof(text));
	TRY(slime_read(ep, &piece, 1, 0, op));
	wait_for(op);
	printf("alice: on the board stands \"%s\"\n", (const char *)slime_mem_addr(mem));

	TRY(slime_op_destroy(op));
	TRY(slime_mr_destroy(mr));
	TRY(slime_mem_destroy(mem));
}

static void call_shout(struct slime_agent *agent, struct slime_endpoint *ep)
{
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	struct slime_call *call;
	char reply[64];

	args.method = slime_rpc_method_id("shout");
	args.request = "hello";
	args.request_len = strlen("hello");
	args.reply = reply;
	args.reply_cap = sizeof(reply);
	TRY(slime_call_create(slime_agent_context(agent), NULL, &call));
	TRY(slime_call_start(ep, &args, call));
	TRY(slime_call_wait(call, -1));
	TRY(slime_call_status(call));
	printf("alice: bob shouts %.*s\n", (int)slime_call_reply_len(call), reply);
	TRY(slime_call_destroy(call));
}

int main(int argc, char **argv)
{
	struct slime_agent_attr attr = SLIME_AGENT_ATTR_INIT;
	struct slime_agent_link link = { .to = "bob" };
	struct slime_endpoint *ep;
	struct slime_agent *agent;

	if (argc != 2) {
		fprintf(stderr, "usage: %s http://HOST:PORT, where nanoctrl is\n", argv[0]);
		return 2;
	}
	attr.name = "alice";
	attr.scope = "lessons";
	attr.urls = (const char *const *)&argv[1];
	attr.n_urls = 1;
	TRY(slime_agent_create(&attr, &agent));
	TRY(slime_agent_start(agent));
	TRY(slime_agent_link_add(agent, &link));

	/* The link comes up by itself, and again after it broke: what we have of it is an endpoint.
	 */
	TRY(slime_agent_endpoint_get(agent, "bob", NULL, TIMEOUT_MS, &ep));
	write_and_read(agent, ep);
	call_shout(agent, ep);
	slime_agent_endpoint_put(agent, ep);

	TRY(slime_agent_destroy(agent));
	return 0;
}
