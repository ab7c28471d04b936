/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "src/core/region.h"

int sl_region_table_init(struct sl_region_table *t, uint64_t owner, uint32_t n)
{
	uint32_t start;

	/* The upper half is random, so that generations of a former life of this process do not
	 * come again. */
	if (getrandom(&start, sizeof(start), 0) != sizeof(start))
		return -EIO;
	*t = (struct sl_region_table){
		.owner = owner,
		.next_generation = ((uint64_t)(start & INT32_MAX) << 32) + 1,
		.n = n,
		.slots = calloc(n, sizeof(*t->slots)),
	};
	if (!t->slots)
		return -ENOMEM;
	sl_list_init(&t->free);
	for (uint32_t i = 0; i < n; i++) {
		t->slots[i].id = i;
		sl_list_append(&t->free, &t->slots[i].link);
	}
	pthread_mutex_init(&t->lock, NULL);
	return 0;
}

void sl_region_table_fini(struct sl_region_table *t)
{
	pthread_mutex_destroy(&t->lock);
	free(t->slots);
}

/* Mostly the first: a peer that asks for an old generation may be looking at it this moment. */
static struct sl_region *take_free(struct sl_region_table *t)
{
	struct sl_list *e;

	sl_list_for_each (e, &t->free) {
		struct sl_region *r = SL_CONTAINER_OF(e, struct sl_region, link);

		if (atomic_load(&r->n_users))
			continue;
		sl_list_remove(e);
		return r;
	}
	return NULL;
}

int sl_region_add(struct sl_region_table *t, const struct sl_region *what, struct sl_region **out)
{
	struct sl_region *r;

	pthread_mutex_lock(&t->lock);
	r = take_free(t);
	if (r) {
		r->access = what->access;
		r->secret[0] = what->secret[0];
		r->secret[1] = what->secret[1];
		r->loan_to = what->loan_to;
		r->restricted = what->restricted;
		r->kind = what->kind;
		r->base = what->base;
		r->len = what->len;
		r->memfd = what->memfd;
		r->memfd_offset = what->memfd_offset;
		r->memfd_len = what->memfd_len;
		r->on_demand = what->on_demand;
		if (what->on_demand)
			atomic_store(&t->on_demand, true);
		r->has_address = what->has_address;
		r->dmabuf_fd = what->dmabuf_fd;
		r->dmabuf_offset = what->dmabuf_offset;
		r->handle = what->handle;
		r->generation = t->next_generation++;
		atomic_store(&r->n_ops, 0);
		atomic_store(&r->pinned, false);
		atomic_store(&r->state, SL_REGION_LIVE);
	}
	pthread_mutex_unlock(&t->lock);
	if (!r)
		return -ENOSPC;
	*out = r;
	return 0;
}

void sl_region_withdraw(struct sl_region *r)
{
	atomic_store(&r->state, SL_REGION_WITHDRAWN);
}

void sl_region_remove(struct sl_region_table *t, struct sl_region *r)
{
	pthread_mutex_lock(&t->lock);
	atomic_store(&r->state, SL_REGION_FREE);
	sl_list_append(t->free.next, &r->link); /* before the first */
	pthread_mutex_unlock(&t->lock);
}

static bool is_there(const struct sl_region *r, uint64_t generation)
{
	uint32_t state = atomic_load(&r->state);

	return (state == SL_REGION_LIVE || state == SL_REGION_CLOSING) &&
	       r->generation == generation;
}

/* In the same time wherever the two differ. */
static bool is_secret(const struct sl_region *r, const uint64_t secret[2])
{
	return !((r->secret[0] ^ secret[0]) | (r->secret[1] ^ secret[1]));
}

int sl_region_check_secret(struct sl_region_table *t, uint32_t id, uint64_t generation,
			   const uint64_t secret[2])
{
	struct sl_region *r;
	int ret = -ESTALE;

	if (id >= t->n)
		return ret;
	r = &t->slots[id];
	/* As in sl_region_acquire(). */
	atomic_fetch_add(&r->n_users, 1);
	if (is_there(r, generation) && !r->loan_to)
		ret = is_secret(r, secret) ? 0 : -EACCES;
	atomic_fetch_sub(&r->n_users, 1);
	return ret;
}

static int check_access(const struct sl_region *r, struct sl_region_user user, uint64_t generation,
			uint64_t offset, uint64_t len, uint32_t access)
{
	if (!is_there(r, generation))
		return -ESTALE;
	/* Also where the access would be refused: a guess is told nothing. */
	if (r->loan_to ? r->loan_to != user.endpoint : !user.shown)
		return -ESTALE;
	if ((r->access & access) != access)
		return -EACCES;
	if (len > r->len || offset > r->len - len)
		return -ERANGE;
	return 0;
}

int sl_region_acquire(struct sl_region_table *t, struct sl_region_user user, uint32_t id,
		      uint64_t generation, uint64_t offset, uint64_t len, uint32_t access,
		      struct sl_region **out, uint8_t **ptr)
{
	struct sl_region *r;
	int ret;

	if (id >= t->n)
		return -ESTALE;
	r = &t->slots[id];
	/* Count ourselves first, then check: a withdrawal does both in the opposite order. */
	atomic_fetch_add(&r->n_users, 1);
	ret = check_access(r, user, generation, offset, len, access);
	if (ret) {
		atomic_fetch_sub(&r->n_users, 1);
		return ret;
	}
	*out = r;
	*ptr = r->base + offset;
	return 0;
}

void sl_region_release(struct sl_region *r)
{
	atomic_fetch_sub(&r->n_users, 1);
}
