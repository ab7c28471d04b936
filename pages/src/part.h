/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Items of a request that have one owner, in one round: a call that asks for them, and for a get an
 * op that reads their bytes and headers. Callbacks move it on; req->part_ended() is called at its
 * end.
 */
#ifndef PAGES_PART_H
#define PAGES_PART_H

#include "pages/src/request.h"

enum part_state { PART_ASKS, PART_READS, PART_ARRIVED };

struct part {
	struct slime_pages_request *req;
	struct slime_call *call;
	struct slime_op *op;
	_Atomic int state;
	int error; /* of the whole part */
	bool reads_headers;
	struct member_use use;
	uint32_t *items; /* numbers of items */
	uint32_t n;
	uint8_t *message, *reply;
	size_t message_cap, reply_cap;
	struct slime_xfer *xfers;
	size_t xfers_cap, n_xfers;
};

/* -ENOMEM. Reused from round to round. */
int part_create(struct slime_pages_request *req, struct part **out);
/* Its call and its op have ended. destroy(NULL) does nothing. */
void part_destroy(struct part *part);

/* For gets: take places that are known. Those of another life of the owner are of no use. */
void part_use_cached_places(struct part *part);

/* Ask, or read what has a place. It ends by itself, maybe in here. */
void part_begin(struct part *part);

/* The link, or what we know of the owner, is of no use any more. */
bool part_is_broken(int error);

/*
 * A put goes to an owner in parts of about so many bytes: while the owner reads and checks one, the
 * writer sums up the next. Of a long put there are about so many parts, for the owner has room for
 * PULLS_MAX of all writers.
 */
#define PUT_PART_BYTES (UINT64_C(1) << 20)
#define PUT_PARTS      4

/* Bytes of each part of a put of these n items, of one owner. */
uint64_t part_bytes(const struct slime_pages_request *req, const uint32_t *items, uint32_t n);

/* Of n items to put so many that they have these bytes, and that the regions of their bufs fit into
 * one message: at least one. */
uint32_t part_count_that_fit(const struct slime_pages_request *req, const uint32_t *items,
			     uint32_t n, uint64_t bytes);

#endif
