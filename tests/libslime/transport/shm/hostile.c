/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer that writes what it likes into the memory we share. The link ends with one line in the
 * log, or nothing happens; never is a byte touched that the peer was not given.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "tests/libslime/transport/shm/raw.h"
#include "src/progress/context.h"
#include "src/endpoint/endpoint.h"
#include "support/random.h"
#include "src/endpoint/xfer.h"

/* ---- messages ---- */

static void assert_ends_link(void **state, const struct sl_msg *m)
{
	struct raw_shm *r = *state;

	raw_shm_link(r);
	raw_shm_post(r, m);
	raw_shm_assert_broken(r, -EPROTO, "the peer broke the protocol");
	assert_ok(raw_shm_teardown(state));
	assert_ok(raw_shm_setup(state));
}

static void message__malformed_ends_the_link(void **state)
{
	static const struct sl_msg bad[] = {
		{ .kind = 0 },
		{ .kind = SL_MSG_KINDS },
		{ .kind = 255, .slot = 65535, .len = UINT32_MAX },
		{ .kind = SL_MSG_IMM, .len = 1 },
		{ .kind = SL_MSG_SEND, .slot = SL_SEND_SLOTS },
		{ .kind = SL_MSG_SEND, .slot = 65535, .len = 1 },
		{ .kind = SL_MSG_SEND, .len = SL_SLOT_SMALL + 1 },
		{ .kind = SL_MSG_SEND, .len = UINT32_MAX },
		{ .kind = SL_MSG_REQUEST, .slot = SL_CALL_SLOTS },
		{ .kind = SL_MSG_REQUEST, .slot = 0, .len = SL_SLOT_SMALL + 1 },
		{ .kind = SL_MSG_REQUEST, .slot = SL_CALL_SLOTS - 1, .len = SL_SLOT_LARGE + 1 },
		{ .kind = SL_MSG_REPLY, .slot = SL_CALL_SLOTS, .len = 1 },
		/* Payloads that go along. */
		{ .kind = SL_MSG_REQUEST, .slot = SHM_SLOT_HERE, .len = SL_SHORT_LEN + 1 },
		{ .kind = SL_MSG_REQUEST, .slot = SHM_SLOT_HERE, .len = UINT32_MAX },
		{ .kind = SL_MSG_REQUEST, .slot = SHM_SLOT_HERE },
		{ .kind = SL_MSG_REQUEST, .slot = SHM_SLOT_HERE | SL_CALL_SLOTS, .len = 1 },
		{ .kind = SL_MSG_REPLY, .slot = SHM_SLOT_HERE | SL_CALL_SLOTS, .len = 1 },
		{ .kind = SL_MSG_SEND, .slot = SHM_SLOT_HERE, .len = 1 },
		{ .kind = SL_MSG_IMM, .slot = SHM_SLOT_HERE, .len = 1 },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_ends_link(state, &bad[i]);
}

static void message__answering_what_was_not_asked_ends_the_link(void **state)
{
	static const struct sl_msg bad[] = {
		{ .kind = SL_MSG_SEND_DONE, .slot = 0 },
		{ .kind = SL_MSG_SEND_DONE, .slot = 65535 },
		{ .kind = SL_MSG_REPLY, .slot = 0, .w = { 7 } },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_ends_link(state, &bad[i]);
}

static void message__immediates_beyond_the_window_end_the_link(void **state)
{
	struct sl_msg m = { .kind = SL_MSG_IMM };
	struct raw_shm *r = *state;

	raw_shm_link(r);
	for (int i = 0; i < SL_WINDOW_IMM; i++)
		raw_shm_post(r, &m);
	assert_false(r->ended);
	raw_shm_post(r, &m);
	raw_shm_assert_broken(r, -EPROTO, "the peer broke the protocol");
}

/* One immediate arrived, and no other. */
static void assert_one_imm(struct raw_shm *r)
{
	assert_ok(slime_imm_recv(r->ep, r->op));
	assert_ok(slime_op_wait(r->op, PATIENCE_MS));
	assert_int_equal(slime_imm_recv(r->ep, r->op), -ENOTCONN);
}

static void message__behind_a_malformed_one_is_not_taken(void **state)
{
	const struct sl_msg bad = { .kind = SL_MSG_KINDS }, good = { .kind = SL_MSG_IMM };
	struct raw_shm *r = *state;

	raw_shm_link(r);
	raw_shm_write(r, &good);
	raw_shm_write(r, &bad);
	raw_shm_write(r, &good);
	raw_shm_assert_broken(r, -EPROTO, "the peer broke the protocol");
	assert_one_imm(r);
}

/* A spinner looks at the ring alone, and takes what comes; then the round comes that ends the
 * link, and looks at the ring, too. */
static void message__behind_one_that_a_spinner_refused_is_not_taken(void **state)
{
	const struct sl_msg bad = { .kind = SL_MSG_KINDS }, good = { .kind = SL_MSG_IMM };
	struct raw_shm *r = *state;
	const struct sl_next *next = r->ctx->transports[SLIME_TRANSPORT_SHM]->env->next;

	raw_shm_link(r);
	raw_shm_post(r, &good);
	raw_shm_write(r, &bad);
	assert_non_null(next->word);
	assert_int_equal(next->take(next->arg), 1);
	raw_shm_write(r, &good);
	assert_null(next->word);
	raw_shm_assert_broken(r, -EPROTO, "the peer broke the protocol");
	assert_one_imm(r);
}

/* What the peer posted before it left is taken when the link ends, up to there. */
static void message__behind_a_malformed_one_of_a_peer_that_left_is_not_taken(void **state)
{
	const struct sl_msg bad = { .kind = SL_MSG_KINDS }, good = { .kind = SL_MSG_IMM };
	struct raw_shm *r = *state;
	struct sl_conn *conn;

	raw_shm_link(r);
	conn = atomic_load(&r->ep->conn);
	raw_shm_write(r, &good);
	raw_shm_write(r, &bad);
	raw_shm_write(r, &good);
	conn->ops->close(conn, -ECONNRESET, "the peer hung up");
	raw_shm_assert_broken(r, -ECONNRESET, "the peer hung up");
	assert_one_imm(r);
}

static void message__into_a_slot_in_use_ends_the_link(void **state)
{
	struct sl_msg m = { .kind = SL_MSG_SEND, .slot = 3, .len = 8, .w = { 0, 8 } };
	struct raw_shm *r = *state;

	raw_shm_link(r);
	raw_shm_post(r, &m);
	assert_false(r->ended);
	raw_shm_post(r, &m);
	raw_shm_assert_broken(r, -EPROTO, "the peer broke the protocol");
}

/* ---- indexes ---- */

/* Only the number that comes next is read: what was, or is far ahead, is not there. */
static void ring__numbers_that_are_not_next_are_not_read(void **state)
{
	static const uint64_t numbers[] = { 0, 1, SL_RING_ENTRIES, 3 + SL_RING_ENTRIES,
					    UINT64_MAX };
	struct sl_msg m = { .kind = SL_MSG_IMM };
	struct raw_shm *r = *state;

	raw_shm_link(r);
	raw_shm_post(r, &m);
	raw_shm_post(r, &m);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		for (int e = 0; e < SL_RING_ENTRIES; e++) {
			r->own->ring[e].m.kind = 99;
			atomic_store(&r->own->ring[e].seq, numbers[i]);
		}
		raw_shm_turn(r);
	}
	assert_false(r->ended);
	for (int i = 0; i < 2; i++) {
		assert_ok(slime_imm_recv(r->ep, r->op));
		assert_ok(slime_op_wait(r->op, PATIENCE_MS));
	}
	assert_ok(slime_imm_recv(r->ep, r->op));
	assert_int_equal(slime_op_wait(r->op, 0), -ETIMEDOUT);
}

/* Wherever it says it is, what we post stays in our ring. */
static void imm_taken__that_lies_costs_us_nothing(void **state)
{
	static const uint64_t lies[] = { UINT64_MAX, UINT64_C(1) << 63, UINT64_C(1) << 40, 0, 129 };
	struct raw_shm *r = *state;
	unsigned n_posted = 0;

	raw_shm_link(r);
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		atomic_store(&r->own->imm_taken, lies[i]);
		for (int k = 0; k < 2 * SL_RING_ENTRIES; k++) {
			int ret = slime_write_imm(r->ep, NULL, 0, 0, 1, r->op);

			assert_true(ret == 0 || ret == -EAGAIN);
			n_posted += ret == 0;
		}
		raw_shm_turn(r);
	}
	assert_true(n_posted > SL_WINDOW_IMM);
	assert_false(r->ended);
}

