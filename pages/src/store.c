/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "pages/src/index.h"
#include "pages/src/store.h"

#define INLINE_KEY 40

/* Of 10 pages of a class one is in the short queue, while there is a long one. */
#define SMALL_SHARE 10
#define USES_MAX    3
/* Bounds on what one call does with the lock held. */
#define SCAN_MAX  128
#define EVICT_MAX 64
#define SLABS_MAX 16
#define CLEAR_MAX 1024

enum page_state { PAGE_FREE, PAGE_FILLING, PAGE_LIVE };

enum page_queue_name { QUEUE_FREE, QUEUE_SMALL, QUEUE_MAIN, QUEUE_PINNED, QUEUE_NONE };

struct page {
	uint8_t state;
	uint8_t queue;
	uint8_t uses; /* look-ups since it entered its queue, at most USES_MAX */
	uint16_t key_len;
	uint32_t len;
	uint32_t n_pins;
	uint32_t next, prev;
	uint64_t pinned_until_ns;
	struct page_hash hash;
	union {
		uint8_t bytes[INLINE_KEY];
		uint8_t *heap;
	} key;
};

struct page_queue {
	uint32_t head, tail; /* taken from the head, added at the tail */
	uint32_t n;
};

struct page_class {
	uint32_t len;
	uint32_t per_slab;
	uint32_t n_slabs;
	struct page_queue free, small, main;
};

struct slab {
	uint8_t class; /* PAGE_CLASSES_MAX: none */
};

struct page_store {
	pthread_mutex_t lock;
	uint8_t *mem;
	uint64_t seed;
	uint64_t slab_len;
	uint64_t first_slab; /* offset */
	uint64_t high, low;  /* used bytes */
	uint32_t per_slab;   /* pages, and headers, that a slab has room for at most */
	uint32_t n_slabs;
	uint32_t n_unused;  /* slabs from n_slabs - n_unused on were never used */
	uint32_t next_slab; /* to be taken from its class */
	unsigned n_classes;
	struct page_class classes[PAGE_CLASSES_MAX];
	struct slab *slabs;
	struct page *pages;
	struct page_index index;
	struct page_queue pinned;
	uint64_t pinned_bytes;
	uint32_t *left; /* hashes of pages that left the short queue */
	uint32_t left_mask;
	struct page_store_stat stat;
};

/* ---- queues ---- */

static void queue_init(struct page_queue *q)
{
	q->head = q->tail = PAGE_NONE;
	q->n = 0;
}

static void queue_append(struct page_store *s, struct page_queue *q, uint32_t page)
{
	s->pages[page].prev = q->tail;
	s->pages[page].next = PAGE_NONE;
	if (q->tail == PAGE_NONE)
		q->head = page;
	else
		s->pages[q->tail].next = page;
	q->tail = page;
	q->n++;
}

static void queue_remove(struct page_store *s, struct page_queue *q, uint32_t page)
{
	struct page *p = &s->pages[page];

	if (p->prev == PAGE_NONE)
		q->head = p->next;
	else
		s->pages[p->prev].next = p->next;
	if (p->next == PAGE_NONE)
		q->tail = p->prev;
	else
		s->pages[p->next].prev = p->prev;
	q->n--;
}

static uint32_t slab_of(const struct page_store *s, uint32_t page)
{
	return page / s->per_slab;
}

static struct page_class *class_of(struct page_store *s, uint32_t page)
{
	return &s->classes[s->slabs[slab_of(s, page)].class];
}

static struct page_queue *queue_of(struct page_store *s, uint32_t page, uint8_t name)
{
	struct page_class *c = class_of(s, page);

	switch (name) {
	case QUEUE_FREE:
		return &c->free;
	case QUEUE_SMALL:
		return &c->small;
	case QUEUE_MAIN:
		return &c->main;
	default:
		return &s->pinned;
	}
}

static void move(struct page_store *s, uint32_t page, enum page_queue_name to)
{
	struct page *p = &s->pages[page];

	if (p->queue != QUEUE_NONE)
		queue_remove(s, queue_of(s, page, p->queue), page);
	p->queue = (uint8_t)to;
	if (to != QUEUE_NONE)
		queue_append(s, queue_of(s, page, (uint8_t)to), page);
}

/* ---- places ---- */

static struct page_header *header_of(struct page_store *s, uint32_t page)
{
	return (struct page_header *)(void *)(s->mem + (uint64_t)page * PAGE_HEADER_LEN);
}

static uint64_t offset_of(struct page_store *s, uint32_t page)
{
	uint32_t slab = slab_of(s, page);

	return s->first_slab + slab * s->slab_len +
	       (uint64_t)(page % s->per_slab) * class_of(s, page)->len;
}

