/* SPDX-License-Identifier: Apache-2.0 */
/* Over which stream an op goes: a connection that only has a queue and two streams. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <string.h>

#include "src/core/region.h"
#include "src/transport/tcp/tcp.h"

#define FIRST  1u
#define SECOND 2u

static uint8_t memory[64];
static struct sl_region region = { .base = memory, .len = sizeof(memory) };
static struct slime_mr mr = { .region = &region };
static struct slime_remote_mr remote;
static const struct slime_xfer piece = { .local = &mr, .remote = &remote, .len = sizeof(memory) };

static struct tcp_transport transport;
static struct tcp_conn conn;

static int setup(void **state)
{
	(void)state;
	memset(&conn, 0, sizeof(conn));
	pthread_mutex_init(&conn.lock, NULL);
	sl_list_init(&conn.ops);
	tcp_pools_init(&transport);
	conn.t = &transport;
	conn.n_streams = 2;
	for (uint16_t i = 0; i < 2; i++)
		assert_int_equal(tcp_stream_create(&conn, i, &conn.streams[i]), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		tcp_stream_free(conn.streams[i]);
	tcp_pools_fini(&transport);
	pthread_mutex_destroy(&conn.lock);
	return 0;
}

/* The streams that have something to send when op is queued. */
static uint32_t submit(struct slime_op *op, enum slime_op_kind kind, uint32_t flags)
{
	*op = (struct slime_op){ .work = { .kind = kind,
					   .flags = flags,
					   .xfers = &piece,
					   .n = 1,
					   .total = piece.len } };
	sl_list_append(&conn.ops, &op->link);
	conn.n_fences += flags & SLIME_FENCE ? 1 : 0;
	return tcp_pump(&conn);
}

/* The same of an op that says it is of so many bytes. */
static uint32_t submit_long(struct slime_op *op, uint64_t total)
{
	*op = (struct slime_op){
		.work = { .kind = SLIME_KIND_READ, .xfers = &piece, .n = 1, .total = total }
	};
	sl_list_append(&conn.ops, &op->link);
	return tcp_pump(&conn);
}

static void op__goes_where_the_fewest_requests_are(void **state)
{
	struct slime_op ops[3];

	(void)state;
	assert_int_equal(submit(&ops[0], SLIME_KIND_READ, 0), FIRST);
	assert_int_equal(submit(&ops[1], SLIME_KIND_WRITE_IMM, 0), SECOND);
	assert_int_equal(submit(&ops[2], SLIME_KIND_WRITE, 0), FIRST);
}

/* That of a long one goes over the first stream, when the op has ended. */
static void write_imm__with_a_fence_follows_earlier_immediates_on_their_stream(void **state)
{
	struct slime_op ops[3];

	(void)state;
	assert_int_equal(submit(&ops[0], SLIME_KIND_READ, 0), FIRST);
	assert_int_equal(submit(&ops[1], SLIME_KIND_WRITE_IMM, SLIME_FENCE), FIRST);

	/* Also when it is full. */
	conn.n_writes = 0;
	conn.streams[0]->n_requests = TCP_REQUESTS;
	assert_int_equal(submit(&ops[2], SLIME_KIND_WRITE_IMM, SLIME_FENCE), 0);
	conn.streams[0]->n_requests = 2;
	assert_int_equal(tcp_pump(&conn), FIRST);
}

static void op__of_many_bytes_leaves_the_first_stream_to_messages(void **state)
{
	struct slime_op ops[3];

	(void)state;
	assert_int_equal(submit_long(&ops[0], 128 << 10), FIRST);
	assert_int_equal(submit_long(&ops[1], (128 << 10) + 1), SECOND);
	assert_int_equal(submit_long(&ops[2], (128 << 10) + 1), SECOND);
}

static void op__beside_many_bytes_leaves_the_first_stream_to_messages(void **state)
{
	struct slime_op ops[2];

	(void)state;
	conn.streams[1]->n_requests = 2;
	conn.streams[0]->requested = (128 << 10) - piece.len;
	assert_int_equal(submit(&ops[0], SLIME_KIND_READ, 0), FIRST);
	assert_int_equal(submit(&ops[1], SLIME_KIND_READ, 0), SECOND);
}

/* Pieces of two requests each. */
static void make_op(struct slime_op *op, const struct slime_xfer *pieces, uint32_t flags)
{
	*op = (struct slime_op){ .work = { .kind = SLIME_KIND_WRITE,
					   .flags = flags,
					   .xfers = pieces,
					   .n = 2 * TCP_PIECES_MAX,
					   .total = 2 * TCP_PIECES_MAX * piece.len } };
	sl_list_append(&conn.ops, &op->link);
}

static const struct slime_op *next_sent(void)
{
	struct sl_list *e = sl_list_pop(&conn.streams[0]->to_send);

	return e ? SL_CONTAINER_OF(e, struct tcp_request, link)->op : NULL;
}

static void ops__of_several_requests_have_their_turns(void **state)
{
	struct slime_xfer pieces[2 * TCP_PIECES_MAX];
	struct slime_op ops[2];

	(void)state;
	/* Not adjacent. */
	for (int i = 0; i < 2 * TCP_PIECES_MAX; i++)
		pieces[i] = piece;
	conn.n_streams = 1;
	make_op(&ops[0], pieces, 0);
	make_op(&ops[1], pieces, 0);
	assert_int_equal(tcp_pump(&conn), FIRST);
	assert_ptr_equal(next_sent(), &ops[0]);
	assert_ptr_equal(next_sent(), &ops[1]);
	assert_ptr_equal(next_sent(), &ops[0]);
	assert_ptr_equal(next_sent(), &ops[1]);
	conn.n_streams = 2;
}

/* Or the rest of an op would wait behind the one that waits for it. */
static void ops__before_a_fence_have_no_turns(void **state)
{
	struct slime_xfer pieces[2 * TCP_PIECES_MAX];
	struct slime_op ops[2];

	(void)state;
	for (int i = 0; i < 2 * TCP_PIECES_MAX; i++)
		pieces[i] = piece;
	conn.n_streams = 1;
	make_op(&ops[0], pieces, 0);
	make_op(&ops[1], pieces, SLIME_FENCE);
	conn.n_fences = 1;
	assert_int_equal(tcp_pump(&conn), FIRST);
	assert_ptr_equal(next_sent(), &ops[0]);
	assert_ptr_equal(next_sent(), &ops[0]);
	assert_null(next_sent());
	conn.n_streams = 2;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(op__goes_where_the_fewest_requests_are, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			op__of_many_bytes_leaves_the_first_stream_to_messages, setup, teardown),
		cmocka_unit_test_setup_teardown(
			op__beside_many_bytes_leaves_the_first_stream_to_messages, setup, teardown),
		cmocka_unit_test_setup_teardown(ops__of_several_requests_have_their_turns, setup,
						teardown),
		cmocka_unit_test_setup_teardown(ops__before_a_fence_have_no_turns, setup, teardown),
		cmocka_unit_test_setup_teardown(
			write_imm__with_a_fence_follows_earlier_immediates_on_their_stream, setup,
			teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
