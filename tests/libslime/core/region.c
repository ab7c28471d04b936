/* SPDX-License-Identifier: Apache-2.0 */
/* The table of regions: what a peer's access is checked against. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>

#include "src/core/region.h"

#define assert_ok(expr) assert_int_equal(expr, 0)

#define SLOTS 4

static uint8_t memory[4096];

struct table {
	struct sl_region_table t;
	struct sl_region *r;
};

static struct table world;

static struct sl_region *add(uint32_t access)
{
	struct sl_region what = { .access = access, .base = memory, .len = sizeof(memory) };
	struct sl_region *r;

	assert_ok(sl_region_add(&world.t, &what, &r));
	return r;
}

static int setup(void **state)
{
	(void)state;
	assert_ok(sl_region_table_init(&world.t, 1, SLOTS));
	world.r = add(SLIME_ACCESS_REMOTE_READ);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	sl_region_table_fini(&world.t);
	return 0;
}

/* The endpoint whose peer asks. */
#define ASKED 7

static struct sl_region_user shown_by(uint64_t endpoint)
{
	return (struct sl_region_user){ .endpoint = endpoint, .shown = true };
}

static int acquire(uint32_t id, uint64_t generation, uint64_t offset, uint64_t len, uint32_t access)
{
	struct sl_region *r;
	uint8_t *ptr;
	int ret = sl_region_acquire(&world.t, shown_by(ASKED), id, generation, offset, len, access,
				    &r, &ptr);

	if (!ret) {
		assert_int_equal((uintptr_t)ptr, (uintptr_t)memory + offset);
		sl_region_release(r);
	}
	return ret;
}

static void acquire__inside_gives_the_place(void **state)
{
	uint64_t g = world.r->generation;

	(void)state;
	assert_ok(acquire(world.r->id, g, 0, 4096, SLIME_ACCESS_REMOTE_READ));
	assert_ok(acquire(world.r->id, g, 4095, 1, SLIME_ACCESS_REMOTE_READ));
	assert_ok(acquire(world.r->id, g, 4096, 0, SLIME_ACCESS_REMOTE_READ));
	assert_int_equal(world.r->n_users, 0);
}

static void acquire__outside_is_refused(void **state)
{
	uint64_t g = world.r->generation;

	(void)state;
	assert_int_equal(acquire(world.r->id, g, 0, 4097, 1), -ERANGE);
	assert_int_equal(acquire(world.r->id, g, 4096, 1, 1), -ERANGE);
	assert_int_equal(acquire(world.r->id, g, 4097, 0, 1), -ERANGE);
	assert_int_equal(acquire(world.r->id, g, UINT64_MAX, 2, 1), -ERANGE);
	assert_int_equal(acquire(world.r->id, g, 2, UINT64_MAX, 1), -ERANGE);
	assert_int_equal(world.r->n_users, 0);
}

static void acquire__without_the_right_is_refused(void **state)
{
	uint64_t g = world.r->generation;

	(void)state;
	assert_int_equal(acquire(world.r->id, g, 0, 1, SLIME_ACCESS_REMOTE_WRITE), -EACCES);
	assert_int_equal(
		acquire(world.r->id, g, 0, 1, SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE),
		-EACCES);
}

static void acquire__of_what_is_not_there_is_stale(void **state)
{
	uint64_t g = world.r->generation;

	(void)state;
	assert_int_equal(acquire(world.r->id, g + 1, 0, 1, 1), -ESTALE);
	assert_int_equal(acquire(world.r->id, g - 1, 0, 1, 1), -ESTALE);
	assert_int_equal(acquire(world.r->id + 1, g, 0, 1, 1), -ESTALE);
	assert_int_equal(acquire(SLOTS, g, 0, 1, 1), -ESTALE);
	assert_int_equal(acquire(UINT32_MAX, g, 0, 1, 1), -ESTALE);
	sl_region_withdraw(world.r);
	assert_int_equal(acquire(world.r->id, g, 0, 1, 1), -ESTALE);
}

/* Also where it would be refused for another reason. */
static void acquire__by_a_link_that_did_not_show_the_secret_is_stale(void **state)
{
	const struct sl_region_user user = { .endpoint = ASKED };
	uint64_t g = world.r->generation;
	struct sl_region *r;
	uint8_t *ptr;

	(void)state;
	assert_int_equal(sl_region_acquire(&world.t, user, world.r->id, g, 0, 1,
					   SLIME_ACCESS_REMOTE_READ, &r, &ptr),
			 -ESTALE);
	assert_int_equal(sl_region_acquire(&world.t, user, world.r->id, g, 9999, 1,
					   SLIME_ACCESS_REMOTE_WRITE, &r, &ptr),
			 -ESTALE);
	assert_int_equal(world.r->n_users, 0);
}

