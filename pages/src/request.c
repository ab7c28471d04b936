/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "pages/src/item.h"
#include "pages/src/part.h"
#include "pages/src/round.h"

/* ---- life ---- */

int slime_pages_request_create(struct slime_pages *pages,
			       const struct slime_pages_request_attr *attr,
			       struct slime_pages_request **out)
{
	struct slime_pages_request *req = calloc(1, sizeof(*req));

	if (!req)
		return -ENOMEM;
	req->pages = pages;
	req->part_ended = round_part_ended;
	if (attr) {
		req->fn = attr->fn;
		req->arg = attr->arg;
	}
	atomic_fetch_add(&pages->n_requests, 1);
	*out = req;
	return 0;
}

int slime_pages_request_destroy(struct slime_pages_request *req)
{
	if (!req)
		return 0;
	if (!slime_pages_test(req))
		return -EBUSY;
	if (slime_mr_destroy(req->headers_mr))
		return -EBUSY;
	round_leave_callback(req);
	for (size_t i = 0; i < req->parts_cap; i++)
		part_destroy(req->parts[i]);
	free(req->parts);
	free(req->headers);
	free(req->states);
	free(req->order);
	atomic_fetch_sub(&req->pages->n_requests, 1);
	free(req);
	return 0;
}

static int make_room(struct slime_pages_request *req, size_t n)
{
	struct slime_mr *mr = NULL;
	void *headers;
	int ret;

	if (n <= req->cap)
		return 0;
	n = n < 64 ? 64 : n + n / 2;
	headers = aligned_alloc(PAGE_HEADER_LEN, n * PAGE_HEADER_LEN);
	if (!headers)
		return -ENOMEM;
	ret = slime_mr_create(slime_agent_context(req->pages->agent), headers, n * PAGE_HEADER_LEN,
			      0, &mr);
	if (!ret && slime_mr_destroy(req->headers_mr))
		ret = -EBUSY;
	if (ret) {
		(void)slime_mr_destroy(mr);
		free(headers);
		return ret;
	}
	free(req->headers);
	free(req->states);
	free(req->order);
	req->headers = headers;
	req->headers_mr = mr;
	req->states = malloc(n * sizeof(*req->states));
	req->order = malloc(n * sizeof(*req->order));
	req->cap = req->states && req->order ? n : 0;
	return req->cap ? 0 : -ENOMEM;
}

static int check_item(const struct slime_pages_item *item)
{
	if (item->n_bufs > PAGES_BUFS_MAX)
		return -EINVAL;
	for (uint32_t b = 0; b < item->n_bufs; b++) {
		const struct slime_pages_buf *buf = &item->bufs[b];
		uint64_t len = buf->mr ? slime_mr_len(buf->mr) : 0;

		if (!buf->mr || buf->len > UINT32_MAX || buf->offset > len ||
		    buf->len > len - buf->offset)
			return -EINVAL;
	}
	return 0;
}

/* The owner reads from the region. */
static int check_access(const struct slime_mr *mr)
{
	uint8_t desc[SLIME_MR_DESC_MAX];
	struct slime_remote_mr seen;
	int ret = slime_mr_export(mr, desc, sizeof(desc));

	if (ret >= 0)
		ret = slime_remote_mr_import(desc, (size_t)ret, &seen);
	if (ret)
		return ret;
	return seen.access & SLIME_ACCESS_REMOTE_READ ? 0 : -EACCES;
}

static int check_regions(const struct slime_pages_item *item, bool is_put,
			 const struct slime_mr **checked)
{
	int ret = 0;

	for (uint32_t b = 0; b < item->n_bufs && !ret; b++) {
		const struct slime_mr *mr = item->bufs[b].mr;

		if (mr == *checked)
			continue;
		ret = !slime_mr_addr(mr) ? -EOPNOTSUPP : is_put ? check_access(mr) : 0;
		*checked = mr;
	}
	return ret;
}

static int check_items(const struct slime_pages_item *items, size_t n, enum request_kind kind)
{
	const struct slime_mr *checked = NULL;
	int ret = n > INT_MAX ? -EINVAL : 0;

	if (kind != REQUEST_GET && kind != REQUEST_PUT)
		return ret;
	for (size_t i = 0; i < n && !ret; i++) {
		ret = check_item(&items[i]);
		if (!ret)
			ret = check_regions(&items[i], kind == REQUEST_PUT, &checked);
	}
	return ret;
}

static void init_item(struct slime_pages_request *req, size_t i)
{
	struct slime_pages_item *item = &req->items[i];

	memset(&req->states[i], 0, sizeof(req->states[i]));
	item->status = -ENOENT;
	if (req->kind == REQUEST_GET)
		item->len = 0;
	if (!item->key_len || item->key_len > SLIME_PAGES_KEY_MAX)
		item_finish(req, (uint32_t)i, -EINVAL);
	else
		req->states[i].id = page_hash(item->key, item->key_len, 0);
}

