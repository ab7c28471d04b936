/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Redis tells of every key that is written, by ourselves as well, and to look at ours again would
 * cost as much as to write them. A small table says which these are. What does not fit into it, or
 * is heard of too late, is looked at again, which does no harm; so every entry has an end, and a
 * write that failed takes its own back: what is heard of then is another's.
 */
#include "store_redis.h"

#define GOOD_S 30
#define WHEN   UINT64_C(0xffff) /* these bits of an entry are the second it was made in */

/* FNV-1a */
static uint64_t hash_on(uint64_t h, const char *at, size_t len)
{
	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)at[i]) * UINT64_C(0x100000001b3);
	return h;
}

static const uint64_t hash_init = UINT64_C(0xcbf29ce484222325);

static uint64_t hash_of(struct store_text scope, struct store_text word, struct store_text name)
{
	uint64_t h = hash_init;

	if (scope.len)
		h = hash_on(hash_on(h, scope.at, scope.len), ":", 1);
	h = hash_on(hash_on(h, word.at, word.len), ":", 1);
	return hash_on(h, name.at, name.len);
}

static _Atomic uint64_t *entry_of(struct store_hub *hub, uint64_t hash)
{
	return &hub->written[(hash >> 32) % STORE_WRITTEN];
}

static uint64_t seconds(void)
{
	return sl_clock_ns() / SL_NS_PER_S;
}

static bool take(struct store_hub *hub, uint64_t hash)
{
	_Atomic uint64_t *entry = entry_of(hub, hash);
	uint64_t have = atomic_load(entry);

	return have && !((have ^ hash) & ~WHEN) && ((seconds() - have) & WHEN) <= GOOD_S &&
	       atomic_compare_exchange_strong(entry, &have, 0);
}

void written_expect(struct store_hub *hub, struct store_text scope, struct store_text word,
		    struct store_text name)
{
	uint64_t hash = hash_of(scope, word, name);

	if (atomic_load(&hub->told))
		atomic_store(entry_of(hub, hash), (hash & ~WHEN) | (seconds() & WHEN));
}

void written_forget(struct store_hub *hub, struct store_text scope, struct store_text word,
		    struct store_text name)
{
	take(hub, hash_of(scope, word, name));
}

bool written_take(struct store_hub *hub, const char *key, size_t len)
{
	return take(hub, hash_on(hash_init, key, len));
}

void written_clear(struct store_hub *hub)
{
	for (size_t i = 0; i < STORE_WRITTEN; i++)
		atomic_store(&hub->written[i], 0);
}
