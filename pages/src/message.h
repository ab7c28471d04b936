/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What readers and writers ask owners by calls. Little-endian. A request:
 *
 *	u8 version, u8 flags, u16 length of the tenant's name, u32 n
 *	u8 right[16]		pages_right() of the tenant's region: shows that the region was told
 *	the tenant's name
 *	put: u16 length, the writer's name; u16 length, the profile of its link;
 *	     u8 n_regions, for each u16 length and its descriptor
 *	pin: u32 milliseconds
 *	n keys: u16 length, bytes; put adds u8 n_bufs, for each u8 region, u64 offset, u32 length;
 *	     and u64 page_checksum() of the page
 *
 * Replies: lookup: u64 seed, n places; exists: n bits; clear: u64 how many; touch: nothing; all
 * others n statuses, i32. stat: PAGES_STAT_LEN bytes. A malformed request is an error of the call
 *with code EINVAL.
 */
#ifndef PAGES_MESSAGE_H
#define PAGES_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/wire.h"
#include "pages/src/store.h"
#include <slime/pages.h>

#define PAGES_VERSION 2

#define PAGES_LOOKUP "pages.lookup"
#define PAGES_EXISTS "pages.exists"
#define PAGES_PUT    "pages.put"
#define PAGES_DELETE "pages.delete"
#define PAGES_PIN    "pages.pin"
#define PAGES_UNPIN  "pages.unpin"
#define PAGES_TOUCH  "pages.touch"
#define PAGES_CLEAR  "pages.clear"
#define PAGES_STAT   "pages.stat"

#define PAGES_RIGHT_LEN	  16
#define PAGES_KEYS_MAX	  4096 /* in one request */
#define PAGES_BUFS_MAX	  16   /* of one key */
#define PAGES_REGIONS_MAX 16   /* in one put */
#define PAGES_REQUEST_MAX (UINT64_C(8) << 20)
#define PAGES_PLACE_LEN	  32
#define PAGES_HEAD_LEN	  (8 + PAGES_RIGHT_LEN)

/* Both ends compute it from the description of the tenant's region, which the owner tells only
 * those that the tenant allows. */
void pages_right(const struct slime_remote_mr *region, uint8_t right[PAGES_RIGHT_LEN]);

struct pages_head {
	uint8_t flags;
	uint16_t tenant_len;
	uint32_t n;
	const uint8_t *right;
	const uint8_t *tenant;
};

/* The reader stands behind the head then. -EINVAL. */
int pages_head_read(struct sl_reader *r, struct pages_head *out);
void pages_head_write(struct sl_writer *w, const struct pages_head *head);

struct pages_key {
	const uint8_t *at;
	uint16_t len;
};

/* false: the request is malformed. An empty key, or a long one, is read. */
bool pages_key_read(struct sl_reader *r, struct pages_key *out);
void pages_key_write(struct sl_writer *w, const void *key, size_t len);

/* At most max bytes, not empty, without 0: into a string. */
bool pages_name_read(struct sl_reader *r, char *out, size_t max);
void pages_name_write(struct sl_writer *w, const char *name);

struct pages_found {
	struct page_place place;
	int status;
};

/* The members of struct slime_pages_stat in their order, each a u64. */
#define PAGES_STAT_LEN sizeof(struct slime_pages_stat)

void pages_stat_write(uint8_t to[PAGES_STAT_LEN], const struct slime_pages_stat *stat);
/* Add what was written to the sums. */
void pages_stat_add(const uint8_t from[PAGES_STAT_LEN], struct slime_pages_stat *sums);

void pages_found_write(uint8_t to[PAGES_PLACE_LEN], const struct pages_found *found);
void pages_found_read(const uint8_t from[PAGES_PLACE_LEN], struct pages_found *out);

#endif
