/* SPDX-License-Identifier: Apache-2.0 */
/* A piece of more than 4 GiB between memory of the library's own, where there is so much. */
#include "fixture.h"

#define GiB ((uint64_t)MiB * 1024)
#define LEN (4 * GiB + 5 * MiB + 3)
#define AT  (17u)

/* Bytes are compared at the ends, and around where 32 bits would begin anew. */
#define WINDOW ((uint64_t)8 * MiB)
static const uint64_t windows[] = { 0, 2 * GiB - WINDOW / 2, 4 * GiB - WINDOW / 2, LEN - WINDOW };
#define N_WINDOWS (sizeof(windows) / sizeof(windows[0]))

static void fill(uint8_t *at, uint64_t seed)
{
	for (size_t i = 0; i < N_WINDOWS; i++)
		pattern_fill(at + windows[i], WINDOW, seed, windows[i]);
}

static void assert_filled(const uint8_t *at, uint64_t seed)
{
	for (size_t i = 0; i < N_WINDOWS; i++)
		assert_pattern(at + windows[i], WINDOW, seed, windows[i]);
}

static void piece__of_more_than_4_gib_of_library_memory_arrives_whole(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	struct slime_xfer x;
	struct pair *p;

	(void)state;
	need_memory(12 * GiB);
	attr.len = LEN + AT;
	p = pair_open(&attr);
	x = a_and_b(p, 0, AT, LEN);
	fill(p->b.bytes + AT, 1);
	assert_ok(read_now(p, &x));
	assert_true(slime_op_bytes(p->a.op) == LEN);
	assert_filled(p->a.bytes, 1);
	fill(p->a.bytes, 2);
	assert_ok(write_now(p, &x));
	assert_true(slime_op_bytes(p->a.op) == LEN);
	assert_filled(p->b.bytes + AT, 2);
	pair_close(p);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(piece__of_more_than_4_gib_of_library_memory_arrives_whole),
};

FIXTURE_MAIN("huge")
