/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lesson 3: write, and let the other side know.
 *
 * Alice produces blocks and writes each into one of Bob's buffers with an immediate: a number that
 * Bob receives once, after all bytes of that write are there. The immediate says which buffer is
 * full; when Bob has used it he says the same way that it is free.
 */
#include "lesson.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>

#define BUFFERS 2
#define BLOCK	65536
#define BLOCKS	10

static void fill(uint8_t *block, unsigned n)
{
	for (size_t i = 0; i < BLOCK; i++)
		block[i] = (uint8_t)(i + n);
}

static void check(const uint8_t *block, unsigned n)
{
	for (size_t i = 0; i < BLOCK; i++) {
		if (block[i] != (uint8_t)(i + n))
			TRY(-EBADMSG);
	}
}

static void bob(int channel)
{
	struct slime_op *received, *freed;
	struct slime_context *ctx;
	struct slime_endpoint *ep;
	struct slime_mem *mem;
	struct slime_mr *mr;
	uint8_t *buffers;
	char word[8];

	TRY(slime_context_create(NULL, &ctx));
	TRY(slime_op_create(ctx, NULL, &received));
	TRY(slime_op_create(ctx, NULL, &freed));
	TRY(slime_mem_alloc(ctx, BUFFERS * BLOCK, NULL, &mem));
	buffers = slime_mem_addr(mem);
	TRY(slime_mr_create(ctx, buffers, BUFFERS * BLOCK, SLIME_ACCESS_REMOTE_WRITE, &mr));
	TRY(slime_endpoint_create(ctx, NULL, &ep));
	connect_over(channel, ep, received);
	tell_region(channel, mr);

	for (unsigned n = 0; n < BLOCKS; n++) {
		uint32_t buffer;

		/* An immediate that came before this call was kept for it. */
		TRY(slime_imm_recv(ep, received));
		TRY(slime_op_wait(received, -1));
		TRY(slime_op_status(received));
		buffer = slime_op_imm(received);
		check(buffers + buffer * BLOCK, n);
		printf("bob took block %u out of buffer %u\n", n, buffer);

		/* Without pieces only the immediate travels. */
		TRY(slime_write_imm(ep, NULL, 0, 0, buffer, freed));
		TRY(slime_op_wait(freed, -1));
		TRY(slime_op_status(freed));
	}
	/* What is on its way when a link is closed is lost: Alice says when she has heard it all.
	 */
	hear(channel, word, sizeof(word));

	TRY(slime_endpoint_destroy(ep));
	TRY(slime_mr_destroy(mr));
	TRY(slime_mem_destroy(mem));
	TRY(slime_op_destroy(received));
	TRY(slime_op_destroy(freed));
	TRY(slime_context_destroy(ctx));
}

static void wait_until_free(struct slime_endpoint *ep, struct slime_op *op)
{
	TRY(slime_imm_recv(ep, op));
	TRY(slime_op_wait(op, -1));
	TRY(slime_op_status(op));
}

static void alice(int channel)
{
	static uint8_t block[BLOCK];
	struct slime_remote_mr remote;
	struct slime_context *ctx;
	struct slime_endpoint *ep;
	struct slime_mr *mr;
	struct slime_op *op;

	TRY(slime_context_create(NULL, &ctx));
	TRY(slime_op_create(ctx, NULL, &op));
	TRY(slime_mr_create(ctx, block, sizeof(block), 0, &mr));
	TRY(slime_endpoint_create(ctx, NULL, &ep));
	connect_over(channel, ep, op);
	remote = hear_region(channel);

	for (unsigned n = 0; n < BLOCKS; n++) {
		uint32_t buffer = n % BUFFERS;
		struct slime_xfer piece = {
			.local = mr,
			.remote = &remote,
			.remote_offset = buffer * BLOCK,
			.len = BLOCK,
		};

		/* The first blocks find their buffer free. */
		if (n >= BUFFERS)
			wait_until_free(ep, op);
		fill(block, n);
		TRY(slime_write_imm(ep, &piece, 1, 0, buffer, op));
		/* The op is complete when our block may change again. */
		TRY(slime_op_wait(op, -1));
		TRY(slime_op_status(op));
	}
	for (unsigned n = 0; n < BUFFERS; n++)
		wait_until_free(ep, op);
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
