/* SPDX-License-Identifier: Apache-2.0 */
/* While memory for a long message is had: callers that give up at that moment, and who waits for
 * it. Both contexts are moved from here, so that each moment is the one that is meant. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "base/clock.h"
#include "tests/libslime/rpc/pair.h"
#include "src/endpoint/endpoint.h"
#include "src/rpc/mailbox.h"
#include "src/rpc/rpc_pool.h"
#include "src/rpc/rpc_request.h"

#define LONG_LEN 100000

static struct pair *p;
static struct slime_call *call;
static struct slime_rpc_request *req;
static int64_t timeout_ms = -1;
static void (*meanwhile)(void); /* while the next chunk is had */
static int had;			/* what that comes to, unless 0 */
static uint8_t bytes[LONG_LEN];

int __real_sl_pool_get(struct sl_pool *pool, struct sl_account *a, uint64_t len, bool admitted,
		       const struct sl_chunk *beside, struct sl_chunk **out);
int __wrap_sl_pool_get(struct sl_pool *pool, struct sl_account *a, uint64_t len, bool admitted,
		       const struct sl_chunk *beside, struct sl_chunk **out);

int __wrap_sl_pool_get(struct sl_pool *pool, struct sl_account *a, uint64_t len, bool admitted,
		       const struct sl_chunk *beside, struct sl_chunk **out)
{
	void (*fn)(void) = meanwhile;
	int ret = had;

	meanwhile = NULL;
	had = 0;
	if (fn)
		fn();
	if (ret)
		return ret;
	return __real_sl_pool_get(pool, a, len, admitted, beside, out);
}

static void open_pair(enum slime_transport transport)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	attr.manual = true;
	p = pair_open(transport, &attr);
	call = make_call(p->a.ctx);
}

static void close_pair(void)
{
	assert_int_equal(slime_call_destroy(call), 0);
	pair_close(p);
}

static int poll_both(void)
{
	return slime_context_poll(p->a.ctx) + slime_context_poll(p->b.ctx);
}

static void poll_while_there_is_something(void)
{
	while (poll_both())
		;
}

static bool came_true(bool (*cond)(void))
{
	uint64_t end = sl_clock_ns() + PAIR_TIMEOUT_MS * SL_NS_PER_MS;

	while (!cond() && sl_clock_ns() < end) {
		poll_both();
		sched_yield();
	}
	return cond();
}

static bool is_over(void)
{
	return slime_call_test(call);
}

static bool is_on_shelf(void)
{
	return shelf_count(&p->b.shelf) == 1;
}

static bool is_told(void)
{
	return slime_rpc_request_cancelled(req);
}

static int start_call(struct slime_call *which, const char *method, size_t len, size_t cap)
{
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;

	args.method = slime_rpc_method_id(method);
	args.request = bytes;
	args.request_len = len;
	args.reply = bytes;
	args.reply_cap = cap;
	args.timeout_ms = timeout_ms;
	return slime_call_start(p->a.ep, &args, which);
}

static void start(const char *method, size_t len, size_t cap)
{
	assert_int_equal(start_call(call, method, len, cap), 0);
}

static void cancel_and_look(void)
{
	assert_int_equal(slime_call_cancel(call), 0);
	poll_while_there_is_something();
}

/* Over tcp nothing is copied. */
static void cancel__while_the_request_is_copied_ends_the_call(void **state)
{
	(void)state;
	open_pair(SLIME_TRANSPORT_SHM);
	meanwhile = cancel_and_look;
	start("defer", LONG_LEN, 0);
	assert_null(meanwhile);
	assert_true(came_true(is_over));
	assert_int_equal(slime_call_status(call), -ECANCELED);
	if (is_on_shelf())
		assert_int_equal(slime_rpc_reply(shelf_take(&p->b.shelf), NULL, 0), -ECANCELED);
	close_pair();
}

static void cancel_until_told(void)
{
	assert_int_equal(slime_call_cancel(call), 0);
	assert_true(came_true(is_told));
}

static void cancel__while_the_handler_gets_a_buffer_does_not_wait_for_it(void **state)
{
	static const enum slime_transport transports[] = { SLIME_TRANSPORT_SHM,
							   SLIME_TRANSPORT_TCP };

	(void)state;
	for (int i = 0; i < 2; i++) {
		open_pair(transports[i]);
		start("defer", 8, LONG_LEN);
		assert_true(came_true(is_on_shelf));
		req = shelf_take(&p->b.shelf);
		meanwhile = cancel_until_told;
		assert_non_null(slime_rpc_reply_buffer(req, LONG_LEN));
		assert_null(meanwhile);
		assert_true(came_true(is_over));
		assert_int_equal(slime_call_status(call), -ECANCELED);
		assert_int_equal(slime_rpc_reply_commit(req, LONG_LEN), -ECANCELED);
		close_pair();
	}
}

static void let_others_have(struct sl_mailbox *mb, struct sl_account *account, uint64_t len)
{
	pthread_mutex_lock(&mb->rpc->pool.lock);
	account->admitted += len;
	pthread_mutex_unlock(&mb->rpc->pool.lock);
}

/* There is room for one. */
static void call__that_waits_for_two_chunks_lets_its_context_sleep(void **state)
{
	struct sl_mailbox *mb;
	unsigned rounds = 0;

	(void)state;
	open_pair(SLIME_TRANSPORT_SHM);
	mb = p->a.ep->mailbox;
	let_others_have(mb, &mb->calling, SL_ACCOUNT_ADMIT - LONG_LEN);
	start("echo_inline", LONG_LEN, LONG_LEN);
	while (slime_context_poll(p->a.ctx) > 0 || slime_context_arm(p->a.ctx) == -EAGAIN)
		assert_true(rounds++ < 1000);
	assert_false(is_over());
	let_others_have(mb, &mb->calling, -(SL_ACCOUNT_ADMIT - LONG_LEN));
	sl_rpc_ring(mb->rpc);
	assert_true(came_true(is_over));
	assert_int_equal(slime_call_status(call), 0);
	close_pair();
}

