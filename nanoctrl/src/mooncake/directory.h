/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Mooncake's engines published, in Redis, and who owns it. As with the store, a callback comes
 * later, on the store's loop, exactly once (at once only for -ENOMEM); results are the store's.
 */
#ifndef NANOCTRL_MOONCAKE_DIRECTORY_H
#define NANOCTRL_MOONCAKE_DIRECTORY_H

#include <stdint.h>
#include "mooncake/key.h"
#include "store/store.h"

#define MOONCAKE_ENGINES_MAX 100000
#define MOONCAKE_FIRST_MS    1000 /* an owner is probed so long after it published where it is, */
#define MOONCAKE_PERIOD_MS   5000 /* and then so often */

#define MOONCAKE_ADDRESS_MAX 63
#define MOONCAKE_ID_MAX	     31

/* The owner of an engine: the address that its rpc_meta came from, the port that this names, and a
 * word of the caller's choice that no other life has. */
struct mooncake_owner {
	const char *engine;
	const char *address;
	uint16_t port;
	const char *id;
	bool seen;	/* it was alive at that address and port */
	bool is_here;	/* of an answer to a put: its address means the same there as to the put */
	bool may_probe; /* of an answer to a put: no put had it probed within the period */
};

/* An owner with its texts. */
struct mooncake_kept_owner {
	struct mooncake_owner owner;
	char engine[MOONCAKE_KEY_MAX + 1];
	char address[MOONCAKE_ADDRESS_MAX + 1];
	char id[MOONCAKE_ID_MAX + 1];
};

/* Copy an owner, which may point to texts that go. False when one of them is too long, as a damaged
 * one may be: it is cut. */
bool mooncake_keep_owner(struct mooncake_kept_owner *kept, const struct mooncake_owner *owner);

/* STORE_OK, STORE_TOO_MANY, or STORE_NAME_TAKEN with the other owner (engine is NULL). */
typedef void directory_put_fn(void *arg, int result, const struct mooncake_owner *other);
/* STORE_OK with the value, or STORE_NOT_FOUND. */
typedef void directory_get_fn(void *arg, int result, struct store_text value);
typedef void directory_due_fn(void *arg, int result, const struct mooncake_owner *owners, size_t n);
/* Whether the owner's values were removed; STORE_NOT_FOUND: it is not the owner any more. */
typedef void directory_probed_fn(void *arg, int result, bool removed);

/* rpc_meta begins a life of the engine, and owner is its owner; of ram it may be NULL. */
void directory_put(struct store *store, const struct mooncake_key *key, struct store_text value,
		   const struct mooncake_owner *owner, directory_put_fn *fn, void *arg);
void directory_get(struct store *store, const struct mooncake_key *key, directory_get_fn *fn,
		   void *arg);
/* STORE_OK, STORE_NOT_FOUND. */
void directory_delete(struct store *store, const struct mooncake_key *key, store_done_fn *fn,
		      void *arg);

/* At most n owners that are to be probed now. Until the period is over no replica gets them again.
 */
void directory_due(struct store *store, unsigned n, directory_due_fn *fn, void *arg);

/* A probe found this owner alive, or was refused: then it is dead if it was alive there, which the
 * store knows or owner->seen says. */
void directory_probed(struct store *store, const struct mooncake_owner *owner, bool alive,
		      directory_probed_fn *fn, void *arg);

#endif
