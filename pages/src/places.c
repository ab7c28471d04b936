/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "pages/src/places.h"

#define WAYS 4

struct way {
	struct page_hash id;
	uint64_t until_ns; /* 0: empty */
	struct place_of of;
};

struct places {
	pthread_mutex_t lock;
	uint64_t ttl_ns;
	uint32_t mask; /* of sets */
	struct way *ways;
};

int places_create(uint32_t n, uint32_t ttl_ms, struct places **out)
{
	struct places *p = calloc(1, sizeof(*p));
	uint32_t sets = 1;

	if (!p)
		return -ENOMEM;
	while (sets < n / WAYS && sets < UINT32_C(1) << 24)
		sets *= 2;
	p->ttl_ns = ttl_ms * SL_NS_PER_MS;
	p->mask = sets - 1;
	p->ways = ttl_ms ? calloc((size_t)sets * WAYS, sizeof(*p->ways)) : NULL;
	if (ttl_ms && !p->ways) {
		free(p);
		return -ENOMEM;
	}
	pthread_mutex_init(&p->lock, NULL);
	*out = p;
	return 0;
}

void places_destroy(struct places *p)
{
	if (!p)
		return;
	pthread_mutex_destroy(&p->lock);
	free(p->ways);
	free(p);
}

static bool is_of(const struct way *w, struct page_hash id)
{
	return w->until_ns && w->id.low == id.low && w->id.high == id.high;
}

/* The way that has id; else the one to use for it. */
static struct way *find(struct places *p, struct page_hash id)
{
	struct way *set = &p->ways[(id.low & p->mask) * WAYS];
	struct way *oldest = set;

	for (int i = 0; i < WAYS; i++) {
		if (is_of(&set[i], id))
			return &set[i];
		if (set[i].until_ns < oldest->until_ns)
			oldest = &set[i];
	}
	return oldest;
}

bool places_get(struct places *p, struct page_hash id, uint64_t now_ns, struct place_of *out)
{
	struct way *w;
	bool found;

	if (!p->ways)
		return false;
	pthread_mutex_lock(&p->lock);
	w = find(p, id);
	found = is_of(w, id) && now_ns < w->until_ns;
	if (found)
		*out = w->of;
	pthread_mutex_unlock(&p->lock);
	return found;
}

void places_put(struct places *p, struct page_hash id, uint64_t now_ns, const struct place_of *of)
{
	if (!p->ways)
		return;
	pthread_mutex_lock(&p->lock);
	*find(p, id) = (struct way){ .id = id, .until_ns = now_ns + p->ttl_ns, .of = *of };
	pthread_mutex_unlock(&p->lock);
}

void places_drop(struct places *p, struct page_hash id)
{
	struct way *w;

	if (!p->ways)
		return;
	pthread_mutex_lock(&p->lock);
	w = find(p, id);
	if (is_of(w, id))
		w->until_ns = 0;
	pthread_mutex_unlock(&p->lock);
}
