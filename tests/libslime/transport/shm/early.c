/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes in the midst of the start of a call: after each of our instructions that touch what
 * the mailbox knows of the call's slot, or the call, it is answered by a peer that was not asked
 * yet, or cancelled by another thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/libslime/transport/shm/raw.h"
#include "src/endpoint/endpoint.h"
#include "src/rpc/mailbox.h"
#include "src/progress/progress.h"
#include "src/rpc/rpc_call.h"
#include "src/transport/shm/shm.h"
#include "tests/support/stepper.h"

/* Of the first call that takes the slot. */
#define FIRST_ID(slot) (UINT64_C(1) << SL_ID_SLOT_BITS | (slot))

/* What comes is a signal for the thread sanitizer, of which we know where it comes: not in the
 * midst of an allocation. */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);

const char *__tsan_default_options(void)
{
	return "report_signal_unsafe=0";
}

/* ---- what is touched an instruction at a time ---- */

static uintptr_t page_of(const void *at)
{
	return (uintptr_t)at & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
}

static void begin_steps(void *at, size_t len, unsigned n, stepper_fn *fn, void *arg)
{
	uintptr_t end = page_of((uint8_t *)at + len - 1) + (uintptr_t)sysconf(_SC_PAGESIZE);

	stepper_begin((void *)page_of(at), end - page_of(at), n, fn, arg);
}

/* ---- answered ---- */

struct early {
	struct raw_shm *r;
	struct slime_call *call;
	uint8_t *request; /* goes with the call */
	uint8_t reply[64];
	uint16_t slot;
	bool was_taken;
	bool over;
};

static void forget_call(void *arg, struct slime_call *call)
{
	struct early *e = arg;

	free(e->request);
	assert_ok(slime_call_destroy(call));
	e->over = true;
}

/* The id is no secret. */
static void answer(void *arg)
{
	struct early *e = arg;
	struct sl_msg reply = { .kind = SL_MSG_REPLY,
				.slot = e->slot,
				.w[SL_REPLY_ID] = FIRST_ID(e->slot) };

	sl_progress_enter(e->r->ctx);
	e->was_taken = sl_mailbox_layer.msg(e->r->ep->mailbox, &reply, NULL);
	sl_progress_leave(e->r->ctx);
}

/* Whether there was an n-th instruction. */
static bool start_and_answer(struct raw_shm *r, size_t len, unsigned n, unsigned *n_taken)
{
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	struct sl_mailbox *mb = r->ep->mailbox;
	struct early e = { .r = r, .slot = len > SL_SLOT_SMALL ? SL_CALL_SLOTS_SMALL : 0 };
	const struct slime_call_attr attr = { .fn = forget_call, .arg = &e };
	bool reached;

	raw_shm_link(r);
	e.request = calloc(1, len);
	assert_non_null(e.request);
	assert_ok(slime_call_create(r->ctx, &attr, &e.call));
	args.method = slime_rpc_method_id("any");
	args.request = e.request;
	args.request_len = len;
	args.reply = e.reply;
	args.reply_cap = sizeof(e.reply);
	begin_steps(mb->slots, sizeof(mb->slots), n, answer, &e);
	assert_ok(slime_call_start(r->ep, &args, e.call));
	reached = stepper_end();
	assert_int_equal(e.over, e.was_taken);
	*n_taken += e.was_taken;
	slime_endpoint_close(r->ep);
	raw_shm_turn(r);
	assert_true(e.over);
	return reached;
}

static void expect_untouched(void **state, size_t len)
{
	unsigned n = 0, n_taken = 0;
	bool reached;

	do {
		reached = start_and_answer(*state, len, ++n, &n_taken);
		assert_ok(raw_shm_teardown(state));
		assert_ok(raw_shm_setup(state));
	} while (reached);
	/* Some came before the call could be answered. */
	assert_in_range(n_taken, 1, n - 2);
}

static void call_start__answered_before_it_left_touches_nothing_of_the_call(void **state)
{
	expect_untouched(state, 8);
}

static void
call_start__answered_before_it_left_in_its_slot_touches_nothing_of_the_call(void **state)
{
	expect_untouched(state, 100);
}

