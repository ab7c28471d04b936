/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/poison.h"
#include "src/progress/context.h"
#include "src/memory/mem.h"
#include "src/rpc/rpc_pool.h"

/* Small chunks share an arena of up to this, so that few regions are needed. */
#define ARENA_SHARED	 (UINT64_C(1) << 20)
#define ARENA_CHUNKS_MAX 16

/* Given back in one call, which takes the kernel some tenths of a millisecond. */
#define TRIM_STEP (UINT64_C(4) << 20)

struct sl_arena {
	struct sl_list link;	    /* among its account's, or the pool's stuck ones */
	struct sl_account *account; /* NULL: gone, and the arena goes with its last chunk */
	struct slime_mem *mem;	    /* NULL: private memory */
	struct slime_mr *mr;
	uint8_t *addr;
	uint64_t len;
	unsigned class;
	unsigned n_out;
	bool cold;	/* given back to the kernel, or some of it: populate before use */
	uint64_t given; /* its first bytes that are, while there are others; else 0 */
	unsigned n_chunks;
	struct sl_chunk chunks[];
};

void sl_pool_init(struct sl_pool *pool, struct slime_context *ctx)
{
	pool->ctx = ctx;
	pool->admitted[false] = 0;
	pool->admitted[true] = 0;
	sl_list_init(&pool->stuck);
	pthread_mutex_init(&pool->lock, NULL);
}

void sl_account_init(struct sl_account *a, bool exposed)
{
	*a = (struct sl_account){ .exposed = exposed };
	sl_list_init(&a->arenas);
	for (unsigned i = 0; i < SL_CHUNK_CLASSES; i++)
		sl_list_init(&a->free[i]);
}

struct slime_mr *sl_chunk_mr(const struct sl_chunk *chunk)
{
	return chunk->arena->mr;
}

static unsigned class_of(uint64_t len)
{
	unsigned class = 0;

	while (class < SL_CHUNK_CLASSES && UINT64_C(1) << (SL_CHUNK_MIN_SHIFT + class) < len)
		class ++;
	return class;
}

/* ---- arenas ---- */

