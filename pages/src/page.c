/* SPDX-License-Identifier: Apache-2.0 */
#include <xxhash.h>

#include "pages/src/page.h"
#include "pages/src/page_avx2.h"

static bool has_avx2(void)
{
#ifdef __x86_64__
	return __builtin_cpu_supports("avx2");
#else
	return false;
#endif
}

struct page_hash page_hash(const void *key, size_t len, uint64_t seed)
{
	XXH128_hash_t h = XXH3_128bits_withSeed(key, len, seed);

	return (struct page_hash){ h.low64, h.high64 };
}

uint64_t page_checksum(const void *data, size_t len)
{
	return has_avx2() ? page_avx2_checksum(data, len) : XXH3_64bits(data, len);
}

struct page_sum *page_sum_create(void)
{
	return (struct page_sum *)XXH3_createState();
}

void page_sum_destroy(struct page_sum *sum)
{
	XXH3_freeState((XXH3_state_t *)sum);
}

void page_sum_begin(struct page_sum *sum)
{
	XXH3_64bits_reset((XXH3_state_t *)sum);
}

void page_sum_add(struct page_sum *sum, const void *data, size_t len)
{
	if (has_avx2())
		page_avx2_sum_add(sum, data, len);
	else
		XXH3_64bits_update((XXH3_state_t *)sum, data, len);
}

uint64_t page_sum_end(const struct page_sum *sum)
{
	return XXH3_64bits_digest((const XXH3_state_t *)sum);
}

bool page_is(const struct page_header *copy, const struct page_identity *wanted)
{
	return atomic_load_explicit(&copy->generation, memory_order_relaxed) ==
		       wanted->generation &&
	       copy->hash.low == wanted->hash.low && copy->hash.high == wanted->hash.high &&
	       copy->len == wanted->len;
}

uint64_t page_seal(const struct page_identity *page, uint64_t checksum)
{
	const uint64_t covered[] = { page->generation, page->hash.low, page->hash.high, page->len,
				     checksum };

	return XXH3_64bits(covered, sizeof(covered));
}
