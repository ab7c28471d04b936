/* SPDX-License-Identifier: Apache-2.0 */
/* Debian's libxxhash is built for every CPU, so with vectors of 16 bytes: it takes twice as long
 * for bytes in a cache. */
#include "pages/src/page_avx2.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t page_avx2_checksum(const void *data, size_t len)
{
	return XXH3_64bits(data, len);
}

void page_avx2_sum_add(struct page_sum *sum, const void *data, size_t len)
{
	XXH3_64bits_update((XXH3_state_t *)sum, data, len);
}