static int check(uint32_t id, uint64_t generation, uint64_t low, uint64_t high)
{
	const uint64_t secret[2] = { low, high };

	return sl_region_check_secret(&world.t, id, generation, secret);
}

static void check_secret__says_whether_it_is_right(void **state)
{
	uint64_t g = world.r->generation;
	uint32_t id = world.r->id;

	(void)state;
	world.r->secret[0] = 5;
	world.r->secret[1] = UINT64_C(1) << 63;
	assert_ok(check(id, g, 5, UINT64_C(1) << 63));
	assert_int_equal(check(id, g, 4, UINT64_C(1) << 63), -EACCES);
	assert_int_equal(check(id, g, 5, 0), -EACCES);
	assert_int_equal(check(id, g, UINT64_C(1) << 63, 5), -EACCES);
	assert_int_equal(check(id, g + 1, 5, UINT64_C(1) << 63), -ESTALE);
	assert_int_equal(check(SLOTS, g, 5, UINT64_C(1) << 63), -ESTALE);
	/* One that is lent to a link has none. */
	world.r->loan_to = ASKED;
	assert_int_equal(check(id, g, 5, UINT64_C(1) << 63), -ESTALE);
	world.r->loan_to = 0;
	sl_region_withdraw(world.r);
	assert_int_equal(check(id, g, 5, UINT64_C(1) << 63), -ESTALE);
	assert_int_equal(world.r->n_users, 0);
}

static void acquire__of_what_is_lent_to_another_peer_is_stale(void **state)
{
	uint64_t g = world.r->generation;

	(void)state;
	world.r->loan_to = ASKED;
	assert_ok(acquire(world.r->id, g, 0, 1, 1));
	world.r->loan_to = ASKED + 1;
	assert_int_equal(acquire(world.r->id, g, 0, 1, 1), -ESTALE);
	assert_int_equal(world.r->n_users, 0);
}

static void add__into_a_slot_again_has_a_generation_never_used(void **state)
{
	uint64_t seen = world.r->generation;

	(void)state;
	for (int i = 0; i < 100; i++) {
		uint64_t old = world.r->generation;
		uint32_t id = world.r->id;

		sl_region_withdraw(world.r);
		sl_region_remove(&world.t, world.r);
		world.r = add(SLIME_ACCESS_REMOTE_READ);
		assert_int_equal(world.r->id, id);
		assert_true(world.r->generation > seen);
		seen = world.r->generation;
		assert_int_equal(acquire(id, old, 0, 1, 1), -ESTALE);
	}
}

static void add__into_a_full_table_is_refused(void **state)
{
	struct sl_region what = { .base = memory, .len = 1 };
	struct sl_region *r;

	(void)state;
	for (int i = 1; i < SLOTS; i++)
		add(0);
	assert_int_equal(sl_region_add(&world.t, &what, &r), -ENOSPC);
}

/* Who holds a region keeps its slot from being given to another. */
static void add__skips_a_slot_that_a_peer_still_uses(void **state)
{
	struct sl_region *held, *fresh;
	uint8_t *ptr;

	(void)state;
	assert_ok(sl_region_acquire(&world.t, shown_by(ASKED), world.r->id, world.r->generation, 0,
				    1, 1, &held, &ptr));
	sl_region_withdraw(world.r);
	sl_region_remove(&world.t, world.r);
	fresh = add(0);
	assert_ptr_not_equal(fresh, held);
	sl_region_release(held);
	assert_ptr_equal(add(0), held);
}

#define IN_TABLE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_TABLE(acquire__inside_gives_the_place),
		IN_TABLE(acquire__outside_is_refused),
		IN_TABLE(acquire__without_the_right_is_refused),
		IN_TABLE(acquire__of_what_is_not_there_is_stale),
		IN_TABLE(acquire__by_a_link_that_did_not_show_the_secret_is_stale),
		IN_TABLE(check_secret__says_whether_it_is_right),
		IN_TABLE(acquire__of_what_is_lent_to_another_peer_is_stale),
		IN_TABLE(add__into_a_slot_again_has_a_generation_never_used),
		IN_TABLE(add__into_a_full_table_is_refused),
		IN_TABLE(add__skips_a_slot_that_a_peer_still_uses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
