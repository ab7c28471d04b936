/* SPDX-License-Identifier: Apache-2.0 */
/* The checksums of page.h with vectors of 32 bytes, of the same value: for CPUs that have AVX2. */
#ifndef PAGES_PAGE_AVX2_H
#define PAGES_PAGE_AVX2_H

#include <stddef.h>
#include <stdint.h>

#include "pages/src/page.h"

uint64_t page_avx2_checksum(const void *data, size_t len);
void page_avx2_sum_add(struct page_sum *sum, const void *data, size_t len);

#endif
