/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lesson 2: write into another process's memory, many pieces at once.
 *
 * Alice has a matrix and writes one of its columns into a row that Bob offers. She does it twice:
 * as a batch, one piece a number, and as a single piece that is a run of strided blocks.
 */
#include "lesson.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>

#define ROWS	1000
#define COLUMNS 8
#define COLUMN	3

static uint32_t number(size_t row, size_t column)
{
	return (uint32_t)(row * 100 + column);
}

static void check_row(const uint32_t *row)
{
	for (size_t i = 0; i < ROWS; i++) {
		if (row[i] != number(i, COLUMN))
			TRY(-EBADMSG);
	}
}

static void bob(int channel)
{
	struct slime_context *ctx;
	struct slime_endpoint *ep;
	struct slime_mem *mem;
	struct slime_mr *mr;
	struct slime_op *op;
	uint32_t *rows;
	char word[8];

	TRY(slime_context_create(NULL, &ctx));
	TRY(slime_op_create(ctx, NULL, &op));
	TRY(slime_mem_alloc(ctx, 2 * ROWS * sizeof(*rows), NULL, &mem));
	rows = slime_mem_addr(mem);

	/* This region may be written, and not read. */
	TRY(slime_mr_create(ctx, rows, 2 * ROWS * sizeof(*rows), SLIME_ACCESS_REMOTE_WRITE, &mr));
	TRY(slime_endpoint_create(ctx, NULL, &ep));
	connect_over(channel, ep, op);
	tell_region(channel, mr);

	/* A write tells its target nothing. Alice says over the channel that she is done; lesson 3
	 * shows how the link itself says so. */
	hear(channel, word, sizeof(word));
	check_row(rows);
	check_row(rows + ROWS);
	printf("bob has the column twice\n");

	TRY(slime_endpoint_destroy(ep));
	TRY(slime_mr_destroy(mr));
	TRY(slime_mem_destroy(mem));
	TRY(slime_op_destroy(op));
	TRY(slime_context_destroy(ctx));
}

static uint32_t matrix[ROWS][COLUMNS];

static void write_batch(struct slime_endpoint *ep, struct slime_mr *mr,
			const struct slime_remote_mr *remote, struct slime_op *op)
{
	struct slime_xfer pieces[ROWS];

	for (size_t i = 0; i < ROWS; i++) {
		pieces[i] = (struct slime_xfer){
			.local = mr,
			.remote = remote,
			.local_offset = (i * COLUMNS + COLUMN) * sizeof(uint32_t),
			.remote_offset = i * sizeof(uint32_t),
			.len = sizeof(uint32_t),
		};
	}
	/* One call, one op, however many pieces. The array is the library's until the op is
	 * complete: here that is before we return. */
	TRY(slime_write(ep, pieces, ROWS, 0, op));
	TRY(slime_op_wait(op, -1));
	TRY(slime_op_status(op));
}

static void write_run(struct slime_endpoint *ep, struct slime_mr *mr,
		      const struct slime_remote_mr *remote, struct slime_op *op)
{
	/* The i-th block lies i strides behind the first, on each side with its own stride. */
	struct slime_xfer run = {
		.local = mr,
		.remote = remote,
		.local_offset = COLUMN * sizeof(uint32_t),
		.remote_offset = ROWS * sizeof(uint32_t),
		.len = sizeof(uint32_t),
		.local_stride = COLUMNS * sizeof(uint32_t),
		.remote_stride = sizeof(uint32_t),
		.count = ROWS,
	};

	TRY(slime_write(ep, &run, 1, 0, op));
	TRY(slime_op_wait(op, -1));
	TRY(slime_op_status(op));
}

static void alice(int channel)
{
	struct slime_remote_mr remote;
	struct slime_context *ctx;
	struct slime_endpoint *ep;
	struct slime_mr *mr;
	struct slime_op *op;

	for (size_t row = 0; row < ROWS; row++) {
		for (size_t column = 0; column < COLUMNS; column++)
			matrix[row][column] = number(row, column);
	}
	TRY(slime_context_create(NULL, &ctx));
	TRY(slime_op_create(ctx, NULL, &op));
	TRY(slime_mr_create(ctx, matrix, sizeof(matrix), 0, &mr));
	TRY(slime_endpoint_create(ctx, NULL, &ep));
	connect_over(channel, ep, op);
	remote = hear_region(channel);

	write_batch(ep, mr, &remote, op);
	write_run(ep, mr, &remote, op);
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
