/* SPDX-License-Identifier: Apache-2.0 */
#include "compat/store.h"
#include <base/clock.h>

#define GOOD_S	     30
#define NOTED_GOOD_S 20		    /* of STORE_COMPAT_TTL_MS */
#define COUNT	     UINT64_C(0xff) /* these bits of an entry of written are how many are expected, */
#define WHEN	     UINT64_C(0xff00) /* these of both the second it was made in */
#define WHEN_SHIFT   8
#define HASH	     (~(COUNT | WHEN))

/* FNV-1a */
static uint64_t hash_on(uint64_t h, const char *at, size_t len)
{
	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)at[i]) * UINT64_C(0x100000001b3);
	return h;
}

static uint64_t hash_init(const struct store_hub *hub)
{
	return UINT64_C(0xcbf29ce484222325) ^ hub->seed;
}

/* Names that are alike differ in few bits so far. */
static uint64_t mix(uint64_t h)
{
	h = (h ^ h >> 32) * UINT64_C(0xbf58476d1ce4e5b9);
	return h ^ h >> 29;
}

static uint64_t hash_of(const struct store_hub *hub, struct store_text scope,
			struct store_text word, struct store_text name)
{
	uint64_t h = hash_init(hub);

	if (scope.len)
		h = hash_on(hash_on(h, scope.at, scope.len), ":", 1);
	h = hash_on(hash_on(h, word.at, word.len), ":", 1);
	return mix(hash_on(h, name.at, name.len));
}

static uint64_t when_now(void)
{
	return sl_clock_ns() / SL_NS_PER_S << WHEN_SHIFT & WHEN;
}

/* Whether the entry is of that hash and not older than that. */
static bool is_good(uint64_t have, uint64_t hash, uint64_t seconds)
{
	return have && !((have ^ hash) & HASH) &&
	       ((when_now() - (have & WHEN)) & WHEN) <= seconds << WHEN_SHIFT;
}

/* ---- written ---- */

static _Atomic uint64_t *written_entry(struct store_hub *hub, uint64_t hash)
{
	return &hub->compat->written.written[(hash >> 32) % WRITTEN_ENTRIES];
}

static bool take(struct store_hub *hub, uint64_t hash)
{
	_Atomic uint64_t *entry = written_entry(hub, hash);
	uint64_t have = atomic_load(entry);

	do {
		if (!is_good(have, hash, GOOD_S))
			return false;
	} while (!atomic_compare_exchange_weak(entry, &have, (have & COUNT) > 1 ? have - 1 : 0));
	return true;
}

/* An entry of another name is overwritten. */
void written_expect(struct store_hub *hub, struct store_text scope, struct store_text word,
		    struct store_text name)
{
	uint64_t hash = hash_of(hub, scope, word, name);
	_Atomic uint64_t *entry = written_entry(hub, hash);
	uint64_t have = atomic_load(entry), count;

	if (!atomic_load(&hub->compat->told))
		return;
	do {
		count = is_good(have, hash, GOOD_S) ? have & COUNT : 0;
		count += count < COUNT;
	} while (!atomic_compare_exchange_weak(entry, &have, (hash & HASH) | when_now() | count));
}

void written_forget(struct store_hub *hub, struct store_text scope, struct store_text word,
		    struct store_text name)
{
	take(hub, hash_of(hub, scope, word, name));
}

bool written_take(struct store_hub *hub, const char *key, size_t len)
{
	return take(hub, mix(hash_on(hash_init(hub), key, len)));
}

void written_clear(struct store_hub *hub)
{
	for (size_t i = 0; i < WRITTEN_ENTRIES; i++)
		atomic_store(&hub->compat->written.written[i], 0);
}

/* ---- noted ---- */

/* One key may be entities of several scopes, which have indexes of their own. */
static uint64_t noted_hash(const struct store_hub *hub, struct store_text scope,
			   struct store_text type, struct store_text id)
{
	const size_t lens[] = { scope.len, type.len };

	return mix(hash_on(hash_of(hub, scope, type, id), (const char *)lens, sizeof(lens)));
}

static _Atomic uint64_t *noted_entry(struct store_hub *hub, uint64_t hash)
{
	return &hub->compat->written.noted[(hash >> 32) % NOTED_ENTRIES];
}

bool noted_is_due(struct store_hub *hub, struct store_text scope, struct store_text type,
		  struct store_text id)
{
	uint64_t hash = noted_hash(hub, scope, type, id);
	_Atomic uint64_t *entry = noted_entry(hub, hash);

	if (is_good(atomic_load(entry), hash, NOTED_GOOD_S))
		return false;
	atomic_store(entry, (hash & HASH) | when_now());
	return true;
}

void noted_forget(struct store_hub *hub, struct store_text scope, struct store_text type,
		  struct store_text id)
{
	uint64_t hash = noted_hash(hub, scope, type, id);
	_Atomic uint64_t *entry = noted_entry(hub, hash);
	uint64_t have = atomic_load(entry);

	if (!((have ^ hash) & HASH))
		atomic_compare_exchange_strong(entry, &have, 0);
}

void noted_clear(struct store_hub *hub)
{
	for (size_t i = 0; i < NOTED_ENTRIES; i++)
		atomic_store(&hub->compat->written.noted[i], 0);
}
