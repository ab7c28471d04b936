/* SPDX-License-Identifier: Apache-2.0 */
/* Work that a store does later on its loop. */
#ifndef NANOCTRL_COMPAT_LATER_H
#define NANOCTRL_COMPAT_LATER_H

#include <base/list.h>

struct store;

struct store_later {
	struct sl_list node;
	void (*fn)(struct store_later *later);
};

/* Call later->fn once, when everything that came in this turn of the loop was read, or when the
 * store is destroyed. */
void store_do_later(struct store *store, struct store_later *later);

/*
 * Call later->fn once, when the indexes have every key that others wrote to Redis before, so that
 * lists and cleanup find them. Where Redis does not report keys that others write, and when the
 * store is destroyed: at the end of this turn.
 */
void store_wait_for_index(struct store *store, struct store_later *later);

/* For lists that requests share: those that are being read from this store. The list is empty when
 * the last callback of each has come. */
struct sl_list *store_lists(struct store *store);

#endif