static void
call_start__answered_before_it_left_in_a_large_slot_touches_nothing_of_the_call(void **state)
{
	expect_untouched(state, 5000);
}

/* ---- cancelled ---- */

/* A call, in pages of its own. */
struct cancelled {
	struct raw_shm *r;
	struct slime_call *call;
	uint8_t request[5000];
	int ret; /* of the cancel */
};

static void cancel(void *arg)
{
	struct cancelled *x = arg;

	x->ret = slime_call_cancel(x->call);
}

static int start_one(struct cancelled *x, const struct slime_call_args *args)
{
	return slime_call_start(x->r->ep, args, x->call) ? 0 : 1;
}

static int start_of_many(struct cancelled *x, const struct slime_call_args *args)
{
	const struct slime_call_item item = { x->call, args };

	return slime_call_start_many(x->r->ep, &item, 1);
}

/* The peer was told, and its answer ends the call; or it ended without. */
static void expect_cancelled(struct cancelled *x)
{
	struct sl_mailbox *mb = x->r->ep->mailbox;
	unsigned n_told = 0;

	raw_shm_turn(x->r);
	for (unsigned i = 0; i < SL_CALL_SLOTS; i++)
		n_told += mb->slots[i].cancelled != 0;
	assert_int_equal(n_told, !slime_call_test(x->call));
}

static bool start_and_cancel(struct raw_shm *r, size_t len, unsigned n,
			     int (*start)(struct cancelled *, const struct slime_call_args *),
			     unsigned *n_cancelled)
{
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	struct cancelled x = { .r = r, .ret = -ENOENT };
	bool reached;

	raw_shm_link(r);
	assert_ok(slime_call_create(r->ctx, NULL, &x.call));
	args.method = slime_rpc_method_id("any");
	args.request = x.request;
	args.request_len = len;
	begin_steps(x.call, sizeof(*x.call), n, cancel, &x);
	assert_int_equal(start(&x, &args), 1);
	reached = stepper_end();
	if (x.ret == 0)
		expect_cancelled(&x);
	else
		assert_int_equal(x.ret, -ENOENT);
	*n_cancelled += x.ret == 0;
	slime_endpoint_close(r->ep);
	raw_shm_turn(r);
	assert_true(slime_call_test(x.call));
	assert_int_equal(slime_call_status(x.call), -ECANCELED);
	assert_ok(slime_call_destroy(x.call));
	return reached;
}

static void expect_noticed(void **state, size_t len,
			   int (*start)(struct cancelled *, const struct slime_call_args *))
{
	unsigned n = 0, n_cancelled = 0;
	bool reached;

	do {
		reached = start_and_cancel(*state, len, ++n, start, &n_cancelled);
		assert_ok(raw_shm_teardown(state));
		assert_ok(raw_shm_setup(state));
	} while (reached);
	assert_in_range(n_cancelled, 1, n - 1);
}

static void call_cancel__in_the_midst_of_a_start_is_heard_or_enoent(void **state)
{
	expect_noticed(state, 8, start_one);
}

static void call_cancel__in_the_midst_of_the_start_of_a_long_call_is_heard_or_enoent(void **state)
{
	expect_noticed(state, 5000, start_one);
}

static void call_cancel__in_the_midst_of_the_start_of_several_is_heard_or_enoent(void **state)
{
	expect_noticed(state, 8, start_of_many);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_RAW_SHM(call_start__answered_before_it_left_touches_nothing_of_the_call),
		IN_RAW_SHM(
			call_start__answered_before_it_left_in_its_slot_touches_nothing_of_the_call),
		IN_RAW_SHM(
			call_start__answered_before_it_left_in_a_large_slot_touches_nothing_of_the_call),
		IN_RAW_SHM(call_cancel__in_the_midst_of_a_start_is_heard_or_enoent),
		IN_RAW_SHM(
			call_cancel__in_the_midst_of_the_start_of_a_long_call_is_heard_or_enoent),
		IN_RAW_SHM(call_cancel__in_the_midst_of_the_start_of_several_is_heard_or_enoent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