/* It can write to what we tell it, and not to what we know. */
static void imm_taken__that_the_peer_wrote_over_is_told_again(void **state)
{
	struct sl_msg m = { .kind = SL_MSG_IMM };
	struct raw_shm *r = *state;

	raw_shm_link(r);
	for (uint64_t n = 1; n <= 3; n++) {
		atomic_store(&r->other->imm_taken, UINT64_MAX);
		raw_shm_post(r, &m);
		assert_ok(slime_imm_recv(r->ep, r->op));
		assert_ok(slime_op_wait(r->op, PATIENCE_MS));
		assert_int_equal(atomic_load(&r->other->imm_taken), n);
	}
}

/* ---- the last immediate ---- */

/* Two threads want it when the link is gone: the one that came first, and has not taken it yet,
 * gets it; the other would wait for ever. */
static void imm_recv__for_what_another_is_about_to_take_is_refused(void **state)
{
	struct sl_msg imm = { .kind = SL_MSG_IMM, .w = { 7 } };
	struct shm_packet bye = { .kind = SHM_BYE };
	struct raw_shm *r = *state;
	struct slime_op *other;

	assert_ok(slime_op_create(r->ctx, NULL, &other));
	raw_shm_link(r);
	raw_shm_post(r, &imm);
	raw_shm_say(r, &bye);
	assert_int_equal(raw_shm_hear(r).kind, SHM_BYE_DONE);
	sl_list_append(&r->ep->imm_ops, &other->link);
	assert_int_equal(slime_imm_recv(r->ep, r->op), -ENOTCONN);
	sl_list_remove(&other->link);

	assert_ok(slime_imm_recv(r->ep, r->op));
	assert_true(slime_op_test(r->op));
	assert_int_equal(slime_op_imm(r->op), 7);
	assert_int_equal(slime_imm_recv(r->ep, r->op), -ENOTCONN);
	assert_ok(slime_op_destroy(other));
}

