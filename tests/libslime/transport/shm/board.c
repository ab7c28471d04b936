/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many shm links of one context, and somebody who writes over its board as any of its peers can:
 * bits that are cleared, set, or random. Calls on each link end in time and with their own bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "src/progress/context.h"
#include "src/transport/shm/shm.h"
#include <slime/slime.h>

#define N	     16
#define LEN	     64
#define PATIENCE_MS  60000
#define assert_ok(e) assert_int_equal(e, 0)

struct side {
	struct slime_context *ctx;
	struct slime_rpc_service *service;
	struct slime_endpoint *eps[N];
	struct slime_op *ops[N];
};

struct crowd {
	struct side a, b;
	struct slime_call *calls[N];
	uint8_t requests[N][LEN], replies[N][LEN];
};

static void echo(void *arg, struct slime_rpc_request *req)
{
	(void)arg;
	slime_rpc_reply(req, slime_rpc_request_data(req), slime_rpc_request_len(req));
}

static void open_side(struct side *s)
{
	struct slime_endpoint_attr ep = SLIME_ENDPOINT_ATTR_INIT;
	struct slime_rpc_method_attr method = SLIME_RPC_METHOD_ATTR_INIT;

	assert_ok(slime_context_create(NULL, &s->ctx));
	assert_ok(slime_rpc_service_create(s->ctx, &s->service));
	method.fn = echo;
	method.flags = SLIME_RPC_INLINE;
	assert_ok(slime_rpc_method_add(s->service, "echo", &method));
	ep.transports[0] = SLIME_TRANSPORT_SHM;
	ep.service = s->service;
	for (int i = 0; i < N; i++) {
		assert_ok(slime_endpoint_create(s->ctx, &ep, &s->eps[i]));
		assert_ok(slime_op_create(s->ctx, NULL, &s->ops[i]));
	}
}

static void connect_to(struct side *s, struct side *other, int i)
{
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	int len = slime_endpoint_export(other->eps[i], desc, sizeof(desc));

	assert_true(len > 0);
	assert_ok(slime_endpoint_connect(s->eps[i], desc, (size_t)len, PATIENCE_MS, s->ops[i]));
}

static void await_connect(struct side *s, int i)
{
	assert_ok(slime_op_wait(s->ops[i], PATIENCE_MS));
	assert_ok(slime_op_status(s->ops[i]));
}

static int setup(void **state)
{
	struct crowd *c = calloc(1, sizeof(*c));

	open_side(&c->a);
	open_side(&c->b);
	for (int i = 0; i < N; i++) {
		connect_to(&c->a, &c->b, i);
		connect_to(&c->b, &c->a, i);
		await_connect(&c->a, i);
		await_connect(&c->b, i);
		assert_ok(slime_call_create(c->a.ctx, NULL, &c->calls[i]));
	}
	*state = c;
	return 0;
}

static void close_side(struct side *s)
{
	for (int i = 0; i < N; i++) {
		assert_ok(slime_endpoint_destroy(s->eps[i]));
		assert_ok(slime_op_destroy(s->ops[i]));
	}
	assert_ok(slime_rpc_service_destroy(s->service));
	assert_ok(slime_context_destroy(s->ctx));
}

static int teardown(void **state)
{
	struct crowd *c = *state;

	for (int i = 0; i < N; i++)
		assert_ok(slime_call_destroy(c->calls[i]));
	close_side(&c->a);
	close_side(&c->b);
	free(c);
	return 0;
}

/* ---- calls ---- */

static void start(struct crowd *c, int i, uint8_t byte)
{
	const struct slime_call_args args = {
		.method = slime_rpc_method_id("echo"),
		.request = c->requests[i],
		.request_len = LEN,
		.reply = c->replies[i],
		.reply_cap = LEN,
		.timeout_ms = PATIENCE_MS,
	};

	memset(c->requests[i], byte, LEN);
	assert_ok(slime_call_start(c->a.eps[i], &args, c->calls[i]));
}

