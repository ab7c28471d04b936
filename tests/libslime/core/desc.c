/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors: what is written is read again, and nothing else is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/wire.h"
#include "src/core/desc.h"

#define assert_ok(expr) assert_int_equal(expr, 0)

static const struct slime_remote_mr region = {
	.owner = UINT64_C(0x1122334455667788),
	.addr = 0x7f0000001000,
	.len = 65536,
	.generation = UINT64_C(0xaabbccdd00000001),
	.id = 17,
	.access = SLIME_ACCESS_REMOTE_READ,
	.kind = 1,
	.secret = { UINT64_C(0x0123456789abcdef), UINT64_C(0xfedcba9876543210) },
};

static struct sl_endpoint_desc endpoint(void)
{
	struct sl_endpoint_desc d = { .context = 1, .endpoint = 2, .n = 2 };

	memset(d.secret, 0x5a, sizeof(d.secret));
	d.candidates[0].transport = SLIME_TRANSPORT_SHM;
	d.candidates[0].len = 9;
	memcpy(d.candidates[0].bytes, "slime/abc", 9);
	d.candidates[1].transport = SLIME_TRANSPORT_TCP;
	d.candidates[1].len = SL_CANDIDATE_MAX;
	memset(d.candidates[1].bytes, 0x77, SL_CANDIDATE_MAX);
	return d;
}

static void read_region__of_what_was_written_is_the_same(void **state)
{
	uint8_t buf[SLIME_MR_DESC_MAX];
	struct slime_remote_mr got;
	int len = sl_desc_write_region(&region, buf, sizeof(buf));

	(void)state;
	assert_true(len > 0);
	assert_ok(sl_desc_read_region(&got, buf, (size_t)len));
	/* Its members: the bytes between them may be anything. */
	assert_int_equal(got.owner, region.owner);
	assert_int_equal(got.addr, region.addr);
	assert_int_equal(got.len, region.len);
	assert_int_equal(got.generation, region.generation);
	assert_int_equal(got.id, region.id);
	assert_int_equal(got.access, region.access);
	assert_int_equal(got.kind, region.kind);
	assert_memory_equal(got.secret, region.secret, sizeof(region.secret));
}

static void write__into_too_small_a_buffer_is_refused(void **state)
{
	struct sl_endpoint_desc d = endpoint();
	uint8_t buf[SLIME_ENDPOINT_DESC_MAX];
	int len = sl_desc_write_region(&region, buf, sizeof(buf));

	(void)state;
	for (int cap = 0; cap < len; cap++)
		assert_int_equal(sl_desc_write_region(&region, buf, (size_t)cap), -ENOSPC);
	len = sl_desc_write_endpoint(&d, buf, sizeof(buf));
	assert_true(len > 0);
	for (int cap = 0; cap < len; cap++)
		assert_int_equal(sl_desc_write_endpoint(&d, buf, (size_t)cap), -ENOSPC);
}

static void read_endpoint__of_what_was_written_is_the_same(void **state)
{
	struct sl_endpoint_desc d = endpoint(), got;
	uint8_t buf[SLIME_ENDPOINT_DESC_MAX];
	int len = sl_desc_write_endpoint(&d, buf, sizeof(buf));

	(void)state;
	assert_ok(sl_desc_read_endpoint(&got, buf, (size_t)len));
	assert_memory_equal(&got, &d, sizeof(d));
}

/* Each length is its own allocation, so that the sanitizer sees a read behind it. */
static void read__of_a_cut_descriptor_is_refused(void **state)
{
	struct sl_endpoint_desc d = endpoint(), got;
	struct slime_remote_mr r;
	uint8_t buf[SLIME_ENDPOINT_DESC_MAX];
	int len = sl_desc_write_endpoint(&d, buf, sizeof(buf));

	(void)state;
	for (int n = 0; n < len; n++) {
		uint8_t *cut = malloc(n ? (size_t)n : 1);

		memcpy(cut, buf, (size_t)n);
		assert_true(sl_desc_read_endpoint(&got, cut, (size_t)n) < 0);
		assert_true(sl_desc_read_region(&r, cut, (size_t)n) < 0);
		free(cut);
	}
}

static void read__of_more_than_a_descriptor_is_refused(void **state)
{
	struct sl_endpoint_desc d = endpoint(), got;
	struct slime_remote_mr r;
	uint8_t buf[SLIME_ENDPOINT_DESC_MAX] = { 0 };
	int len = sl_desc_write_endpoint(&d, buf, sizeof(buf));

	(void)state;
	assert_int_equal(sl_desc_read_endpoint(&got, buf, (size_t)len + 1), -EINVAL);
	len = sl_desc_write_region(&region, buf, sizeof(buf));
	assert_int_equal(sl_desc_read_region(&r, buf, (size_t)len + 1), -EINVAL);
}

