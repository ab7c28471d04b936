/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owners that a reader knows, and which of them has a key. A thread looks for them every
 * refresh_ms, keeps a link to each and asks the directory for its region. One that cannot be
 * reached owns no key until it can.
 */
#ifndef PAGES_MEMBERS_H
#define PAGES_MEMBERS_H

#include "pages/src/message.h"
#include <slime/pages.h>

#define MEMBERS_MAX  256
#define MEMBER_NONE  UINT16_MAX
#define REPLICAS_MAX 8

struct members;

int members_create(struct slime_agent *agent, const struct slime_pages_attr *attr,
		   struct members **out);
/* A member has no users any more. */
void members_destroy(struct members *members);

/* -ETIMEDOUT, or -EACCES as soon as each owner that is not reached refuses us. */
int members_wait(struct members *members, unsigned n, int64_t timeout_ms);

/* All that are known, as slime_pages_owners() gives them; hash NULL: in the order of names. Returns
 * how many there are. */
size_t members_list(struct members *members, const uint64_t *hash,
		    struct slime_pages_owner_info *out, size_t n);

unsigned members_reachable(struct members *members);

struct member_set {
	uint64_t bits[MEMBERS_MAX / 64];
};

static inline void member_set_add(struct member_set *set, uint16_t member)
{
	set->bits[member / 64] |= UINT64_C(1) << member % 64;
}

static inline bool member_set_has(const struct member_set *set, uint16_t member)
{
	return set->bits[member / 64] >> member % 64 & 1;
}

/*
 * Find the owner of keys. Between members_lock() and members_unlock() nothing changes.
 * rank 0 is the first owner, rank 1 the second, ...; MEMBER_NONE: there are not so many.
 */
void members_lock(struct members *members);
void members_unlock(struct members *members);
uint16_t members_owner_locked(struct members *members, uint64_t hash, unsigned rank);
/* Of the first n ranks without those that are left out the one that is nearest by its transport. */
uint16_t members_nearest_locked(struct members *members, uint64_t hash, unsigned n,
				const struct member_set *left_out);
/* The first owner before those that came less than half a minute ago. */
uint16_t members_former_owner_locked(struct members *members, uint64_t hash);

/* The parts that one needs to send to a member: valid until members_leave(). */
struct member_use {
	uint16_t member;
	uint32_t life; /* another one has other places */
	struct slime_endpoint *ep;
	struct slime_remote_mr region;
	uint8_t right[PAGES_RIGHT_LEN];
};

/* -ENOTCONN. */
int members_enter(struct members *members, uint16_t member, struct member_use *out);
/* broken: its link does not work, or it does not know our right; it is reached anew. */
void members_leave(struct members *members, const struct member_use *use, bool broken);

/* The key was found at a member without asking it: tell it now and then. */
void members_note_use(struct members *members, uint16_t member, const void *key, size_t key_len);

#endif
