/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text_set.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_MIN 64
#define ROOM_MIN  1024

struct text_set_slot {
	uint64_t hash; /* 0: empty */
	size_t at, len;
};

/* FNV-1a, and its bits mixed: names that are alike differ in few. */
static uint64_t hash_of(const struct text_set *s, const char *text, size_t len)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325) ^ s->seed;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
	h = (h ^ h >> 32) * UINT64_C(0xbf58476d1ce4e5b9);
	h ^= h >> 29;
	return h ? h : 1;
}

static bool is_slot_of(const struct text_set *s, const struct text_set_slot *slot, uint64_t hash,
		       const char *text, size_t len)
{
	return slot->hash == hash && slot->len == len &&
	       (!len || !memcmp(s->bytes + slot->at, text, len));
}

/* Where this text is, or would be. */
static struct text_set_slot *find(const struct text_set *s, uint64_t hash, const char *text,
				  size_t len)
{
	size_t i = hash & (s->n_slots - 1);

	while (s->slots[i].hash && !is_slot_of(s, &s->slots[i], hash, text, len))
		i = (i + 1) & (s->n_slots - 1);
	return &s->slots[i];
}

static int grow_slots(struct text_set *s)
{
	struct text_set bigger = *s;

	bigger.n_slots = s->n_slots ? 2 * s->n_slots : SLOTS_MIN;
	bigger.slots = calloc(bigger.n_slots, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < s->n_slots; i++) {
		const struct text_set_slot *from = &s->slots[i];

		if (from->hash)
			*find(&bigger, from->hash, s->bytes + from->at, from->len) = *from;
	}
	free(s->slots);
	*s = bigger;
	return 0;
}

static int grow_bytes(struct text_set *s, size_t len)
{
	size_t room = 2 * (s->len + len) + ROOM_MIN;
	char *bigger = realloc(s->bytes, room);

	if (!bigger)
		return -ENOMEM;
	s->bytes = bigger;
	s->room = room;
	return 0;
}

int text_set_add(struct text_set *s, const char *text, size_t len)
{
	uint64_t hash = hash_of(s, text, len);
	struct text_set_slot *slot;

	if (2 * (s->n + 1) > s->n_slots && grow_slots(s))
		return -ENOMEM;
	slot = find(s, hash, text, len);
	if (slot->hash)
		return 0;
	if (s->len + len > s->room && grow_bytes(s, len))
		return -ENOMEM;
	if (len)
		memcpy(s->bytes + s->len, text, len);
	*slot = (struct text_set_slot){ hash, s->len, len };
	s->len += len;
	s->n++;
	return 1;
}

void text_set_fini(struct text_set *s)
{
	free(s->bytes);
	free(s->slots);
	*s = (struct text_set){ .seed = s->seed };
}
