/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recent writes of this process, in two small tables that all loops use. A write that does not fit
 * into them costs one more write or one more check of a key, and does no harm.
 *
 * written: Redis reports every key that is written, also those that this process writes, and to
 * index its own keys again would cost as much as to write them. Every entry has an end, and a write
 * that failed removes its own: later reports of the key come from writes of another process.
 *
 * noted: the indexes hold when an entity expires, and a sweep reads the entity before it ends
 * it. So an index that is a little late is good enough, and not every heartbeat has to write it.
 */
#ifndef NANOCTRL_COMPAT_WRITTEN_H
#define NANOCTRL_COMPAT_WRITTEN_H

#include <stdatomic.h>
#include <stdbool.h>
#include "store/store.h"

#define WRITTEN_ENTRIES 4096
#define NOTED_ENTRIES	16384

struct written {
	_Atomic uint64_t written[WRITTEN_ENTRIES];
	_Atomic uint64_t noted[NOTED_ENTRIES];
};

/* All from any thread. This process is about to write "[SCOPE:]WORD:NAME". */
void written_expect(struct store_hub *hub, struct store_text scope, struct store_text word,
		    struct store_text name);
/* It was not written, or it is unknown whether it was. */
void written_forget(struct store_hub *hub, struct store_text scope, struct store_text word,
		    struct store_text name);
/* Whether a key that Redis reports is such a write; true once for each write. */
bool written_take(struct store_hub *hub, const char *key, size_t len);
/* Reports that did not come yet will not come. */
void written_clear(struct store_hub *hub);

/* Whether the caller has to note the life of this entity in the index; it does so when true. */
bool noted_is_due(struct store_hub *hub, struct store_text scope, struct store_text type,
		  struct store_text id);
/* The caller did not do it, or it is unknown whether it did. */
void noted_forget(struct store_hub *hub, struct store_text scope, struct store_text type,
		  struct store_text id);
/* Redis may have lost its indexes. */
void noted_clear(struct store_hub *hub);

#endif
