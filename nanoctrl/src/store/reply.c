/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of scripts, piece by piece: each type is checked. */
#include <errno.h>
#include <stdlib.h>
#include "store/call.h"
#include "store/redis_store.h"
#include "store/reply.h"

const redisReply *store_item(const redisReply *reply, size_t i, int type)
{
	if (!reply || reply->type != REDIS_REPLY_ARRAY || i >= reply->elements ||
	    reply->element[i]->type != type)
		return NULL;
	return reply->element[i];
}

const char *store_string(const redisReply *reply, size_t i, size_t *len)
{
	const redisReply *item = store_item(reply, i, REDIS_REPLY_STRING);

	if (len)
		*len = item ? (size_t)item->len : 0;
	return item ? item->str : "";
}

struct store_text store_text_at(const redisReply *reply, size_t i)
{
	struct store_text t;

	t.at = store_string(reply, i, &t.len);
	return t;
}

bool store_u64(const redisReply *reply, size_t i, uint64_t *out)
{
	const redisReply *n = store_item(reply, i, REDIS_REPLY_INTEGER);
	const char *s;
	char *end;

	if (n) {
		*out = (uint64_t)n->integer;
		return n->integer >= 0;
	}
	s = store_string(reply, i, NULL);
	if (*s < '0' || *s > '9')
		return false;
	errno = 0;
	*out = strtoull(s, &end, 10);
	return !errno && !*end;
}

void store_note_skipped(const struct store_call *call, const redisReply *reply)
{
	uint64_t skipped;

	if (store_u64(reply, 2, &skipped))
		atomic_fetch_add(&call->store->hub->n_skipped, skipped);
}

static uint64_t read_rows(const redisReply *from, struct store_rows *rows)
{
	uint64_t skipped = 0;

	for (size_t i = 0; i < from->elements; i++) {
		if (rows->read(from->element[i], (char *)rows->at + rows->n * rows->size))
			rows->n++;
		else
			skipped++;
	}
	return skipped;
}

int store_read_page(const struct store_call *call, int result, const redisReply *reply,
		    struct store_rows *rows, struct store_page *page)
{
	const redisReply *from = store_item(reply, 6, REDIS_REPLY_ARRAY);
	uint64_t skipped;

	if (result != STORE_OK)
		return result;
	if (!from || !store_u64(reply, 1, &page->cursor.epoch) ||
	    !store_u64(reply, 2, &page->cursor.id) || !store_u64(reply, 3, &page->now_ms) ||
	    !store_u64(reply, 5, &skipped))
		return -EPROTO;
	page->next = store_string(reply, 4, NULL);
	if (!*page->next)
		page->next = NULL;
	if (from->elements) {
		rows->at = calloc(from->elements, rows->size);
		if (!rows->at)
			return -ENOMEM;
		skipped += read_rows(from, rows);
	}
	atomic_fetch_add(&call->store->hub->n_skipped, skipped);
	return rows->one && !rows->n ? STORE_NOT_FOUND : STORE_OK;
}