static const uint8_t *key_of(const struct page *p)
{
	return p->key_len > INLINE_KEY ? p->key.heap : p->key.bytes;
}

static uint64_t index_hash(void *arg, uint32_t page)
{
	return ((struct page_store *)arg)->pages[page].hash.low;
}

static uint32_t find(struct page_store *s, struct page_hash hash, const void *key, size_t key_len)
{
	uint32_t at = page_index_home(&s->index, hash.low);
	uint32_t page;

	while ((page = page_index_next(&s->index, hash.low, &at)) != PAGE_NONE) {
		const struct page *p = &s->pages[page];

		if (p->key_len == key_len && !memcmp(key_of(p), key, key_len))
			return page;
	}
	return PAGE_NONE;
}

/* ---- the life of a page ---- */

/* Readers that look from here on find that it is another page; those that have its bytes already,
 * and look at its header afterwards, as well. */
static void begin_change(struct page_store *s, uint32_t page)
{
	struct page_header *h = header_of(s, page);

	atomic_fetch_add_explicit(&h->generation, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
}

static void forget_key(struct page *p)
{
	if (p->key_len > INLINE_KEY)
		free(p->key.heap);
	p->key_len = 0;
}

static void free_page(struct page_store *s, uint32_t page)
{
	struct page *p = &s->pages[page];

	forget_key(p);
	s->stat.used -= class_of(s, page)->len;
	p->state = PAGE_FREE;
	move(s, page, QUEUE_FREE);
}

static void unpin(struct page_store *s, uint32_t page)
{
	s->pages[page].n_pins = 0;
	s->pinned_bytes -= class_of(s, page)->len;
	move(s, page, QUEUE_MAIN);
}

/* A committed page goes. */
static void drop(struct page_store *s, uint32_t page, enum page_gone why)
{
	struct page *p = &s->pages[page];

	begin_change(s, page);
	page_index_remove(&s->index, p->hash.low, page, index_hash, s);
	if (p->queue == QUEUE_PINNED)
		unpin(s, page);
	s->stat.pages--;
	s->stat.bytes -= p->len;
	s->stat.gone[why]++;
	free_page(s, page);
}

/* ---- eviction ---- */

static uint32_t *left_cell(struct page_store *s, struct page_hash hash)
{
	return &s->left[hash.high & s->left_mask];
}

static void release_expired_pins(struct page_store *s)
{
	uint64_t now = s->pinned.n ? sl_clock_coarse_ns() : 0;

	for (uint32_t i = 0, n = s->pinned.n; i < n && i < SCAN_MAX; i++) {
		uint32_t page = s->pinned.head;

		if (s->pages[page].pinned_until_ns <= now)
			unpin(s, page);
		else
			move(s, page, QUEUE_PINNED); /* to its end */
	}
}

/* One page of the short queue leaves it: false when it went into the long one. */
static bool evict_small(struct page_store *s, struct page_class *c)
{
	uint32_t page = c->small.head;
	struct page *p = &s->pages[page];

	if (p->uses) {
		p->uses = 0;
		move(s, page, QUEUE_MAIN);
		return false;
	}
	*left_cell(s, p->hash) = (uint32_t)p->hash.low;
	drop(s, page, PAGE_GONE_EVICTED);
	return true;
}

static bool evict_main(struct page_store *s, struct page_class *c, bool force)
{
	uint32_t page = c->main.head;
	struct page *p = &s->pages[page];

	if (p->uses && !force) {
		p->uses--;
		move(s, page, QUEUE_MAIN);
		return false;
	}
	drop(s, page, PAGE_GONE_EVICTED);
	return true;
}

/* Free one page of a class: false when all are pinned or being filled. */
static bool evict(struct page_store *s, struct page_class *c)
{
	for (int i = 0; c->small.n || c->main.n; i++) {
		bool small = c->small.n &&
			     (!c->main.n || c->small.n * SMALL_SHARE > c->small.n + c->main.n);

		if (small ? evict_small(s, c) : evict_main(s, c, i > SCAN_MAX))
			return true;
	}
	return false;
}

static void give_slab(struct page_store *s, uint32_t slab, unsigned class)
{
	struct page_class *c = &s->classes[class];

	s->slabs[slab].class = (uint8_t) class;
	c->n_slabs++;
	for (uint32_t i = 0; i < c->per_slab; i++) {
		struct page *p = &s->pages[slab * s->per_slab + i];

		p->state = PAGE_FREE;
		p->queue = QUEUE_NONE;
		move(s, slab * s->per_slab + i, QUEUE_FREE);
	}
}

static bool can_take_slab(struct page_store *s, uint32_t slab)
{
	struct page_class *c = &s->classes[s->slabs[slab].class];

	for (uint32_t i = 0; i < c->per_slab; i++) {
		const struct page *p = &s->pages[slab * s->per_slab + i];

		if (p->state == PAGE_FILLING || p->queue == QUEUE_PINNED)
			return false;
	}
	return true;
}

/* Move a slab from another class. */
static bool take_slab(struct page_store *s, unsigned class)
{
	uint32_t slab = s->next_slab;
	struct page_class *c;

	for (int i = 0; s->slabs[slab].class == class || !can_take_slab(s, slab); i++) {
		slab = (slab + 1) % s->n_slabs;
		if (i < SLABS_MAX && slab != s->next_slab)
			continue;
		s->next_slab = slab; /* the next search goes on from here */
		return false;
	}
	s->next_slab = (slab + 1) % s->n_slabs;
	c = &s->classes[s->slabs[slab].class];
	for (uint32_t i = 0; i < c->per_slab; i++) {
		uint32_t page = slab * s->per_slab + i;

		if (s->pages[page].state == PAGE_LIVE)
			drop(s, page, PAGE_GONE_SLAB);
		move(s, page, QUEUE_NONE);
	}
	c->n_slabs--;
	give_slab(s, slab, class);
	return true;
}

/* A free page of the class; PAGE_NONE: nothing can be evicted. */
static uint32_t take_page(struct page_store *s, unsigned class)
{
	struct page_class *c = &s->classes[class];
	uint32_t page;

	if (!c->free.n && s->n_unused)
		give_slab(s, s->n_slabs - s->n_unused--, class);
	if (!c->free.n)
		release_expired_pins(s);
	/* A slab of another class is taken only when nothing of this one can be evicted. */
	if (!c->free.n && !evict(s, c) && !take_slab(s, class))
		return PAGE_NONE;
	page = c->free.head;
	move(s, page, QUEUE_NONE);
	s->stat.used += c->len;
	return page;
}

static void evict_to_low(struct page_store *s, struct page_class *c)
{
	if (s->stat.used <= s->high)
		return;
	for (int i = 0; i < EVICT_MAX && s->stat.used > s->low && evict(s, c); i++)
		;
}

/* ---- creation ---- */

static int check(const struct page_store_attr *attr)
{
	if (!attr->n_classes || attr->n_classes > PAGE_CLASSES_MAX)
		return -EINVAL;
	for (unsigned i = 0; i < attr->n_classes; i++)
		if (!attr->classes[i] || (i && attr->classes[i] <= attr->classes[i - 1]))
			return -EINVAL;
	if (!attr->low_percent || attr->low_percent > attr->high_percent ||
	    attr->high_percent > 100)
		return -EINVAL;
	return 0;
}

static uint64_t round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

static int lay_out(struct page_store *s, const struct page_store_attr *attr)
{
	uint64_t longest = attr->classes[attr->n_classes - 1];
	uint64_t n, per_slab;

	s->slab_len = round_up(longest > PAGE_SLAB_MIN ? longest : PAGE_SLAB_MIN, PAGE_ALIGNMENT);
	per_slab = s->slab_len / attr->classes[0];
	n = attr->size / (s->slab_len + per_slab * PAGE_HEADER_LEN);
	while (n && round_up(n * per_slab * PAGE_HEADER_LEN, PAGE_ALIGNMENT) + n * s->slab_len >
			    attr->size)
		n--;
	if (n < attr->n_classes || n * per_slab >= UINT32_C(1) << 30)
		return -EINVAL;
	s->per_slab = (uint32_t)per_slab;
	s->n_slabs = s->n_unused = (uint32_t)n;
	s->first_slab = round_up(n * per_slab * PAGE_HEADER_LEN, PAGE_ALIGNMENT);
	s->n_classes = attr->n_classes;
	s->stat.size = n * s->slab_len;
	s->high = s->stat.size * attr->high_percent / 100;
	s->low = s->stat.size * attr->low_percent / 100;
	return 0;
}

static int allocate(struct page_store *s)
{
	uint32_t n = s->n_slabs * s->per_slab, left = 1024;

	while (left < n)
		left *= 2;
	s->left_mask = left - 1;
	s->left = calloc(left, sizeof(*s->left));
	s->slabs = calloc(s->n_slabs, sizeof(*s->slabs));
	s->pages = calloc(n, sizeof(*s->pages));
	if (!s->left || !s->slabs || !s->pages)
		return -ENOMEM;
	return page_index_init(&s->index, n);
}

int page_store_create(const struct page_store_attr *attr, struct page_store **out)
{
	struct page_store *s = NULL;
	int ret = check(attr);

	if (ret)
		return ret;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	pthread_mutex_init(&s->lock, NULL);
	s->mem = attr->mem;
	ret = lay_out(s, attr);
	if (!ret)
		ret = allocate(s);
	if (!ret && getrandom(&s->seed, sizeof(s->seed), 0) != (ssize_t)sizeof(s->seed))
		ret = -errno;
	if (ret) {
		page_store_destroy(s);
		return ret;
	}
	for (unsigned i = 0; i < attr->n_classes; i++) {
		struct page_class *c = &s->classes[i];

		c->len = attr->classes[i];
		c->per_slab = (uint32_t)(s->slab_len / c->len);
		queue_init(&c->free);
		queue_init(&c->small);
		queue_init(&c->main);
	}
	queue_init(&s->pinned);
	for (uint32_t i = 0; i < s->n_slabs; i++)
		s->slabs[i].class = PAGE_CLASSES_MAX;
	/* Odd: no page is committed. */
	for (uint32_t i = 0; i < s->n_slabs * s->per_slab; i++)
		atomic_init(&header_of(s, i)->generation, 1);
	*out = s;
	return 0;
}

void page_store_destroy(struct page_store *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; s->pages && i < s->n_slabs * s->per_slab; i++)
		forget_key(&s->pages[i]);
	page_index_fini(&s->index);
	free(s->pages);
	free(s->slabs);
	free(s->left);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

void page_store_lock(struct page_store *s)
{
	pthread_mutex_lock(&s->lock);
}

void page_store_unlock(struct page_store *s)
{
	pthread_mutex_unlock(&s->lock);
}

uint64_t page_store_seed(const struct page_store *s)
{
	return s->seed;
}

/* ---- what is asked ---- */

bool page_store_find_locked(struct page_store *s, const void *key, size_t key_len, bool touch,
			    struct page_place *out)
{
	uint32_t page = find(s, page_hash(key, key_len, s->seed), key, key_len);
	struct page *p;

	if (page == PAGE_NONE) {
		s->stat.missed++;
		return false;
	}
	p = &s->pages[page];
	if (touch && p->uses < USES_MAX)
		p->uses++;
	s->stat.found++;
	*out = (struct page_place){
		.page = offset_of(s, page),
		.header = (uint64_t)page * PAGE_HEADER_LEN,
		.generation =
			atomic_load_explicit(&header_of(s, page)->generation, memory_order_relaxed),
		.len = p->len,
	};
	return true;
}

static int keep_key(struct page *p, const void *key, size_t key_len)
{
	uint8_t *to = p->key.bytes;

	if (key_len > INLINE_KEY) {
		to = malloc(key_len);
		if (!to)
			return -ENOMEM;
		p->key.heap = to;
	}
	memcpy(to, key, key_len);
	p->key_len = (uint16_t)key_len;
	return 0;
}

static int smallest_class(const struct page_store *s, uint32_t len)
{
	for (unsigned i = 0; i < s->n_classes; i++)
		if (len <= s->classes[i].len)
			return (int)i;
	return -EMSGSIZE;
}

static int reserve(struct page_store *s, const void *key, size_t key_len, uint32_t len,
		   uint32_t *out)
{
	int class = smallest_class(s, len);
	struct page *p;
	uint32_t page;

	if (class < 0)
		return class;
	page = take_page(s, (unsigned)class);
	if (page == PAGE_NONE) {
		s->stat.refused++;
		return -ENOSPC;
	}
	p = &s->pages[page];
	if (keep_key(p, key, key_len)) {
		free_page(s, page);
		return -ENOMEM;
	}
	p->hash = page_hash(key, key_len, s->seed);
	p->state = PAGE_FILLING;
	p->len = len;
	p->uses = 0;
	p->n_pins = 0;
	s->stat.filling++;
	*out = page;
	return 0;
}

int page_store_reserve(struct page_store *s, const void *key, size_t key_len, uint32_t len,
		       bool replace, uint32_t *page, uint64_t *offset)
{
	int ret = -EEXIST;

	if (!key_len || key_len > PAGE_KEY_MAX)
		return -EINVAL;
	page_store_lock(s);
	if (replace || find(s, page_hash(key, key_len, s->seed), key, key_len) == PAGE_NONE)
		ret = reserve(s, key, key_len, len, page);
	if (!ret)
		*offset = offset_of(s, *page);
	page_store_unlock(s);
	return ret;
}

/* The generation is even from here on: nothing of the page or its header changes any more. */
static void publish(struct page_store *s, uint32_t page, uint64_t checksum)
{
	struct page *p = &s->pages[page];
	struct page_header *h = header_of(s, page);

	struct page_identity is = {
		.generation = 1 + atomic_load_explicit(&h->generation, memory_order_relaxed),
		.hash = p->hash,
		.len = p->len,
	};

	h->hash = is.hash;
	h->len = is.len;
	h->seal = page_seal(&is, checksum);
	atomic_store_explicit(&h->generation, is.generation, memory_order_release);
}

static void commit(struct page_store *s, uint32_t page, uint64_t checksum)
{
	struct page *p = &s->pages[page];
	bool known = *left_cell(s, p->hash) == (uint32_t)p->hash.low;

	publish(s, page, checksum);
	page_index_add(&s->index, p->hash.low, page);
	p->state = PAGE_LIVE;
	move(s, page, known ? QUEUE_MAIN : QUEUE_SMALL);
	s->stat.filling--;
	s->stat.pages++;
	s->stat.bytes += p->len;
	s->stat.put++;
	evict_to_low(s, class_of(s, page));
}

int page_store_commit(struct page_store *s, uint32_t page, uint64_t checksum, bool replace)
{
	struct page *p = &s->pages[page];
	int ret = page_checksum(s->mem + offset_of(s, page), p->len) == checksum ? 0 : -EIO;
	uint32_t other;

	page_store_lock(s);
	other = find(s, p->hash, key_of(p), p->key_len);
	if (!ret && other != PAGE_NONE && !replace)
		ret = -EEXIST;
	if (!ret && other != PAGE_NONE)
		drop(s, other, PAGE_GONE_REPLACED);
	if (ret) {
		s->stat.filling--;
		free_page(s, page);
	} else {
		commit(s, page, checksum);
	}
	page_store_unlock(s);
	return ret;
}

void page_store_abort(struct page_store *s, uint32_t page)
{
	page_store_lock(s);
	s->stat.filling--;
	free_page(s, page);
	page_store_unlock(s);
}

int page_store_delete(struct page_store *s, const void *key, size_t key_len)
{
	uint32_t page;

	page_store_lock(s);
	page = find(s, page_hash(key, key_len, s->seed), key, key_len);
	if (page != PAGE_NONE)
		drop(s, page, PAGE_GONE_DELETED);
	page_store_unlock(s);
	return page == PAGE_NONE ? -ENOENT : 0;
}

static int pin(struct page_store *s, uint32_t page, uint64_t deadline_ns)
{
	struct page *p = &s->pages[page];
	uint64_t len = class_of(s, page)->len;

	if (p->queue != QUEUE_PINNED) {
		if (s->pinned_bytes + len > s->stat.size / 2)
			return -ENOSPC;
		s->pinned_bytes += len;
		p->pinned_until_ns = 0;
		move(s, page, QUEUE_PINNED);
	}
	p->n_pins++;
	if (p->pinned_until_ns < deadline_ns)
		p->pinned_until_ns = deadline_ns;
	return 0;
}

int page_store_pin(struct page_store *s, const void *key, size_t key_len, uint64_t deadline_ns)
{
	uint32_t page;
	int ret = -ENOENT;

	page_store_lock(s);
	release_expired_pins(s);
	page = find(s, page_hash(key, key_len, s->seed), key, key_len);
	if (page != PAGE_NONE)
		ret = pin(s, page, deadline_ns);
	page_store_unlock(s);
	return ret;
}

int page_store_unpin(struct page_store *s, const void *key, size_t key_len)
{
	uint32_t page;
	int ret = -ENOENT;

	page_store_lock(s);
	page = find(s, page_hash(key, key_len, s->seed), key, key_len);
	if (page != PAGE_NONE && s->pages[page].queue == QUEUE_PINNED) {
		if (--s->pages[page].n_pins == 0)
			unpin(s, page);
		ret = 0;
	}
	page_store_unlock(s);
	return ret;
}

uint64_t page_store_clear(struct page_store *s)
{
	uint32_t n_pages = s->n_slabs * s->per_slab;
	uint64_t n = 0;

	for (uint32_t at = 0; at < n_pages;) {
		page_store_lock(s);
		for (uint32_t end = at + CLEAR_MAX; at < end && at < n_pages; at++) {
			if (s->pages[at].state != PAGE_LIVE)
				continue;
			drop(s, at, PAGE_GONE_DELETED);
			n++;
		}
		page_store_unlock(s);
	}
	return n;
}

void page_store_stat(struct page_store *s, struct page_store_stat *out)
{
	page_store_lock(s);
	*out = s->stat;
	out->pinned = s->pinned.n;
	page_store_unlock(s);
}
