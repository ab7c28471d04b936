/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request goes in rounds. A round groups what is not done by owners, into parts; each part asks
 * its owner (lookup, put, ...) by a call, and then, for a get, reads by an op. Callbacks move a
 * part on. When the last part has arrived the items are judged: on the thread that waits, or, with
 * a callback, on the one that makes progress. What must be asked again makes the next round.
 */
#ifndef PAGES_REQUEST_H
#define PAGES_REQUEST_H

#include <stdatomic.h>

#include "pages/src/pages.h"

enum request_kind {
	REQUEST_GET,
	REQUEST_EXISTS,
	REQUEST_PUT,
	REQUEST_DELETE,
	REQUEST_PIN,
	REQUEST_UNPIN,
	REQUEST_CLEAR,
	REQUEST_STAT
};

struct item_state {
	struct page_hash id; /* of the key, with seed 0 */
	struct place_of at;  /* of get */
	uint64_t checksum;   /* of put */
	uint16_t member;     /* asked in this round */
	bool summed;	     /* the checksum is known */
	bool placed;	     /* at is known */
	bool cached;	     /* and it was before */
	bool arrived;	     /* bytes and header were read in this round */
	bool done;
	bool again;	/* what it asked for a second time */
	bool former;	/* the former owner was asked */
	bool lost;	/* the owner died in this round, or did not answer, and another one may have
			   a copy */
	uint8_t n_lost; /* rounds in which that was so */
};

struct part;

enum request_state { REQUEST_IDLE, REQUEST_RUNS, REQUEST_ARRIVED };

struct slime_pages_request {
	struct slime_pages *pages;
	slime_pages_fn *fn;
	void *arg;
	_Atomic int state;

	enum request_kind kind;
	uint32_t flags;		       /* of put */
	uint32_t hold_ms;	       /* of pin */
	struct slime_pages_stat *stat; /* of stat */
	unsigned rank;		       /* of the owners of this round */
	struct member_set silent;      /* they did not answer: no get asks them again */
	struct slime_pages_item *items;
	size_t n;
	struct item_state *states;
	uint32_t *order; /* items by their parts */
	struct page_header *headers;
	struct slime_mr *headers_mr;
	size_t cap; /* items that states, order and headers have room for */

	/* One part less is under way: round_part_ended(). */
	void (*part_ended)(struct slime_pages_request *req);
	struct part **parts;
	size_t n_parts, parts_cap;
	_Atomic size_t n_under_way;
};

/* It has no items, and goes to every owner. */
static inline bool request_asks_all(const struct slime_pages_request *req)
{
	return req->kind == REQUEST_CLEAR || req->kind == REQUEST_STAT;
}

#endif
