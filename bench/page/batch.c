/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "bench/page/batch.h"

#define BATCH_MS 60000

void page_batch_use(struct page_batch *b, uint32_t set)
{
	size_t at = (size_t)set * b->n;

	b->items = b->all_items + at;
	b->indices = b->all_indices + at;
	b->keys = b->all_keys + at;
}

int page_batch_init(struct page_batch *b, struct slime_agent *agent, struct slime_pages *pages,
		    uint32_t n, uint64_t page_size, uint32_t n_sets)
{
	struct slime_context *ctx = slime_agent_context(agent);
	size_t n_all = (size_t)n * n_sets;
	int ret;

	*b = (struct page_batch){ .n = n, .n_sets = n_sets, .page_size = page_size };
	b->bufs = calloc(n, sizeof(*b->bufs));
	b->all_items = calloc(n_all, sizeof(*b->items));
	b->all_indices = calloc(n_all, sizeof(*b->indices));
	b->all_keys = calloc(n_all, sizeof(*b->keys));
	if (!b->bufs || !b->all_items || !b->all_indices || !b->all_keys)
		return -ENOMEM;
	page_batch_use(b, 0);
	ret = slime_mem_alloc(ctx, n * page_size, NULL, &b->mem);
	if (!ret)
		ret = slime_mr_create(ctx, slime_mem_addr(b->mem), n * page_size,
				      SLIME_ACCESS_REMOTE_READ, &b->mr);
	if (!ret)
		ret = slime_pages_request_create(pages, NULL, &b->req);
	return ret;
}

void page_batch_fini(struct page_batch *b)
{
	if (slime_pages_request_destroy(b->req))
		return; /* a peer stands still: its memory stays until the process ends */
	if (slime_mr_destroy(b->mr) == 0)
		(void)slime_mem_destroy(b->mem);
	free(b->bufs);
	free(b->all_items);
	free(b->all_indices);
	free(b->all_keys);
}

void page_batch_set(struct page_batch *b, uint32_t i, const char *kind, uint64_t index)
{
	int len = snprintf(b->keys[i], PAGE_KEY_LEN, "bench/%s/%" PRIu64 "/%" PRIu64, kind,
			   b->page_size, index);

	b->indices[i] = index;
	b->bufs[i] = (struct slime_pages_buf){ .mr = b->mr,
					       .offset = i * b->page_size,
					       .len = b->page_size };
	b->items[i] = (struct slime_pages_item){
		.key = b->keys[i], .key_len = (size_t)len, .bufs = &b->bufs[i], .n_bufs = 1
	};
}

int page_batch_wait(struct page_batch *b, const struct client *c)
{
	uint64_t until = sl_clock_ns() + BATCH_MS * SL_NS_PER_MS;
	int ret;

	while ((ret = slime_pages_wait(b->req, 100)) == -ETIMEDOUT)
		if (atomic_load(&c->interrupt.caught) || sl_clock_ns() > until)
			return ret;
	return ret;
}
