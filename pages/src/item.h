/* SPDX-License-Identifier: Apache-2.0 */
/* An item of a request: the memory of its bufs, and its end. */
#ifndef PAGES_ITEM_H
#define PAGES_ITEM_H

#include "pages/src/request.h"

/* Bytes that the bufs of an item have room for. */
uint64_t item_room(const struct slime_pages_item *item);
/* Of the first len bytes of them. */
uint64_t item_checksum(const struct slime_pages_item *item, uint32_t len);

/* The item is done, with this status. */
void item_finish(struct slime_pages_request *req, uint32_t i, int status);

#endif