/* The endpoint whose immediates' lock is given back, and whose link is down right then. */
static struct slime_endpoint *down_at_unlock;

int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);

int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
	struct slime_endpoint *ep = down_at_unlock;
	int ret = __real_pthread_mutex_unlock(lock);

	if (ep && lock == &ep->imm_lock) {
		down_at_unlock = NULL;
		sl_xfer_down(ep, -ECONNRESET);
	}
	return ret;
}

static void imm_recv__while_the_link_goes_down_takes_what_is_left(void **state)
{
	struct sl_msg imm = { .kind = SL_MSG_IMM, .w = { 7 } };
	struct shm_packet bye = { .kind = SHM_BYE };
	struct raw_shm *r = *state;

	raw_shm_link(r);
	raw_shm_post(r, &imm);
	raw_shm_say(r, &bye);
	assert_int_equal(raw_shm_hear(r).kind, SHM_BYE_DONE);

	down_at_unlock = r->ep;
	assert_ok(slime_imm_recv(r->ep, r->op));
	assert_null(down_at_unlock);
	assert_true(slime_op_test(r->op));
	assert_ok(slime_op_status(r->op));
	assert_int_equal(slime_op_imm(r->op), 7);
}

/* ---- all of it at once ---- */

#define LINKS	      40
#define SCRIBBLES_MAX 200000

struct scribbler {
	struct raw_shm *r;
	uint64_t seed;
	_Atomic uint64_t n; /* scribbles so far */
	_Atomic bool stop;
	pthread_t thread;
};

/* A message that is likely to be taken, or not far from it. */
static struct sl_msg some_message(uint64_t *seed)
{
	struct sl_msg m = { .kind = (uint8_t)(next_random(seed) % SL_MSG_KINDS) };

	m.slot = (uint16_t)(next_random(seed) % (SL_CALL_SLOTS + 1));
	m.flags = (uint8_t)(next_random(seed) % 4);
	if (sl_msg_area(m.kind) != SL_AREAS)
		m.len = (uint32_t)(next_random(seed) % (SL_SLOT_SMALL + 2));
	for (int i = 0; i < 6; i++)
		m.w[i] = next_random(seed) % 3 ? next_random(seed) % 2048 : next_random(seed);
	if (next_random(seed) % 2)
		m.w[1] = m.len;
	return m;
}

/* Everywhere: the entry that is read next, those around it, slots, and also our own half. */
static void scribble(struct scribbler *s, uint64_t n)
{
	struct raw_shm *r = s->r;
	uint8_t *bytes = (uint8_t *)r->segment;
	struct shm_entry *e = &r->own->ring[n % SL_RING_ENTRIES];
	uint64_t at = next_random(&s->seed) % (sizeof(*r->segment) - 8);
	uint64_t junk = next_random(&s->seed);

	memcpy(bytes + at, &junk, 1 + junk % 8);
	e->m = some_message(&s->seed);
	atomic_store_explicit(&e->seq, n + 1, memory_order_release);
	/* And under the eyes of who reads it. */
	e->m = some_message(&s->seed);
}

