/* SPDX-License-Identifier: Apache-2.0 */
/* Places that owners told a reader, for as long as it may use them. A fixed table: what does not
 * fit pushes out what is oldest beside it. It locks itself. */
#ifndef PAGES_PLACES_H
#define PAGES_PLACES_H

#include <stdbool.h>
#include <stdint.h>

#include "pages/src/store.h"

struct places;

/* For about n places; ttl_ms 0: nothing is kept. -ENOMEM. */
int places_create(uint32_t n, uint32_t ttl_ms, struct places **out);
void places_destroy(struct places *places);

struct place_of {
	struct page_place place;
	struct page_hash hash; /* of the key, with the owner's seed */
	uint16_t member;       /* the owner's number, */
	uint32_t life;	       /* and which of its lives */
};

/* id: page_hash() of the key with seed 0. */
bool places_get(struct places *places, struct page_hash id, uint64_t now_ns, struct place_of *out);
void places_put(struct places *places, struct page_hash id, uint64_t now_ns,
		const struct place_of *of);
void places_drop(struct places *places, struct page_hash id);

#endif
