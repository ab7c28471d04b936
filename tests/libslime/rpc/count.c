/* SPDX-License-Identifier: Apache-2.0 */
/* Calls allocate nothing once the link has what it keeps, on no thread of either side. */
#include <stdlib.h>

#include "tests/libslime/rpc/pair.h"
#include "support/allocations.h"

static const char *const methods[] = { "echo", "echo_inline", "echo_in_place" };
static const size_t lens[] = { 64, 1024, 5000, 100000 };

static void all(struct pair *p, struct slime_call *call, uint8_t *out, uint8_t *in)
{
	for (size_t m = 0; m < sizeof(methods) / sizeof(methods[0]); m++) {
		for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
			assert_int_equal(
				call_now(p->a.ep, call, methods[m], out, lens[i], in, lens[i]), 0);
		assert_int_equal(call_now(p->a.ep, call, methods[m], out, 100000, NULL, 100000), 0);
	}
}

static void calls__after_the_first_allocate_nothing(void **state)
{
	static uint8_t out[100000], in[100000];
	struct pair *p = *state;
	struct slime_call *call;
	uint64_t n;

	assert_int_equal(slime_call_create(p->a.ctx, NULL, &call), 0);
	assert_true(hook_works());
	all(p, call, out, in);

	n_allocations = 0;
	counting = true;
	for (int i = 0; i < 100; i++)
		all(p, call, out, in);
	counting = false;
	n = n_allocations;
	assert_int_equal(n, 0);
	assert_int_equal(slime_call_destroy(call), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		IN_PAIR(calls__after_the_first_allocate_nothing),
	};

	return PAIR_RUN("rpc count", tests);
}
