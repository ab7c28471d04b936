/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "src/transport/tcp/tcp.h"

static void init(struct tcp_pool *p, size_t len)
{
	pthread_mutex_init(&p->lock, NULL);
	sl_list_init(&p->free);
	p->len = len;
}

static void free_all(struct tcp_pool *p)
{
	struct sl_list *e;

	while ((e = sl_list_pop(&p->free)))
		free(e);
}

static void fini(struct tcp_pool *p)
{
	free_all(p);
	pthread_mutex_destroy(&p->lock);
}

static void forget(struct tcp_pool *p)
{
	/* The thread that has the lock is not in this process, and may have left the list half
	 * changed. */
	if (pthread_mutex_trylock(&p->lock) == 0)
		free_all(p);
}

void *tcp_pool_take(struct tcp_pool *p)
{
	struct sl_list *e;

	pthread_mutex_lock(&p->lock);
	/* The last one is in the caches. */
	e = sl_list_pop(&p->free);
	pthread_mutex_unlock(&p->lock);
	return e ? e : calloc(1, p->len);
}

void tcp_pool_give(struct tcp_pool *p, void *object)
{
	struct sl_list *e = object;

	if (!e)
		return;
	pthread_mutex_lock(&p->lock);
	sl_list_append(p->free.next, e);
	pthread_mutex_unlock(&p->lock);
}

/* ---- all of a context ---- */

void tcp_pools_init(struct tcp_transport *t)
{
	init(&t->requests, sizeof(struct tcp_requests));
	init(&t->serves, sizeof(struct tcp_serves));
	init(&t->batches, sizeof(struct tcp_batch));
	init(&t->rxs, sizeof(struct tcp_rx));
	init(&t->msgs, sizeof(struct tcp_msgs));
}

void tcp_pools_fini(struct tcp_transport *t)
{
	free(t->spare_rx);
	t->spare_rx = NULL;
	fini(&t->requests);
	fini(&t->serves);
	fini(&t->batches);
	fini(&t->rxs);
	fini(&t->msgs);
}

void tcp_pools_forget(struct tcp_transport *t)
{
	free(t->spare_rx);
	forget(&t->requests);
	forget(&t->serves);
	forget(&t->batches);
	forget(&t->rxs);
	forget(&t->msgs);
}