static void read__of_another_version_says_so(void **state)
{
	struct sl_endpoint_desc d = endpoint(), got;
	struct slime_remote_mr r;
	uint8_t buf[SLIME_ENDPOINT_DESC_MAX];
	int len = sl_desc_write_endpoint(&d, buf, sizeof(buf));

	(void)state;
	sl_put_le16(buf + 4, 99);
	assert_int_equal(sl_desc_read_endpoint(&got, buf, (size_t)len), -EPROTONOSUPPORT);
	len = sl_desc_write_region(&region, buf, sizeof(buf));
	sl_put_le16(buf + 4, 99);
	assert_int_equal(sl_desc_read_region(&r, buf, (size_t)len), -EPROTONOSUPPORT);
}

static void read_region__that_wraps_or_is_empty_is_refused(void **state)
{
	struct slime_remote_mr bad = region, got;
	uint8_t buf[SLIME_MR_DESC_MAX];
	int len;

	(void)state;
	bad.len = 0;
	len = sl_desc_write_region(&bad, buf, sizeof(buf));
	assert_int_equal(sl_desc_read_region(&got, buf, (size_t)len), -EINVAL);
	bad.len = UINT64_MAX;
	len = sl_desc_write_region(&bad, buf, sizeof(buf));
	assert_int_equal(sl_desc_read_region(&got, buf, (size_t)len), -EINVAL);
}

static void read_endpoint__leaves_out_transports_it_does_not_know(void **state)
{
	struct sl_endpoint_desc d = endpoint(), got;
	uint8_t buf[SLIME_ENDPOINT_DESC_MAX];
	int len;

	(void)state;
	d.candidates[0].transport = (enum slime_transport)200;
	len = sl_desc_write_endpoint(&d, buf, sizeof(buf));
	assert_ok(sl_desc_read_endpoint(&got, buf, (size_t)len));
	assert_int_equal(got.n, 1);
	assert_int_equal(got.candidates[0].transport, SLIME_TRANSPORT_TCP);
}

static void read_endpoint__with_a_transport_twice_is_refused(void **state)
{
	struct sl_endpoint_desc d = endpoint(), got;
	uint8_t buf[SLIME_ENDPOINT_DESC_MAX];
	int len;

	(void)state;
	d.candidates[1].transport = SLIME_TRANSPORT_SHM;
	len = sl_desc_write_endpoint(&d, buf, sizeof(buf));
	assert_int_equal(sl_desc_read_endpoint(&got, buf, (size_t)len), -EINVAL);
}

/* Every byte damaged in turn: an error or a descriptor within its bounds, never a bad read. */
static void read__of_damaged_bytes_stays_in_bounds(void **state)
{
	struct sl_endpoint_desc d = endpoint(), got;
	struct slime_remote_mr r;
	uint8_t buf[SLIME_ENDPOINT_DESC_MAX];
	int len = sl_desc_write_endpoint(&d, buf, sizeof(buf));
	uint8_t *exact = malloc((size_t)len);

	(void)state;
	for (int i = 0; i < len; i++) {
		for (int bit = 0; bit < 8; bit++) {
			memcpy(exact, buf, (size_t)len);
			exact[i] ^= (uint8_t)(1 << bit);
			if (sl_desc_read_endpoint(&got, exact, (size_t)len) == 0)
				assert_true(got.n <= SLIME_TRANSPORT_MAX);
			(void)sl_desc_read_region(&r, exact, (size_t)len);
		}
	}
	free(exact);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read_region__of_what_was_written_is_the_same),
		cmocka_unit_test(write__into_too_small_a_buffer_is_refused),
		cmocka_unit_test(read_endpoint__of_what_was_written_is_the_same),
		cmocka_unit_test(read__of_a_cut_descriptor_is_refused),
		cmocka_unit_test(read__of_more_than_a_descriptor_is_refused),
		cmocka_unit_test(read__of_another_version_says_so),
		cmocka_unit_test(read_region__that_wraps_or_is_empty_is_refused),
		cmocka_unit_test(read_endpoint__leaves_out_transports_it_does_not_know),
		cmocka_unit_test(read_endpoint__with_a_transport_twice_is_refused),
		cmocka_unit_test(read__of_damaged_bytes_stays_in_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