static int begin(struct slime_pages_request *req, enum request_kind kind,
		 struct slime_pages_item *items, size_t n, uint32_t flags, uint32_t hold_ms)
{
	int ret;

	if (!slime_pages_test(req))
		return -EBUSY;
	ret = check_items(items, n, kind);
	if (!ret)
		ret = make_room(req, n);
	if (ret)
		return ret;
	round_leave_callback(req);
	req->kind = kind;
	req->flags = flags;
	req->hold_ms = hold_ms;
	req->items = items;
	req->n = n;
	req->rank = 0;
	req->silent = (struct member_set){ { 0 } };
	for (size_t i = 0; i < n; i++)
		init_item(req, i);
	atomic_store_explicit(&req->state, REQUEST_RUNS, memory_order_relaxed);
	if (round_launch(req)) {
		if (req->fn) {
			(void)round_wait_for_callbacks(req);
			round_advance(req);
		} else {
			atomic_store_explicit(&req->state, REQUEST_ARRIVED, memory_order_release);
		}
	}
	return 0;
}

int slime_pages_get(struct slime_pages_request *req, struct slime_pages_item *items, size_t n)
{
	return begin(req, REQUEST_GET, items, n, 0, 0);
}

int slime_pages_put(struct slime_pages_request *req, struct slime_pages_item *items, size_t n,
		    uint32_t flags)
{
	return begin(req, REQUEST_PUT, items, n, flags & SLIME_PAGES_REPLACE, 0);
}

int slime_pages_exists(struct slime_pages_request *req, struct slime_pages_item *items, size_t n)
{
	return begin(req, REQUEST_EXISTS, items, n, 0, 0);
}

int slime_pages_delete(struct slime_pages_request *req, struct slime_pages_item *items, size_t n)
{
	return begin(req, REQUEST_DELETE, items, n, 0, 0);
}

int slime_pages_pin(struct slime_pages_request *req, struct slime_pages_item *items, size_t n,
		    uint32_t hold_ms)
{
	return begin(req, REQUEST_PIN, items, n, 0, hold_ms);
}

int slime_pages_unpin(struct slime_pages_request *req, struct slime_pages_item *items, size_t n)
{
	return begin(req, REQUEST_UNPIN, items, n, 0, 0);
}

int slime_pages_clear(struct slime_pages_request *req)
{
	return begin(req, REQUEST_CLEAR, NULL, 0, 0, 0);
}

int slime_pages_stat(struct slime_pages_request *req, struct slime_pages_stat *out)
{
	if (!slime_pages_test(req))
		return -EBUSY;
	*out = (struct slime_pages_stat){ 0 };
	req->stat = out;
	return begin(req, REQUEST_STAT, NULL, 0, 0, 0);
}

/* Wait for one part to go on. */
static int wait_for_part(struct slime_pages_request *req, int64_t timeout_ms)
{
	for (size_t i = 0; i < req->n_parts; i++) {
		struct part *part = req->parts[i];

		switch (atomic_load_explicit(&part->state, memory_order_acquire)) {
		case PART_ASKS:
			return slime_call_wait(part->call, timeout_ms);
		case PART_READS:
			return slime_op_wait(part->op, timeout_ms);
		default:
			break;
		}
	}
	return 0;
}

/* One that is waited for: on the thread that waits. */
static void go_on(struct slime_pages_request *req)
{
	atomic_store_explicit(&req->state, REQUEST_RUNS, memory_order_relaxed);
	round_advance(req);
}

int slime_pages_wait(struct slime_pages_request *req, int64_t timeout_ms)
{
	uint64_t until = sl_deadline_ns(timeout_ms);
	int ret = 0;

	while (!ret || ret == -ETIMEDOUT) {
		int state = atomic_load_explicit(&req->state, memory_order_acquire);
		uint64_t now = sl_clock_ns();

		if (state == REQUEST_IDLE)
			return 0;
		if (req->fn)
			return -EINVAL;
		if (state == REQUEST_ARRIVED) {
			ret = round_wait_for_callbacks(req);
			if (!ret)
				go_on(req);
			continue;
		}
		if (ret == -ETIMEDOUT && now >= until)
			return ret;
		ret = wait_for_part(req, until == SL_NEVER ? -1
					 : until <= now
						 ? 0
						 : (int64_t)((until - now) / SL_NS_PER_MS) + 1);
	}
	return ret;
}

bool slime_pages_test(struct slime_pages_request *req)
{
	if (atomic_load_explicit(&req->state, memory_order_acquire) == REQUEST_ARRIVED &&
	    round_have_callbacks_returned(req))
		go_on(req);
	return round_is_in_callback(req) ||
	       atomic_load_explicit(&req->state, memory_order_acquire) == REQUEST_IDLE;
}

size_t slime_pages_prefix(const struct slime_pages_request *req)
{
	size_t n = 0;

	while (n < req->n && !req->items[n].status)
		n++;
	return n;
}

void *slime_pages_request_arg(const struct slime_pages_request *req)
{
	return req->arg;
}