static struct slime_call *others[SL_CALL_SLOTS];

static void start_one_that_waits(void)
{
	assert_int_equal(start_call(others[SL_CALL_SLOTS - 1], "defer", 8, 0), 0);
}

static bool are_all_on_shelf(void)
{
	return shelf_count(&p->b.shelf) == SL_CALL_SLOTS;
}

/* It had taken the last slot there was. */
static void call__that_has_no_memory_leaves_its_slot_to_who_waits(void **state)
{
	(void)state;
	open_pair(SLIME_TRANSPORT_SHM);
	for (unsigned i = 0; i < SL_CALL_SLOTS; i++)
		others[i] = make_call(p->a.ctx);
	for (unsigned i = 0; i < SL_CALL_SLOTS - 1; i++)
		assert_int_equal(
			start_call(others[i], "defer", i < SL_CALL_SLOTS_SMALL ? 8 : 5000, 0), 0);
	meanwhile = start_one_that_waits;
	had = -ENOMEM;
	assert_int_equal(start_call(call, "defer", 5000, LONG_LEN), -ENOMEM);
	assert_null(meanwhile);
	assert_true(came_true(are_all_on_shelf));
	for (unsigned i = 0; i < SL_CALL_SLOTS; i++)
		assert_int_equal(slime_rpc_reply(shelf_take(&p->b.shelf), NULL, 0), 0);
	for (unsigned i = 0; i < SL_CALL_SLOTS; i++) {
		while (!slime_call_test(others[i]))
			poll_both();
		assert_int_equal(slime_call_destroy(others[i]), 0);
	}
	close_pair();
}

/* Of two contexts that call each other each would wait for the other. */
static void request__is_read_while_calls_have_all_the_memory(void **state)
{
	struct sl_pool *pool;

	(void)state;
	open_pair(SLIME_TRANSPORT_SHM);
	pool = &((struct sl_mailbox *)p->b.ep->mailbox)->rpc->pool;
	pool->admitted[true] += SL_POOL_ADMIT;
	start("echo_inline", LONG_LEN, LONG_LEN);
	assert_true(came_true(is_over));
	assert_int_equal(slime_call_status(call), 0);
	pool->admitted[true] -= SL_POOL_ADMIT;
	close_pair();
}

/* ---- what is not admitted ---- */

static bool is_unread(void)
{
	return !sl_list_empty(&((struct sl_mailbox *)p->b.ep->mailbox)->unread);
}

/* Nothing of it is read, and no handler has it, before there is room. */
static void request__beyond_what_is_admitted_waits_unread(void **state)
{
	static const enum slime_transport transports[] = { SLIME_TRANSPORT_SHM,
							   SLIME_TRANSPORT_TCP };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct sl_mailbox *mb;

		open_pair(transports[i]);
		mb = p->b.ep->mailbox;
		let_others_have(mb, &mb->serving, SL_ACCOUNT_ADMIT);
		start("defer", LONG_LEN, 0);
		assert_true(came_true(is_unread));
		poll_while_there_is_something();
		assert_true(is_unread());
		assert_false(is_on_shelf());
		let_others_have(mb, &mb->serving, -SL_ACCOUNT_ADMIT);
		sl_rpc_ring(mb->rpc);
		assert_true(came_true(is_on_shelf));
		assert_int_equal(slime_rpc_reply(shelf_take(&p->b.shelf), NULL, 0), 0);
		assert_true(came_true(is_over));
		assert_int_equal(slime_call_status(call), 0);
		close_pair();
	}
}

/* It came, and was refused. */
static bool is_refused(void)
{
	const struct sl_mailbox *mb = p->b.ep->mailbox;

	for (unsigned i = 0; i < SL_CALL_SLOTS; i++) {
		if (mb->requests[i] && atomic_load(&mb->requests[i]->state) == SL_REQUEST_FREE)
			return true;
	}
	return false;
}

/* The caller, which nobody moves, does not say that its time is over. */
static void deadline__of_a_request_that_waits_unread_runs_meanwhile(void **state)
{
	uint64_t end = sl_clock_ns() + PAIR_TIMEOUT_MS * SL_NS_PER_MS;
	struct sl_mailbox *mb;

	(void)state;
	open_pair(SLIME_TRANSPORT_SHM);
	mb = p->b.ep->mailbox;
	let_others_have(mb, &mb->serving, SL_ACCOUNT_ADMIT);
	timeout_ms = 20;
	start("defer", LONG_LEN, 0);
	timeout_ms = -1;
	while (!is_refused()) {
		slime_context_poll(p->b.ctx);
		assert_true(sl_clock_ns() < end);
	}
	assert_false(is_on_shelf());
	let_others_have(mb, &mb->serving, -SL_ACCOUNT_ADMIT);
	assert_true(came_true(is_over));
	assert_int_equal(slime_call_status(call), -ETIMEDOUT);
	close_pair();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(request__beyond_what_is_admitted_waits_unread),
		cmocka_unit_test(deadline__of_a_request_that_waits_unread_runs_meanwhile),
		cmocka_unit_test(cancel__while_the_request_is_copied_ends_the_call),
		cmocka_unit_test(cancel__while_the_handler_gets_a_buffer_does_not_wait_for_it),
		cmocka_unit_test(call__that_waits_for_two_chunks_lets_its_context_sleep),
		cmocka_unit_test(call__that_has_no_memory_leaves_its_slot_to_who_waits),
		cmocka_unit_test(request__is_read_while_calls_have_all_the_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
