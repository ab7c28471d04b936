/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/wire.h"
#include "src/transport/rdma/completion.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/cq.h"
#include "src/transport/rdma/devices.h"
#include "src/transport/rdma/domain.h"
#include "src/transport/rdma/job.h"
#include "src/transport/rdma/key.h"
#include "src/transport/rdma/mr.h"
#include "src/transport/rdma/async_events.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/offer.h"
#include "src/transport/rdma/qp.h"
#include "src/transport/rdma/transport.h"

/* ---- offers ---- */

static int offer(struct sl_transport *transport, const struct sl_link_id *self,
		 const struct slime_endpoint_attr *attr, struct sl_writer *w, struct sl_offer **out,
		 struct sl_why *why)
{
	struct rdma_transport *t = rdma_of(transport);
	struct rdma_offer *o = NULL;
	int ret;

	(void)self;
	*out = NULL;
	pthread_mutex_lock(&t->setup_lock);
	while (t->is_closing)
		pthread_cond_wait(&t->is_closed, &t->setup_lock);
	ret = rdma_devices_set_up(t, why);
	if (!ret)
		ret = rdma_offer_create(t, attr, &o, why);
	pthread_mutex_unlock(&t->setup_lock);
	/* Connections that are closed for the next one are closed by the holder of the token. */
	if (ret && rdma_devices_are_to_close(t))
		t->base.env->kick(t->base.env->arg);
	if (ret)
		return ret;
	sl_write_bytes(w, o->bytes, o->len);
	*out = (struct sl_offer *)o;
	return 0;
}

static void drop_offer(struct sl_transport *t, struct sl_offer *o)
{
	(void)t;
	rdma_offer_drop((struct rdma_offer *)o);
}

/* ---- progress ---- */

static unsigned run_todo(struct rdma_transport *t)
{
	unsigned passes = sl_todo_count(&t->todo);
	struct sl_todo_entry *e;
	unsigned n = 0;

	/* Messages that come in meanwhile have their turn in the next pass. */
	while (passes-- && (e = sl_todo_take(&t->todo)))
		n += rdma_conn_run(SL_CONTAINER_OF(e, struct rdma_conn, todo));
	return n;
}

static unsigned progress(struct sl_transport *transport)
{
	struct rdma_transport *t = rdma_of(transport);
	unsigned n_nics = atomic_load_explicit(&t->n_nics, memory_order_acquire);
	unsigned n = 0;

	if (atomic_load_explicit(&t->n_done, memory_order_acquire))
		n += rdma_jobs_run_done(t);
	if (sl_todo_count(&t->todo))
		n += run_todo(t);
	for (unsigned i = 0; i < n_nics; i++)
		n += rdma_completions_poll(t->nics[i]);
	*t->base.env->slow_poll = n_nics > 0;
	if (rdma_devices_are_to_close(t))
		rdma_devices_close_what_failed(t);
	return n;
}

static void arm(struct sl_transport *transport)
{
	struct rdma_transport *t = rdma_of(transport);

	for (unsigned i = 0; i < atomic_load(&t->n_nics); i++)
		rdma_cq_arm(t->nics[i]);
}

/* An armed queue rings once, and the poller takes that in its turn. */
static void disarm(struct sl_transport *transport)
{
	(void)transport;
}

static void on_watch(struct sl_timer *timer)
{
	struct rdma_transport *t = SL_CONTAINER_OF(timer, struct rdma_transport, watch);
	struct sl_list *e;

	sl_list_for_each (e, &t->conns)
		rdma_conn_probe(SL_CONTAINER_OF(e, struct rdma_conn, link), rdma_watch_ns(t));
	if (!sl_list_empty(&t->conns))
		sl_timer_set(rdma_poller(t), &t->watch, sl_clock_ns() + rdma_watch_ns(t));
}

static bool withdraw(struct sl_transport *transport, const struct sl_region *r, uint64_t *asked_ns)
{
	struct rdma_transport *t = rdma_of(transport);
	bool gone = true;
	struct sl_list *e;

	sl_list_for_each (e, &t->conns)
		gone = rdma_key_withdraw(SL_CONTAINER_OF(e, struct rdma_conn, link), r) && gone;
	if (!gone || rdma_mr_release(t, r))
		return gone;
	*asked_ns = SL_NEVER;
	return false;
}

/* The link's queue pairs are destroyed, and the key was not given to peers of other links. */
static bool abandon(struct sl_transport *transport, const struct sl_region *r)
{
	return rdma_mr_release(rdma_of(transport), r);
}

/* ---- regions before they are used ---- */

