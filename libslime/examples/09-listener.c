/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lesson 9: one descriptor for any number of peers.
 *
 * Bob listens, and tells the listener's descriptor once. Every holder of it may dial: Alice makes
 * two links with it, one after the other, and reads Bob's memory over both. Bob has an endpoint for
 * each of them. All holders of the descriptor are equal: give it only to peers that may have the
 * same rights.
 */
#include "lesson.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LINKS 2

static const char text[] = "what bob has to say";

struct links {
	struct slime_endpoint *eps[LINKS];
	unsigned n;
};

/* On the listener's thread: the endpoint is connected, and ours from now on. */
static void on_endpoint(void *arg, struct slime_listener *listener, struct slime_endpoint *ep)
{
	struct links *links = arg;

	(void)listener;
	links->eps[links->n++] = ep;
}

static void bob(int channel)
{
	struct slime_listener_attr attr = SLIME_LISTENER_ATTR_INIT;
	unsigned char desc[SLIME_LISTENER_DESC_MAX];
	struct slime_listener *listener;
	struct slime_context *ctx;
	struct links links = { .n = 0 };
	struct slime_mem *mem;
	struct slime_mr *mr;
	char done[8];

	TRY(slime_context_create(NULL, &ctx));
	TRY(slime_mem_alloc(ctx, sizeof(text), NULL, &mem));
	memcpy(slime_mem_addr(mem), text, sizeof(text));
	TRY(slime_mr_create(ctx, slime_mem_addr(mem), sizeof(text), SLIME_ACCESS_REMOTE_READ, &mr));

	/* Peers of this host reach the unix socket, which is there by default, and others this. */
	attr.tcp_bind = "127.0.0.1";
	attr.max_endpoints = LINKS;
	attr.on_endpoint = on_endpoint;
	attr.arg = &links;
	TRY(slime_listener_create(ctx, &attr, &listener));
	tell(channel, desc, (size_t)TRY(slime_listener_export(listener, desc, sizeof(desc))));
	tell_region(channel, mr);
	hear(channel, done, sizeof(done));

	/* No more endpoints come after this; those that we have are not touched. */
	TRY(slime_listener_destroy(listener));
	printf("bob has had %u links\n", links.n);
	for (unsigned i = 0; i < links.n; i++)
		TRY(slime_endpoint_destroy(links.eps[i]));
	TRY(slime_mr_destroy(mr));
	TRY(slime_mem_destroy(mem));
	TRY(slime_context_destroy(ctx));
}

static void alice(int channel)
{
	unsigned char desc[SLIME_LISTENER_DESC_MAX];
	size_t len = hear(channel, desc, sizeof(desc));
	struct slime_remote_mr remote = hear_region(channel);
	struct slime_context *ctx;
	struct slime_mr *mr;
	struct slime_op *op;
	char copy[sizeof(text)];

	TRY(slime_context_create(NULL, &ctx));
	TRY(slime_op_create(ctx, NULL, &op));
	TRY(slime_mr_create(ctx, copy, sizeof(copy), 0, &mr));
	for (int i = 0; i < LINKS; i++) {
		struct slime_xfer piece = { .local = mr, .remote = &remote, .len = sizeof(copy) };
		struct slime_endpoint *ep;

		TRY(slime_endpoint_create(ctx, NULL, &ep));
		TRY(slime_endpoint_dial(ep, desc, len, 5000, op));
		TRY(slime_op_wait(op, -1));
		TRY(slime_op_status(op));

		memset(copy, 0, sizeof(copy));
		TRY(slime_read(ep, &piece, 1, 0, op));
		TRY(slime_op_wait(op, -1));
		TRY(slime_op_status(op));
		if (memcmp(copy, text, sizeof(text)) != 0)
			TRY(-EBADMSG);
		printf("alice, over link %d: %s\n", i, copy);
		TRY(slime_endpoint_destroy(ep));
	}
	tell(channel, "done", 4);
	TRY(slime_mr_destroy(mr));
	TRY(slime_op_destroy(op));
	TRY(slime_context_destroy(ctx));
}

int main(void)
{
	return lesson(alice, bob);
}
