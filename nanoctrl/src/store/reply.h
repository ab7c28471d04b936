/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the answers of scripts, which others may have a hand in. */
#ifndef NANOCTRL_STORE_REPLY_H
#define NANOCTRL_STORE_REPLY_H

#include <stdbool.h>
#include <hiredis/hiredis.h>
#include "store/store.h"

struct store_call;

/* Element i of an array reply; NULL when it is not there or of another type. */
const redisReply *store_item(const redisReply *reply, size_t i, int type);
/* A string element; "" and 0 when it is none. */
const char *store_string(const redisReply *reply, size_t i, size_t *len);
struct store_text store_text_at(const redisReply *reply, size_t i);
/* A number, sent as an integer or as digits; false when it is neither. */
bool store_u64(const redisReply *reply, size_t i, uint64_t *out);

/* Counts what a script left out that answers {outcome, ..., how much}; reply may be NULL. */
void store_note_skipped(const struct store_call *call, const redisReply *reply);

/* Whether an error of Redis says that it does not do it now, and did nothing. */
bool store_is_refusal(const char *error);

/* Reads a row of a page into out; false when the row is malformed. */
typedef bool store_read_fn(const redisReply *row, void *out);

/* The rows of a page; each has size bytes in memory. */
struct store_rows {
	size_t size;
	store_read_fn *read;
	bool one; /* a single one was asked for: when it is junk, there is none */
	void *at; /* out: n rows, for the caller to free() */
	size_t n;
};

/* Reads {outcome, epoch, cursor id, now, next, skipped, rows} into page and rows; what is junk is
 * skipped and counted. Returns result, or what became of it: -EPROTO, -ENOMEM, STORE_NOT_FOUND;
 * there are no rows then. */
int store_read_page(const struct store_call *call, int result, const redisReply *reply,
		    struct store_rows *rows, struct store_page *page);

#endif