/* [token], so that the devices stay as they are. */
static int prepare(struct sl_transport *transport, const struct sl_region *r)
{
	struct rdma_transport *t = rdma_of(transport);
	struct rdma_mr *mr;
	struct sl_why why;
	int ret = 0;

	if (!atomic_load(&t->n_nics)) {
		pthread_mutex_lock(&t->setup_lock);
		ret = t->is_closing ? -EINPROGRESS : rdma_devices_set_up(t, &why);
		pthread_mutex_unlock(&t->setup_lock);
		if (ret && ret != -EINPROGRESS)
			sl_error("rdma", "region %u is not registered: %s", r->id, why.text);
	}
	return ret ? ret : rdma_mr_get(t->shared, r, RDMA_MR_OURS, RDMA_MR_SOURCE, &mr);
}

static void prepared(struct sl_transport *transport, const struct sl_region *r,
		     struct slime_mr_progress *out)
{
	struct rdma_transport *t = rdma_of(transport);

	pthread_mutex_lock(&t->setup_lock);
	if (t->shared && !t->is_closing)
		rdma_mr_progress(t->shared, r, out);
	pthread_mutex_unlock(&t->setup_lock);
}

/* ---- life ---- */

static void free_transport(struct rdma_transport *t)
{
	free(t->table);
	free(t);
}

static int create(const struct sl_transport_env *env, struct sl_transport **out)
{
	struct rdma_transport *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->base = (struct sl_transport){ .ops = &sl_rdma_transport, .env = env };
	/* Its pages come when there are queue pairs. */
	t->table = calloc(1u << RDMA_TABLE_BITS, sizeof(*t->table));
	if (!t->table) {
		free_transport(t);
		return -ENOMEM;
	}
	t->on_port = rdma_devices_port_changed;
	sl_list_init(&t->conns);
	sl_todo_init(&t->todo);
	sl_list_init(&t->done);
	sl_list_init(&t->offers);
	sl_list_init(&t->domains);
	sl_timer_init(&t->watch, on_watch);
	sl_workers_init(&t->workers);
	sl_workers_init(&t->registrars);
	pthread_mutex_init(&t->setup_lock, NULL);
	pthread_mutex_init(&t->cq_lock, NULL);
	pthread_mutex_init(&t->mr_lock, NULL);
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->idle, NULL);
	pthread_cond_init(&t->is_closed, NULL);
	*out = &t->base;
	return 0;
}

static void destroy(struct sl_transport *transport)
{
	struct rdma_transport *t = rdma_of(transport);

	sl_timer_cancel(rdma_poller(t), &t->watch);
	/* Offers that were dropped are still being closed. */
	rdma_jobs_finish(t);
	sl_workers_fini(&t->workers);
	sl_workers_fini(&t->registrars);
	rdma_devices_unwatch(t);
	rdma_devices_close(t);
	pthread_cond_destroy(&t->idle);
	pthread_cond_destroy(&t->is_closed);
	sl_todo_fini(&t->todo);
	pthread_mutex_destroy(&t->lock);
	pthread_mutex_destroy(&t->mr_lock);
	pthread_mutex_destroy(&t->cq_lock);
	pthread_mutex_destroy(&t->setup_lock);
	free_transport(t);
}

static void forget(struct sl_transport *transport)
{
	struct rdma_transport *t = rdma_of(transport);
	struct sl_list *e;

	while ((e = sl_list_pop(&t->offers)))
		rdma_offer_forget(SL_CONTAINER_OF(e, struct rdma_offer, link));
	/* The objects of libibverbs are the parent's. */
	for (unsigned i = 0; i < t->n_open; i++) {
		for (unsigned k = 0; k < t->nics[i]->n_cqs; k++)
			free(atomic_load(&t->nics[i]->cqs[k]));
		free(t->nics[i]);
	}
	while ((e = sl_list_pop(&t->domains)))
		rdma_domain_free(SL_CONTAINER_OF(e, struct rdma_domain, link));
	free(t->workers.threads);
	free(t->registrars.threads);
	free_transport(t);
}

const struct sl_transport_ops sl_rdma_transport = {
	.id = SLIME_TRANSPORT_RDMA,
	.create = create,
	.destroy = destroy,
	.forget = forget,
	.offer = offer,
	.drop_offer = drop_offer,
	.conn_create = rdma_conn_create,
	.withdraw = withdraw,
	.abandon = abandon,
	.prepare = prepare,
	.prepared = prepared,
	.device_stats = rdma_device_stats,
	.progress = progress,
	.arm = arm,
	.disarm = disarm,
};
