/* SPDX-License-Identifier: Apache-2.0 */
/* Memory runs out at every place where a call or a request asks for it: the call says so, nothing
 * is left behind, and the link goes on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "tests/libslime/rpc/pair.h"
#include "src/core/region.h"
#include "src/rpc/rpc_pool.h"
#include <tests/support/fail_alloc.h>

static enum slime_transport transport;

struct attempt {
	const char *method;
	size_t len;
	bool with_room;
};

/* 0 or how it failed. Both contexts are moved from here: there is no other thread. */
static int try_call(struct pair *p, const struct attempt *a)
{
	static uint8_t out[100000], in[100000];
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	struct slime_call *call;
	int status = slime_call_create(p->a.ctx, NULL, &call);

	if (status)
		return status;
	pattern_fill(out, a->len, 5);
	args.method = slime_rpc_method_id(a->method);
	args.request = out;
	args.request_len = a->len;
	args.reply = a->with_room ? in : NULL;
	args.reply_cap = a->len;
	status = slime_call_start(p->a.ep, &args, call);
	while (!status && !slime_call_test(call)) {
		slime_context_poll(p->a.ctx);
		slime_context_poll(p->b.ctx);
	}
	if (!status)
		status = slime_call_status(call);
	if (!status)
		assert_true(pattern_ok(slime_call_reply_data(call), a->len, 5));
	assert_int_equal(slime_call_destroy(call), 0);
	return status;
}

/* Over tcp memory for the work of an idle link comes from the context's pools: without it the link
 * ends. */
static bool is_lost(int status)
{
	return transport == SLIME_TRANSPORT_TCP && status == -ECONNRESET;
}

static void fail_at_each(const struct attempt *a)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	bool happened = true;

	attr.manual = true;
	for (long n = 1; happened; n++) {
		struct pair *p = pair_open(transport, &attr);
		int status;

		fail_alloc_at(n);
		status = try_call(p, a);
		happened = fail_alloc_end();
		if (happened && is_lost(status)) {
			pair_close(p);
			continue;
		}
		if (happened)
			/* -EREMOTEIO: the handler's own answer to a buffer it did not get. */
			assert_true(status == 0 || status == -ENOMEM || status == -ENOBUFS ||
				    status == -EREMOTEIO);
		else
			assert_int_equal(status, 0);
		assert_int_equal(try_call(p, a), 0);
		pair_close(p);
	}
}

static void call__short_without_memory_fails_and_the_link_goes_on_or_ends(void **state)
{
	static const struct attempt a = { "echo_inline", 64, false };

	(void)state;
	fail_at_each(&a);
}

static void call__long_without_memory_fails_and_the_link_goes_on_or_ends(void **state)
{
	static const struct attempt with_room = { "echo_inline", 100000, true };
	static const struct attempt kept = { "echo_in_place", 100000, false };

	(void)state;
	fail_at_each(&with_room);
	fail_at_each(&kept);
}

static bool populate_fails; /* half of it is there by then */
static unsigned n_populated;

int __real_sl_mem_populate(uint8_t *addr, size_t len);
int __wrap_sl_mem_populate(uint8_t *addr, size_t len);

int __wrap_sl_mem_populate(uint8_t *addr, size_t len)
{
	n_populated++;
	return __real_sl_mem_populate(addr, populate_fails ? len / 2 : len) || populate_fails
		       ? -ENOMEM
		       : 0;
}

/* A peer would be killed by it, or wait for each page: nothing is lent before all of it is there,
 * also when that was tried before. */
static void pool__populates_what_was_given_back_until_it_succeeds(void **state)
{
	struct slime_context *ctx;
	struct sl_account account;
	struct sl_chunk *c;
	struct sl_pool pool;

	(void)state;
	assert_int_equal(slime_context_create(NULL, &ctx), 0);
	sl_pool_init(&pool, ctx);
	sl_account_init(&account, true);
	assert_int_equal(sl_pool_get(&pool, &account, 100000, true, NULL, &c), 0);
	sl_pool_put(&pool, c);
	sl_pool_trim(&pool, &account, SL_NEVER - 1);
	n_populated = 0;
	populate_fails = true;
	for (unsigned i = 1; i < 3; i++) {
		assert_int_equal(sl_pool_get(&pool, &account, 100000, true, NULL, &c), -ENOMEM);
		assert_int_equal(n_populated, i);
	}
	populate_fails = false;
	assert_int_equal(sl_pool_get(&pool, &account, 100000, true, NULL, &c), 0);
	assert_int_equal(n_populated, 3);
	sl_pool_put(&pool, c);
	assert_int_equal(sl_pool_get(&pool, &account, 100000, true, NULL, &c), 0);
	assert_int_equal(n_populated, 3);
	sl_pool_put(&pool, c);
	sl_pool_drop(&pool, &account);
	sl_pool_fini(&pool);
	assert_int_equal(slime_context_destroy(ctx), 0);
}

/* Of the memory that the chunk is a part of. */
static long blocks_of(const struct sl_chunk *c)
{
	struct stat st;

	assert_int_equal(fstat(sl_chunk_mr(c)->region->memfd, &st), 0);
	return st.st_blocks;
}

