/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entities of the compatible routes, in keys that DLSlime's NanoCtrl reads and writes as well:
 * docs/redis-keys.md. Names are any bytes. As in store.h, arguments are copied, and a callback
 * comes later and once.
 */
#ifndef NANOCTRL_COMPAT_ENTITY_H
#define NANOCTRL_COMPAT_ENTITY_H

#include "store/store.h"

#define STORE_COMPAT_TTL_MS 60000

struct store_entity_id {
	struct store_text scope; /* "" is none */
	struct store_text type;
	struct store_text id;
};

struct store_entity {
	struct store_text kind;
	struct store_text endpoint; /* JSON, "" for none; as the others */
	struct store_text metadata;
	struct store_text resource;
	struct store_text info;	 /* all of it */
	struct store_text event; /* of its registration, up to info in it */
};

/* 0, or STORE_NAME_TAKEN: a key that is no entity has the name. */
void store_put_entity(struct store *store, const struct store_entity_id *name,
		      const struct store_entity *entity, store_done_fn *fn, void *arg);

/* 0, or STORE_NOT_FOUND. Agents of the compatible routes beat the same way. */
void store_beat_entity(struct store *store, const struct store_entity_id *name, store_done_fn *fn,
		       void *arg);

/* 0, also when there is none. */
void store_delete_entity(struct store *store, const struct store_entity_id *name, store_done_fn *fn,
			 void *arg);

struct store_entities {
	size_t n;
	const struct store_text *info; /* as they are stored: anything */
	bool more;		       /* another batch of the list follows */
};

typedef void store_entities_fn(void *arg, int result, const struct store_entities *found);

/* 0, or STORE_NOT_FOUND. */
void store_get_entity(struct store *store, const struct store_entity_id *name,
		      store_entities_fn *fn, void *arg);

/*
 * The entities of a scope, and of this type and kind when they are given (at != NULL). A list comes
 * in batches, so that other clients can use the store between two: fn is called for each batch, the
 * last of which has no more behind it, or with an error. Entities that exist all the time are in
 * the list, those that come or go meanwhile may be, and none is there twice. STORE_TOO_LARGE when
 * they have more than max_list bytes.
 */
void store_list_entities(struct store *store, struct store_text scope, struct store_text type,
			 struct store_text kind, store_entities_fn *fn, void *arg);

#endif
