/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lesson 4: messages with tags.
 *
 * Alice sends without knowing Bob's memory: a message goes where Bob wants it. Tags keep kinds of
 * messages apart: under one tag come the names of things, under another the things. Short messages
 * travel at once; long ones Bob's library fetches when he receives them, from Alice's memory, which
 * therefore must be readable for him.
 */
#include "lesson.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum tag {
	TAG_NAME = 1,
	TAG_THING,
};

#define NAME_MAX_LEN 64
#define THING_LEN    300000

static const char name[] = "a thing of 300000 bytes";

static void receive(struct slime_endpoint *ep, struct slime_mr *mr, uint64_t offset, uint64_t room,
		    enum tag tag, struct slime_op *op)
{
	TRY(slime_recv(ep, mr, offset, room, tag, SLIME_TAG_ALL, op));
	TRY(slime_op_wait(op, -1));
	TRY(slime_op_status(op));
}

static void bob(int channel)
{
	static char memory[NAME_MAX_LEN + THING_LEN];
	struct slime_context *ctx;
	struct slime_endpoint *ep;
	struct slime_mr *mr;
	struct slime_op *op;

	TRY(slime_context_create(NULL, &ctx));
	TRY(slime_op_create(ctx, NULL, &op));
	/* Receives go to memory that no peer can reach. */
	TRY(slime_mr_create(ctx, memory, sizeof(memory), 0, &mr));
	TRY(slime_endpoint_create(ctx, NULL, &ep));
	connect_over(channel, ep, op);

	/* Alice sends the thing first. It waits: this receive is for names. */
	receive(ep, mr, 0, NAME_MAX_LEN, TAG_NAME, op);
	printf("bob will get %s\n", memory);
	receive(ep, mr, NAME_MAX_LEN, THING_LEN, TAG_THING, op);
	if (slime_op_bytes(op) != THING_LEN || memory[NAME_MAX_LEN + THING_LEN - 1] != 'x')
		TRY(-EBADMSG);
	printf("bob has it: %zu bytes\n", (size_t)slime_op_bytes(op));

	/* Too long is an error at both ends. Nothing is cut. */
	TRY(slime_recv(ep, mr, 0, 4, TAG_NAME, SLIME_TAG_ALL, op));
	TRY(slime_op_wait(op, -1));
	if (slime_op_status(op) != -EMSGSIZE)
		TRY(-EBADMSG);

	/* Alice closes when she has seen the same. */
	hear(channel, memory, sizeof(memory));
	TRY(slime_endpoint_destroy(ep));
	TRY(slime_mr_destroy(mr));
	TRY(slime_op_destroy(op));
	TRY(slime_context_destroy(ctx));
}

static void alice(int channel)
{
	struct slime_op *thing_sent, *name_sent;
	struct slime_context *ctx;
	struct slime_endpoint *ep;
	struct slime_mem *mem;
	struct slime_mr *mr;
	char *memory;

	TRY(slime_context_create(NULL, &ctx));
	TRY(slime_op_create(ctx, NULL, &thing_sent));
	TRY(slime_op_create(ctx, NULL, &name_sent));
	TRY(slime_mem_alloc(ctx, NAME_MAX_LEN + THING_LEN, NULL, &mem));
	memory = slime_mem_addr(mem);
	TRY(slime_mr_create(ctx, memory, NAME_MAX_LEN + THING_LEN, SLIME_ACCESS_REMOTE_READ, &mr));
	TRY(slime_endpoint_create(ctx, NULL, &ep));
	connect_over(channel, ep, name_sent);

	memcpy(memory, name, sizeof(name));
	memset(memory + NAME_MAX_LEN, 'x', THING_LEN);
	/* Two sends under way at once, each with its op. Both are complete when Bob has received.
	 */
	TRY(slime_send(ep, mr, NAME_MAX_LEN, THING_LEN, TAG_THING, thing_sent));
	TRY(slime_send(ep, mr, 0, sizeof(name), TAG_NAME, name_sent));
	TRY(slime_op_wait(thing_sent, -1));
	TRY(slime_op_status(thing_sent));
	TRY(slime_op_wait(name_sent, -1));
	TRY(slime_op_status(name_sent));

	TRY(slime_send(ep, mr, 0, sizeof(name), TAG_NAME, name_sent));
	TRY(slime_op_wait(name_sent, -1));
	if (slime_op_status(name_sent) != -EMSGSIZE)
		TRY(-EBADMSG);
	printf("alice knows that her last message was too long\n");

	tell(channel, "done", 4);
	TRY(slime_endpoint_destroy(ep));
	TRY(slime_mr_destroy(mr));
	TRY(slime_mem_destroy(mem));
	TRY(slime_op_destroy(thing_sent));
	TRY(slime_op_destroy(name_sent));
	TRY(slime_context_destroy(ctx));
}

int main(void)
{
	return lesson(alice, bob);
}