static void pool__gives_back_what_was_populated_in_vain(void **state)
{
	struct slime_context *ctx;
	struct sl_account account;
	struct sl_chunk *c, *failed;
	struct sl_pool pool;

	(void)state;
	assert_int_equal(slime_context_create(NULL, &ctx), 0);
	sl_pool_init(&pool, ctx);
	sl_account_init(&account, true);
	assert_int_equal(sl_pool_get(&pool, &account, 100000, true, NULL, &c), 0);
	assert_true(blocks_of(c) > 0);
	sl_pool_put(&pool, c);
	sl_pool_trim(&pool, &account, SL_NEVER - 1);
	assert_int_equal(blocks_of(c), 0);
	populate_fails = true;
	assert_int_equal(sl_pool_get(&pool, &account, 100000, true, NULL, &failed), -ENOMEM);
	populate_fails = false;
	sl_pool_trim(&pool, &account, SL_NEVER - 1);
	assert_int_equal(blocks_of(c), 0);
	sl_pool_drop(&pool, &account);
	sl_pool_fini(&pool);
	assert_int_equal(slime_context_destroy(ctx), 0);
}

/* Who waits for the lock, or the token, does not wait for all of it. */
static void pool__gives_a_large_one_back_bit_by_bit(void **state)
{
	struct slime_context *ctx;
	struct sl_account account;
	struct sl_chunk *c;
	struct sl_pool pool;
	long all, left;

	(void)state;
	assert_int_equal(slime_context_create(NULL, &ctx), 0);
	sl_pool_init(&pool, ctx);
	sl_account_init(&account, true);
	assert_int_equal(sl_pool_get(&pool, &account, 64 << 20, true, NULL, &c), 0);
	left = all = blocks_of(c);
	sl_pool_put(&pool, c);
	while (sl_pool_trim(&pool, &account, SL_NEVER - 1) != SL_NEVER) {
		assert_in_range(left - blocks_of(c), 1, all / 8);
		left = blocks_of(c);
	}
	assert_int_equal(left, 0);
	n_populated = 0;
	assert_int_equal(sl_pool_get(&pool, &account, 64 << 20, true, NULL, &c), 0);
	assert_int_equal(n_populated, 1);
	assert_int_equal(blocks_of(c), all);
	sl_pool_put(&pool, c);
	sl_pool_drop(&pool, &account);
	sl_pool_fini(&pool);
	assert_int_equal(slime_context_destroy(ctx), 0);
}

/* What one peer's calls may have out, and what those of all may. One that is larger than that
 * is admitted alone, and what is held for the same purpose does not wait for itself. */
static void pool__admits_so_much_for_an_account_and_for_all(void **state)
{
	struct slime_context *ctx;
	struct sl_account accounts[5];
	struct sl_chunk *full[4], *c, *beside;
	struct sl_pool pool;

	(void)state;
	assert_int_equal(slime_context_create(NULL, &ctx), 0);
	sl_pool_init(&pool, ctx);
	for (size_t i = 0; i < 5; i++)
		sl_account_init(&accounts[i], false);

	assert_int_equal(sl_pool_get(&pool, &accounts[0], SL_ACCOUNT_ADMIT, true, NULL, &full[0]),
			 0);
	assert_int_equal(sl_pool_get(&pool, &accounts[0], 1, true, NULL, &c), -EAGAIN);
	assert_int_equal(sl_pool_get(&pool, &accounts[0], 1, false, NULL, &c), 0);
	sl_pool_put(&pool, c);
	assert_int_equal(sl_pool_get(&pool, &accounts[0], 1, true, full[0], &beside), 0);
	sl_pool_put(&pool, beside);

	for (size_t i = 1; i < 4; i++)
		assert_int_equal(
			sl_pool_get(&pool, &accounts[i], SL_ACCOUNT_ADMIT, true, NULL, &full[i]),
			0);
	assert_int_equal(sl_pool_get(&pool, &accounts[4], 1, true, NULL, &c), -EAGAIN);
	for (size_t i = 0; i < 4; i++)
		sl_pool_put(&pool, full[i]);
	assert_int_equal(sl_pool_get(&pool, &accounts[4], SL_ACCOUNT_ADMIT + 1, true, NULL, &c), 0);
	sl_pool_put(&pool, c);
	assert_int_equal(pool.admitted[false], 0);

	for (size_t i = 0; i < 5; i++)
		sl_pool_drop(&pool, &accounts[i]);
	sl_pool_fini(&pool);
	assert_int_equal(slime_context_destroy(ctx), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(call__short_without_memory_fails_and_the_link_goes_on_or_ends),
		cmocka_unit_test(call__long_without_memory_fails_and_the_link_goes_on_or_ends),
	};
	static const struct CMUnitTest of_memory[] = {
		cmocka_unit_test(pool__populates_what_was_given_back_until_it_succeeds),
		cmocka_unit_test(pool__gives_back_what_was_populated_in_vain),
		cmocka_unit_test(pool__gives_a_large_one_back_bit_by_bit),
		cmocka_unit_test(pool__admits_so_much_for_an_account_and_for_all),
	};
	int failed;

	transport = SLIME_TRANSPORT_SHM;
	failed = cmocka_run_group_tests_name("rpc memory", of_memory, NULL, NULL);
	failed += cmocka_run_group_tests_name("rpc over shm", tests, NULL, NULL);
	transport = SLIME_TRANSPORT_TCP;
	return failed + cmocka_run_group_tests_name("rpc over tcp", tests, NULL, NULL);
}