static void end(struct crowd *c, int i)
{
	assert_ok(slime_call_wait(c->calls[i], -1));
	assert_ok(slime_call_status(c->calls[i]));
	assert_int_equal(slime_call_reply_len(c->calls[i]), LEN);
	assert_memory_equal(c->replies[i], c->requests[i], LEN);
}

static void call_in_turn(struct crowd *c)
{
	for (int i = 0; i < N; i++) {
		start(c, i, (uint8_t)i);
		end(c, i);
	}
}

static void call_all_at_once(struct crowd *c)
{
	for (int i = 0; i < N; i++)
		start(c, i, (uint8_t)(i + 100));
	for (int i = 0; i < N; i++)
		end(c, i);
}

/* ---- the board ---- */

enum scribble { CLEAR, SET, RANDOM };

struct scribbler {
	struct shm_board *boards[2];
	enum scribble how;
	_Atomic bool stop;
	pthread_t thread;
};

static struct shm_board *board_of(const struct side *s)
{
	return ((struct shm_transport *)s->ctx->transports[SLIME_TRANSPORT_SHM])->board;
}

static uint64_t word(const struct scribbler *s, uint64_t *seed)
{
	*seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return s->how == CLEAR ? 0 : s->how == SET ? UINT64_MAX : *seed ^ *seed >> 29;
}

static void *scribble(void *arg)
{
	struct scribbler *s = arg;
	uint64_t seed = 1;

	while (!atomic_load(&s->stop)) {
		for (int b = 0; b < 2; b++) {
			atomic_store(&s->boards[b]->marked, word(s, &seed));
			for (int i = 0; i < SHM_BOARD_WORDS; i++)
				atomic_store(&s->boards[b]->words[i], word(s, &seed));
		}
	}
	return NULL;
}

static void call_while(struct crowd *c, enum scribble how)
{
	struct scribbler s = { .boards = { board_of(&c->a), board_of(&c->b) }, .how = how };

	assert_ok(pthread_create(&s.thread, NULL, scribble, &s));
	for (int i = 0; i < 3; i++) {
		call_in_turn(c);
		call_all_at_once(c);
	}
	atomic_store(&s.stop, true);
	pthread_join(s.thread, NULL);
}

static void calls__on_many_links_end(void **state)
{
	for (int i = 0; i < 10; i++) {
		call_in_turn(*state);
		call_all_at_once(*state);
	}
}

static void calls__end_while_a_peer_clears_the_board(void **state)
{
	call_while(*state, CLEAR);
}

static void calls__end_while_a_peer_sets_all_of_the_board(void **state)
{
	call_while(*state, SET);
}

static void calls__end_while_a_peer_writes_anything_to_the_board(void **state)
{
	call_while(*state, RANDOM);
}

/* A bit of a link that ended, or of none, is no harm. */
static void board__with_bits_of_links_that_ended_is_read(void **state)
{
	struct crowd *c = *state;

	for (int i = 1; i < N; i += 2)
		slime_endpoint_close(c->a.eps[i]);
	for (int i = 0; i < 50; i++) {
		atomic_store(&board_of(&c->a)->words[0], UINT64_MAX);
		atomic_store(&board_of(&c->b)->words[0], UINT64_MAX);
		atomic_store(&board_of(&c->a)->marked, UINT64_MAX);
		atomic_store(&board_of(&c->b)->marked, UINT64_MAX);
		start(c, 0, (uint8_t)i);
		end(c, 0);
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(calls__on_many_links_end),
		TEST(calls__end_while_a_peer_clears_the_board),
		TEST(calls__end_while_a_peer_sets_all_of_the_board),
		TEST(calls__end_while_a_peer_writes_anything_to_the_board),
		TEST(board__with_bits_of_links_that_ended_is_read),
	};

	return cmocka_run_group_tests_name("shm board", tests, NULL, NULL);
}
