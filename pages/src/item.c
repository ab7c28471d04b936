/* SPDX-License-Identifier: Apache-2.0 */
#include "pages/src/item.h"

uint64_t item_room(const struct slime_pages_item *item)
{
	uint64_t len = 0;

	for (uint32_t b = 0; b < item->n_bufs; b++)
		len += item->bufs[b].len;
	return len;
}

void item_finish(struct slime_pages_request *req, uint32_t i, int status)
{
	req->items[i].status = status;
	req->states[i].done = true;
}

uint64_t item_checksum(const struct slime_pages_item *item, uint32_t len)
{
	const struct slime_pages_buf *buf = item->bufs;
	struct page_sum *sum;
	uint64_t value;

	if (!item->n_bufs)
		return page_checksum("", 0);
	if (len <= buf->len)
		return page_checksum((const uint8_t *)slime_mr_addr(buf->mr) + buf->offset, len);
	sum = page_sum_create();
	if (!sum)
		return 0;
	page_sum_begin(sum);
	for (; len; buf++) {
		uint32_t n = buf->len < len ? (uint32_t)buf->len : len;

		page_sum_add(sum, (const uint8_t *)slime_mr_addr(buf->mr) + buf->offset, n);
		len -= n;
	}
	value = page_sum_end(sum);
	page_sum_destroy(sum);
	return value;
}
