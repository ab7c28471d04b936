/* SPDX-License-Identifier: Apache-2.0 */
/* A region that is destroyed while an op of ours and an access of a peer's come: at each of the
 * accesses to what is known of the region. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <unistd.h>

#include "src/progress/context.h"
#include "src/core/region.h"
#include "tests/support/stepper.h"

#define assert_ok(expr) assert_int_equal(expr, 0)

static uint8_t memory[4096];

struct fence {
	struct slime_context *ctx;
	struct slime_mr *mr;
	int peer; /* what the peer's access came to */
};

/* An op begins, and is counted; a peer reads. */
static void both_come(void *arg)
{
	struct fence *f = arg;
	const struct sl_region_user user = { .endpoint = 1, .shown = true };
	struct sl_region *r = f->mr->region, *seen;
	uint8_t *at;

	atomic_fetch_add(&r->n_ops, 1);
	f->peer = sl_region_acquire(&f->ctx->regions, user, r->id, r->generation, 0, 1,
				    SLIME_ACCESS_REMOTE_READ, &seen, &at);
	if (!f->peer)
		sl_region_release(seen);
}

/* Destroy it, and have both come after n accesses: whether there were so many. */
static bool destroy_with_both_after(struct fence *f, unsigned n)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	struct sl_region *r;
	bool came;
	int ret;

	assert_ok(
		slime_mr_create(f->ctx, memory, sizeof(memory), SLIME_ACCESS_REMOTE_READ, &f->mr));
	r = f->mr->region;
	stepper_begin((void *)((uintptr_t)r & ~(page - 1)), 2 * page, n, both_come, f);
	ret = slime_mr_destroy(f->mr);
	came = stepper_end();
	if (ret) {
		assert_int_equal(ret, -EBUSY);
		assert_ok(f->peer);
		atomic_fetch_sub(&r->n_ops, 1);
		assert_ok(slime_mr_destroy(f->mr));
	}
	return came;
}

static void mr_destroy__that_an_op_prevents_refuses_no_peer(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct fence f = { 0 };
	unsigned n = 1;

	(void)state;
	/* No other thread looks at regions. */
	attr.manual = true;
	assert_ok(slime_context_create(&attr, &f.ctx));
	while (destroy_with_both_after(&f, n))
		n++;
	assert_true(n > 4);
	assert_ok(slime_context_destroy(f.ctx));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mr_destroy__that_an_op_prevents_refuses_no_peer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
