/* SPDX-License-Identifier: Apache-2.0 */
/* The copies between two mappings: every relation of addresses moves the same bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "src/core/copy.h"

/* What must stay as it was. */
#define AROUND 256
#define ROOM   (600 * 1024)

static _Alignas(4096) uint8_t source[ROOM];
static _Alignas(4096) uint8_t target[ROOM];

typedef void copy_fn(void *to, const void *from, size_t len);

static void check(copy_fn *copy, size_t to, size_t from, size_t len)
{
	size_t end = to + len + AROUND;

	memset(target, 0xa5, end);
	copy(target + to, source + from, len);
	sl_copy_stream_fence();
	assert_memory_equal(target + to, source + from, len);
	for (size_t i = 0; i < to; i++)
		assert_int_equal(target[i], 0xa5);
	for (size_t i = to + len; i < end; i++)
		assert_int_equal(target[i], 0xa5);
}

/* Lengths around a line, around where the string moves begin and end, and around a page. */
static void check_all(copy_fn *copy)
{
	static const size_t lens[] = { 0,    1,	   63,	 64,   65,   127,  128,	   129,
				       2047, 2048, 2049, 4096, 4101, 8192, 262145, 525000 };

	for (size_t l = 0; l < sizeof(lens) / sizeof(lens[0]); l++) {
		for (size_t skew = 0; skew < 70; skew += skew < 4 ? 1 : 11) {
			check(copy, skew, 0, lens[l]);
			check(copy, 0, skew, lens[l]);
			check(copy, 64 + skew, 64 + skew / 2, lens[l]);
		}
	}
}

static void copy__moves_these_bytes_and_no_other(void **state)
{
	(void)state;
	check_all(sl_copy);
}

static void stream__moves_these_bytes_and_no_other(void **state)
{
	(void)state;
	check_all(sl_copy_stream);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copy__moves_these_bytes_and_no_other),
		cmocka_unit_test(stream__moves_these_bytes_and_no_other),
	};

	for (size_t i = 0; i < sizeof(source); i++)
		source[i] = (uint8_t)(i * 7 + i / 251);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
