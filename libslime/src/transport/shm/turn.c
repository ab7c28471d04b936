/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which connections a pass looks at. A few are active: each pass looks at their rings, and their
 * peers need not tell. The others' peers mark a bit of our board behind each message. Of many links
 * that take turns none is active, and a pass costs what those cost that have something to say.
 */
#include "src/transport/shm/shm.h"

#define ACTIVE_MAX 8
/* Found again among so many is soon. */
#define FOUND_SOON 8

void shm_turn_join(struct shm_conn *c)
{
	struct shm_transport *t = c->t;

	c->bit = t->next_bit++ % SHM_BOARD_BITS;
	c->same_bit = t->by_bit[c->bit];
	t->by_bit[c->bit] = c;
}

static void remove_active(struct shm_conn *c)
{
	if (!shm_turn_is_active(c))
		return;
	sl_list_remove(&c->turn);
	c->t->n_active--;
}

void shm_turn_leave(struct shm_conn *c)
{
	struct shm_conn **at = &c->t->by_bit[c->bit];

	while (*at != c)
		at = &(*at)->same_bit;
	*at = c->same_bit;
	remove_active(c);
}

void shm_turn_found(struct shm_conn *c)
{
	struct shm_transport *t = c->t;
	bool soon = t->n_found - c->found_at < FOUND_SOON;

	c->found_at = ++t->n_found;
	if (!soon || t->n_active == ACTIVE_MAX)
		return;
	c->quiet_passes = 0;
	sl_list_append(&t->active, &c->turn);
	t->n_active++;
	atomic_store_explicit(&c->own->looks, 1, memory_order_relaxed);
}

void shm_turn_rest(struct shm_conn *c)
{
	remove_active(c);
	/* First say so, then look once more: the peer publishes first, then reads this. */
	atomic_store(&c->own->looks, 0);
	atomic_thread_fence(memory_order_seq_cst);
	if (shm_conn_has_message(c))
		shm_conn_call(c);
}
