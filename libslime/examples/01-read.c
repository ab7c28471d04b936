/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lesson 1: read another process's memory.
 *
 * Bob has a text. Alice reads it without Bob doing anything: that is what one-sided means. This
 * lesson spells out every step; the next ones use lesson.h for those that repeat.
 */
#include "lesson.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char text[] = "memory moved without the help of the one who has it";

static void bob(int channel)
{
	unsigned char desc[SLIME_ENDPOINT_DESC_MAX];
	struct slime_context *ctx;
	struct slime_endpoint *ep;
	struct slime_mem *mem;
	struct slime_mr *mr;
	struct slime_op *op;
	size_t len;

	/* A context is the root of everything; it has a thread that serves peers while we do not.
	 */
	TRY(slime_context_create(NULL, &ctx));

	/* Memory that peers on this host can map. With a tcp link it may be any memory. */
	TRY(slime_mem_alloc(ctx, 4096, NULL, &mem));
	memcpy(slime_mem_addr(mem), text, sizeof(text));

	/* A region is memory that peers may reach, within its bounds and with this access. */
	TRY(slime_mr_create(ctx, slime_mem_addr(mem), slime_mem_len(mem), SLIME_ACCESS_REMOTE_READ,
			    &mr));

	/* Our end of the link. Each end gives the other its descriptor, then both connect. */
	TRY(slime_endpoint_create(ctx, NULL, &ep));
	len = (size_t)TRY(slime_endpoint_export(ep, desc, sizeof(desc)));
	tell(channel, desc, len);
	len = hear(channel, desc, sizeof(desc));

	/* Work that takes time has an op, its future: start it, wait for it, read its result. */
	TRY(slime_op_create(ctx, NULL, &op));
	TRY(slime_endpoint_connect(ep, desc, len, 5000, op));
	TRY(slime_op_wait(op, -1));
	TRY(slime_op_status(op));

	/* The region has a descriptor, too. A peer that has it and a link to us can read. */
	len = (size_t)TRY(slime_mr_export(mr, desc, sizeof(desc)));
	tell(channel, desc, len);

	/* Here Bob would do something else. He stays until Alice says that she is done. */
	hear(channel, desc, sizeof(desc));

	/* Children before parents. */
	TRY(slime_endpoint_destroy(ep));
	TRY(slime_mr_destroy(mr));
	TRY(slime_mem_destroy(mem));
	TRY(slime_op_destroy(op));
	TRY(slime_context_destroy(ctx));
}

static void alice(int channel)
{
	unsigned char desc[SLIME_ENDPOINT_DESC_MAX];
	struct slime_remote_mr remote;
	struct slime_context *ctx;
	struct slime_endpoint *ep;
	struct slime_xfer piece;
	struct slime_mr *mr;
	struct slime_op *op;
	char mine[sizeof(text)];
	size_t len;

	TRY(slime_context_create(NULL, &ctx));
	TRY(slime_op_create(ctx, NULL, &op));

	/* Where the bytes go is a region, too. No peer reaches it, so any memory will do. */
	TRY(slime_mr_create(ctx, mine, sizeof(mine), 0, &mr));

	TRY(slime_endpoint_create(ctx, NULL, &ep));
	len = (size_t)TRY(slime_endpoint_export(ep, desc, sizeof(desc)));
	tell(channel, desc, len);
	len = hear(channel, desc, sizeof(desc));
	TRY(slime_endpoint_connect(ep, desc, len, 5000, op));
	TRY(slime_op_wait(op, -1));
	TRY(slime_op_status(op));

	/* A descriptor becomes a plain value that owns nothing. */
	len = hear(channel, desc, sizeof(desc));
	TRY(slime_remote_mr_import(desc, len, &remote));

	/* Read: one piece, from offset 0 there to offset 0 here. A call takes any number of them.
	 */
	piece = (struct slime_xfer){ .local = mr, .remote = &remote, .len = sizeof(mine) };
	TRY(slime_read(ep, &piece, 1, 0, op));
	TRY(slime_op_wait(op, -1));
	TRY(slime_op_status(op));
	printf("alice read: %s\n", mine);
	if (strcmp(mine, text))
		TRY(-EBADMSG);

	/* A wrong offset is an error before anything moves. */
	piece.remote_offset = remote.len;
	if (slime_read(ep, &piece, 1, 0, op) != -ERANGE)
		TRY(-EBADMSG);

	tell(channel, "done", 4);
	TRY(slime_endpoint_destroy(ep));
	TRY(slime_mr_destroy(mr));
	TRY(slime_op_destroy(op));
	TRY(slime_context_destroy(ctx));
}

int main(void)
{
	return lesson(alice, bob);
}
