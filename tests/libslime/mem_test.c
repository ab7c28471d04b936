/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the library where a control group has less than the machine. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <slime/slime.h>

#include "base/memory.h"

#define LEFT (UINT64_C(4) << 20)

void __wrap_sl_memory_left(const char *root, struct sl_memory *out);

void __wrap_sl_memory_left(const char *root, struct sl_memory *out)
{
	(void)root;
	*out = (struct sl_memory){ .ram = LEFT / 2, .swap = LEFT / 2 };
}

static int setup(void **state)
{
	assert_int_equal(slime_context_create(NULL, (struct slime_context **)state), 0);
	return 0;
}

static int teardown(void **state)
{
	return slime_context_destroy(*state);
}

static void alloc__of_more_than_is_left_is_refused(void **state)
{
	struct slime_mem *mem = NULL;

	assert_int_equal(slime_mem_alloc(*state, LEFT + 1, NULL, &mem), -ENOMEM);

	assert_null(mem);
}

static void alloc__of_all_that_is_left_is_tried(void **state)
{
	struct slime_mem *mem = NULL;

	assert_int_equal(slime_mem_alloc(*state, LEFT, NULL, &mem), 0);

	assert_int_equal(slime_mem_destroy(mem), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(alloc__of_more_than_is_left_is_refused, setup,
						teardown),
		cmocka_unit_test_setup_teardown(alloc__of_all_that_is_left_is_tried, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