static void *scribble_on(void *arg)
{
	struct scribbler *s = arg;

	for (uint64_t n = 0; n < SCRIBBLES_MAX && !atomic_load(&s->stop); n++) {
		scribble(s, n);
		atomic_store(&s->n, n + 1);
		if (n % 8 == 0)
			sched_yield();
	}
	return NULL;
}

/* What an application does meanwhile. */
static void use_link(struct raw_shm *r, struct slime_op *ops[3], struct slime_call *call)
{
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;

	if (slime_op_test(ops[0]))
		(void)!slime_imm_recv(r->ep, ops[0]);
	if (slime_op_test(ops[1]))
		(void)!slime_recv(r->ep, r->mr, 0, 4096, 0, 0, ops[1]);
	if (slime_op_test(ops[2]))
		(void)!slime_send(r->ep, r->mr, 4096, 100, 1, ops[2]);
	if (!slime_call_test(call))
		return;
	args.method = slime_rpc_method_id("echo");
	args.request = r->bytes + 8192;
	args.request_len = 100;
	args.reply = r->bytes + 12288;
	args.reply_cap = 4096;
	(void)!slime_call_start(r->ep, &args, call);
}

/* Whatever it writes: the link breaks or goes on, each op ends once, and no byte but those of the
 * receives and of the reply changes. */
static void use_under(struct scribbler *s)
{
	struct raw_shm *r = s->r;
	struct slime_call *call;
	struct slime_op *ops[3];

	for (int i = 0; i < 3; i++)
		assert_ok(slime_op_create(r->ctx, NULL, &ops[i]));
	assert_ok(slime_call_create(r->ctx, NULL, &call));
	assert_ok(pthread_create(&s->thread, NULL, scribble_on, s));
	while (atomic_load(&s->n) < 2000 && !r->ended) {
		use_link(r, ops, call);
		assert_true(slime_context_poll(r->ctx) >= 0);
	}
	atomic_store(&s->stop, true);
	pthread_join(s->thread, NULL);
	slime_endpoint_close(r->ep);
	raw_shm_turn(r);
	for (int i = 0; i < 3; i++) {
		assert_ok(slime_op_wait(ops[i], PATIENCE_MS));
		assert_ok(slime_op_destroy(ops[i]));
	}
	assert_ok(slime_call_wait(call, PATIENCE_MS));
	assert_ok(slime_call_destroy(call));
}

static void scribbling__over_all_that_is_shared_harms_nobody_else(void **state)
{
	static uint8_t before[RAW_SHM_LEN];
	uint64_t seed = UINT64_C(0x5eed);
	unsigned n_broken = 0;

	for (int i = 0; i < LINKS; i++) {
		struct raw_shm *r = *state;
		struct scribbler s = { .r = r, .seed = next_random(&seed) };

		memset(r->bytes, 0x5a, RAW_SHM_LEN);
		memcpy(before, r->bytes, RAW_SHM_LEN);
		raw_shm_link(r);
		use_under(&s);
		n_broken += r->cause == -EPROTO;
		assert_memory_equal(r->bytes + 4096, before + 4096, 8192);
		assert_memory_equal(r->bytes + 16384, before + 16384, RAW_SHM_LEN - 16384);
		assert_in_range(log_lines_with(""), 0, 1);
		assert_ok(raw_shm_teardown(state));
		assert_ok(raw_shm_setup(state));
	}
	assert_true(n_broken > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_RAW_SHM(message__malformed_ends_the_link),
		IN_RAW_SHM(message__answering_what_was_not_asked_ends_the_link),
		IN_RAW_SHM(message__immediates_beyond_the_window_end_the_link),
		IN_RAW_SHM(message__behind_a_malformed_one_is_not_taken),
		IN_RAW_SHM(message__behind_one_that_a_spinner_refused_is_not_taken),
		IN_RAW_SHM(message__behind_a_malformed_one_of_a_peer_that_left_is_not_taken),
		IN_RAW_SHM(message__into_a_slot_in_use_ends_the_link),
		IN_RAW_SHM(ring__numbers_that_are_not_next_are_not_read),
		IN_RAW_SHM(imm_taken__that_lies_costs_us_nothing),
		IN_RAW_SHM(imm_taken__that_the_peer_wrote_over_is_told_again),
		IN_RAW_SHM(imm_recv__for_what_another_is_about_to_take_is_refused),
		IN_RAW_SHM(imm_recv__while_the_link_goes_down_takes_what_is_left),
		IN_RAW_SHM(scribbling__over_all_that_is_shared_harms_nobody_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
