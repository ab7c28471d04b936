/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text_heap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MANY 20000 /* more than a block has room for */
#define LONG 200000

static void keep__of_very_many_and_of_long_ones_keeps_each(void **state)
{
	struct text_heap h = { .blocks = NULL };
	const char *kept[MANY], *whole;
	char *text = malloc(LONG), word[16];

	(void)state;
	memset(text, 'x', LONG);
	whole = text_heap_keep(&h, text, LONG);
	for (int i = 0; i < MANY; i++)
		kept[i] = text_heap_keep(&h, word, (size_t)snprintf(word, sizeof(word), "%d", i));
	for (int i = 0; i < MANY; i++)
		assert_int_equal(atoi(kept[i]), i);
	assert_memory_equal(whole, text, LONG);
	assert_int_equal(whole[LONG], '\0');
	assert_string_equal(text_heap_keep(&h, NULL, 0), "");
	assert_false(h.failed);
	text_heap_fini(&h);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keep__of_very_many_and_of_long_ones_keeps_each),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