/* Private memory is only read and written by ourselves: no file, nothing populated before use. */
static int map_private(struct sl_arena *a)
{
	void *addr = mmap(NULL, a->len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (addr == MAP_FAILED)
		return -ENOMEM;
	a->addr = addr;
	if (a->len >= ARENA_SHARED * 2)
		madvise(addr, a->len, MADV_HUGEPAGE);
	return 0;
}

static int map_exposed(struct slime_context *ctx, struct sl_arena *a)
{
	struct slime_mem_attr attr = SLIME_MEM_ATTR_INIT;
	int ret;

	attr.name = "slime-rpc";
	ret = slime_mem_alloc(ctx, a->len, &attr, &a->mem);
	if (!ret)
		a->addr = slime_mem_addr(a->mem);
	return ret;
}

static void unmap(struct sl_arena *a)
{
	sl_unpoison(a->addr, a->len);
	if (a->mem)
		slime_mem_destroy(a->mem);
	else
		munmap(a->addr, a->len);
}

static void unmap_all(struct sl_list *arenas)
{
	struct sl_list *e;

	while ((e = sl_list_pop(arenas))) {
		struct sl_arena *a = SL_CONTAINER_OF(e, struct sl_arena, link);

		unmap(a);
		free(a);
	}
}

/* The memory is never used again, so a peer that still maps it does no harm; a peer whose access
 * through us is under way is waited for, and so is a device that may write to it. */
bool sl_pool_tidy(struct sl_pool *pool)
{
	struct sl_list gone;
	struct sl_list *e, *tmp;
	bool all;

	sl_list_init(&gone);
	/* Under the lock, so that a thread which is told to check again finds the request that was
	 * refused before. */
	pthread_mutex_lock(&pool->lock);
	sl_list_for_each_safe (e, tmp, &pool->stuck) {
		if (!sl_mr_abandon(SL_CONTAINER_OF(e, struct sl_arena, link)->mr))
			continue;
		sl_list_remove(e);
		sl_list_append(&gone, e);
	}
	all = sl_list_empty(&pool->stuck);
	pthread_mutex_unlock(&pool->lock);
	unmap_all(&gone);
	return all;
}

void sl_pool_fini(struct sl_pool *pool)
{
	pthread_mutex_destroy(&pool->lock);
}

static int arena_create(struct slime_context *ctx, bool exposed, unsigned class,
			struct sl_arena **out)
{
	uint64_t size = UINT64_C(1) << (SL_CHUNK_MIN_SHIFT + class);
	uint64_t n = size < ARENA_SHARED ? ARENA_SHARED / size : 1;
	struct sl_arena *a;
	int ret;

	if (n > ARENA_CHUNKS_MAX)
		n = ARENA_CHUNKS_MAX;
	a = calloc(1, sizeof(*a) + n * sizeof(a->chunks[0]));
	if (!a)
		return -ENOMEM;
	a->len = n * size;
	a->class = class;
	a->n_chunks = (unsigned)n;
	ret = exposed ? map_exposed(ctx, a) : map_private(a);
	if (ret)
		goto free_arena;
	ret = slime_mr_create(ctx, a->addr, a->len,
			      exposed ? SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE : 0,
			      &a->mr);
	if (ret)
		goto unmap_arena;
	for (unsigned i = 0; i < n; i++) {
		a->chunks[i].arena = a;
		a->chunks[i].offset = i * size;
		a->chunks[i].addr = a->addr + a->chunks[i].offset;
	}
	*out = a;
	return 0;

unmap_arena:
	unmap(a);
free_arena:
	free(a);
	return ret;
}

/* Back to memory that a peer's access does not have to fault in. */
static int warm(struct sl_pool *pool, struct sl_arena *a)
{
	int ret = a->mem ? sl_mem_populate(a->addr, a->len) : 0;

	if (ret)
		return ret;
	/* A thread that takes another chunk meanwhile gets it populated, too. */
	pthread_mutex_lock(&pool->lock);
	a->cold = false;
	a->given = 0;
	pthread_mutex_unlock(&pool->lock);
	return 0;
}

/* ---- chunks ---- */

static bool is_admissible(const struct sl_pool *pool, const struct sl_account *a, uint64_t bytes,
			  uint64_t own)
{
	uint64_t all = pool->admitted[a->exposed];

	if (bytes && a->admitted > own && a->admitted + bytes > SL_ACCOUNT_ADMIT)
		return false;
	return !bytes || all <= own || all + bytes <= SL_POOL_ADMIT;
}

static bool admit(struct sl_pool *pool, struct sl_account *a, uint64_t bytes, uint64_t own)
{
	if (!is_admissible(pool, a, bytes, own))
		return false;
	a->admitted += bytes;
	pool->admitted[a->exposed] += bytes;
	return true;
}

bool sl_pool_would_admit(struct sl_pool *pool, const struct sl_account *a, uint64_t bytes)
{
	bool would;

	pthread_mutex_lock(&pool->lock);
	would = is_admissible(pool, a, bytes, 0);
	pthread_mutex_unlock(&pool->lock);
	return would;
}

/* The account, which is exposed or is not, may be gone. */
static void dismiss(struct sl_pool *pool, bool exposed, struct sl_account *a, uint64_t bytes)
{
	if (a)
		a->admitted -= bytes;
	pool->admitted[exposed] -= bytes;
}

/* Add the arena's chunks to the free ones; the account has the arena from now on. */
static void adopt_locked(struct sl_account *account, struct sl_arena *a)
{
	a->account = account;
	sl_list_append(&account->arenas, &a->link);
	for (unsigned i = 0; i < a->n_chunks; i++)
		sl_list_append(&account->free[a->class], &a->chunks[i].link);
	sl_poison(a->addr, a->len);
}

static uint64_t chunk_len(const struct sl_chunk *c)
{
	return UINT64_C(1) << (SL_CHUNK_MIN_SHIFT + c->arena->class);
}

/* The free chunk that was used last, since its memory is likely in a cache; NULL: none. */
static struct sl_chunk *pop_locked(struct sl_account *account, unsigned class, bool *cold)
{
	struct sl_list *e = account->free[class].prev;
	struct sl_chunk *c;

	if (e == &account->free[class])
		return NULL;
	sl_list_remove(e);
	c = SL_CONTAINER_OF(e, struct sl_chunk, link);
	c->arena->n_out++;
	*cold = c->arena->cold;
	return c;
}

/* A chunk of an arena that was free, or is made now. */
static int take_chunk(struct sl_pool *pool, struct sl_account *account, unsigned class,
		      struct sl_chunk **out)
{
	struct sl_arena *fresh = NULL;
	struct sl_chunk *c;
	bool cold = false;
	int ret;

	pthread_mutex_lock(&pool->lock);
	c = pop_locked(account, class, &cold);
	pthread_mutex_unlock(&pool->lock);
	if (!c) {
		ret = arena_create(pool->ctx, account->exposed, class, &fresh);
		if (ret)
			return ret;
		pthread_mutex_lock(&pool->lock);
		adopt_locked(account, fresh);
		c = pop_locked(account, class, &cold);
		pthread_mutex_unlock(&pool->lock);
	}
	if (cold && warm(pool, c->arena)) {
		sl_pool_put(pool, c);
		return -ENOMEM;
	}
	sl_unpoison(c->addr, chunk_len(c));
	*out = c;
	return 0;
}

int sl_pool_get(struct sl_pool *pool, struct sl_account *account, uint64_t len, bool admitted,
		const struct sl_chunk *beside, struct sl_chunk **out)
{
	unsigned class = class_of(len);
	uint64_t bytes = admitted ? len : 0;
	bool ok;
	int ret;

	if (class >= SL_CHUNK_CLASSES)
		return -ENOMEM;
	pthread_mutex_lock(&pool->lock);
	ok = admit(pool, account, bytes, beside ? beside->admitted : 0);
	pthread_mutex_unlock(&pool->lock);
	if (!ok)
		return -EAGAIN;
	ret = take_chunk(pool, account, class, out);
	if (!ret) {
		(*out)->admitted = bytes;
		return 0;
	}
	pthread_mutex_lock(&pool->lock);
	dismiss(pool, account->exposed, account, bytes);
	pthread_mutex_unlock(&pool->lock);
	return ret;
}

/* The next of it, at most max bytes; how many. Nothing of the arena is out. */
static uint64_t give_back_locked(struct sl_arena *a, uint64_t max)
{
	uint64_t len = a->len - a->given < max ? a->len - a->given : max;

	/* Memory that a device reaches would stay with the device, and no longer be the memory that
	 * we see. */
	if (atomic_load(&a->mr->region->pinned))
		return 0;
	/* A hole in a file that peers have mapped reads as zeros. */
	if (madvise(a->addr + a->given, len, a->mem ? MADV_REMOVE : MADV_DONTNEED))
		return 0;
	a->cold = true;
	a->given += len;
	if (a->given == a->len)
		a->given = 0;
	return len;
}

bool sl_pool_put(struct sl_pool *pool, struct sl_chunk *c)
{
	struct sl_arena *a = c->arena;
	uint64_t now = sl_clock_ns();
	bool fresh = false;
	bool last;

	sl_poison(c->addr, chunk_len(c));
	pthread_mutex_lock(&pool->lock);
	dismiss(pool, a->mem, a->account, c->admitted);
	c->admitted = 0;
	a->n_out--;
	/* It was populated in vain, and some of it may be there. */
	if (a->cold && !a->n_out) {
		a->given = 0;
		(void)give_back_locked(a, a->len);
	}
	last = !a->account && !a->n_out;
	if (last)
		sl_list_append(&pool->stuck, &a->link);
	if (a->account) {
		sl_list_append(&a->account->free[a->class], &c->link);
		a->account->last_put_ns = now;
		fresh = !a->account->has_idle;
		a->account->has_idle = true;
	}
	pthread_mutex_unlock(&pool->lock);
	if (last)
		(void)sl_pool_tidy(pool);
	return fresh;
}

/* ---- the end of it ---- */

/* At most so many bytes of the account; how many are left of them. */
static uint64_t trim_locked(struct sl_account *account, uint64_t max)
{
	struct sl_list *e;

	sl_list_for_each (e, &account->arenas) {
		struct sl_arena *a = SL_CONTAINER_OF(e, struct sl_arena, link);

		if (max && !a->n_out && (!a->cold || a->given))
			max -= give_back_locked(a, max);
	}
	return max;
}

uint64_t sl_pool_trim(struct sl_pool *pool, struct sl_account *account, uint64_t now_ns)
{
	uint64_t again = SL_NEVER;

	pthread_mutex_lock(&pool->lock);
	if (account->has_idle) {
		again = account->last_put_ns + SL_POOL_IDLE_MS * SL_NS_PER_MS;
		if (again <= now_ns && trim_locked(account, TRIM_STEP)) {
			account->has_idle = false;
			again = SL_NEVER;
		}
	}
	pthread_mutex_unlock(&pool->lock);
	return again;
}

static void forget(struct sl_list *arenas)
{
	struct sl_list *e;

	sl_list_for_each (e, arenas)
		slime_mr_destroy(SL_CONTAINER_OF(e, struct sl_arena, link)->mr);
	unmap_all(arenas);
}

void sl_pool_forget(struct sl_account *account)
{
	forget(&account->arenas);
}

void sl_pool_forget_stuck(struct sl_pool *pool)
{
	forget(&pool->stuck);
}

void sl_pool_drop(struct sl_pool *pool, struct sl_account *account)
{
	struct sl_list *e;

	pthread_mutex_lock(&pool->lock);
	while ((e = sl_list_pop(&account->arenas))) {
		struct sl_arena *a = SL_CONTAINER_OF(e, struct sl_arena, link);

		a->account = NULL;
		if (!a->n_out)
			sl_list_append(&pool->stuck, e);
	}
	pthread_mutex_unlock(&pool->lock);
	(void)sl_pool_tidy(pool);
}
