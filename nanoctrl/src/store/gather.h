/* SPDX-License-Identifier: Apache-2.0 */
/* A page whose last agent has more objects than came with it. */
#ifndef NANOCTRL_STORE_GATHER_H
#define NANOCTRL_STORE_GATHER_H

#include <stdbool.h>
#include <hiredis/hiredis.h>
#include "store/reply.h"
#include "store/store.h"

struct store_call;

/* Whether this page is one of them. */
bool store_has_rest(const redisReply *reply);

/* Read the rest, at most so many bytes, each row by read; the caller of call gets the page then. */
void store_gather(const struct store_call *call, const redisReply *reply,
		  const struct store_page *page, store_read_fn *read, uint64_t most);

#endif
