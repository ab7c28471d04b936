/* SPDX-License-Identifier: Apache-2.0 */
/* Between the loops: requests of one store that wait for the key indexer (later.h). */
#ifndef NANOCTRL_COMPAT_INDEX_WAIT_H
#define NANOCTRL_COMPAT_INDEX_WAIT_H

#include <stdbool.h>
#include <base/list.h>

struct store;
struct store_hub;

/* Of a store. */
struct index_wait {
	struct sl_list asked;  /* requests for which the indexer was asked, */
	struct sl_list behind; /* and those that came since */
	bool over;	       /* the asked ones are called in this turn of the loop */
};

void index_wait_init(struct index_wait *wait);

/* At the end of a turn: call the requests whose wait is over. While the store closes these are all.
 */
void index_wait_flush(struct store *store);

/* From the first loop: the wait of the store in this slot is over. -ENOMEM: it was not told. */
int index_wait_end(struct store_hub *hub, unsigned slot);

#endif
