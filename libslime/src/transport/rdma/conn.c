/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "src/core/lock.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/key.h"
#include "src/transport/rdma/limits.h"
#include "src/transport/rdma/msg.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/offer.h"
#include "src/transport/rdma/path.h"
#include "src/transport/rdma/qp.h"
#include "src/transport/rdma/receive.h"
#include "src/transport/rdma/transport.h"
#include "src/transport/rdma/wire.h"
#include "src/transport/rdma/work.h"

/* ---- what other threads ask for ---- */

static void conn_close(struct sl_conn *conn, int cause, const char *why)
{
	struct rdma_conn *c = rdma_conn_of(conn);

	sl_lock(&c->lock);
	if (!atomic_load(&c->ending))
		rdma_conn_end_because(c, cause, why, true, false);
	sl_unlock(&c->lock);
}

static void address(struct sl_conn *conn, char *out, size_t cap)
{
	struct rdma_conn *c = rdma_conn_of(conn);

	sl_lock(&c->lock);
	snprintf(out, cap, "%s", c->address);
	sl_unlock(&c->lock);
}

static void on_time(struct sl_timer *timer)
{
	struct rdma_conn *c = SL_CONTAINER_OF(timer, struct rdma_conn, timer);

	uint32_t state = rdma_state(c);

	if (state == RDMA_CONN_LEAVING)
		rdma_conn_fail(c, -ETIMEDOUT, "the peer does not answer our goodbye");
	else if (state != RDMA_CONN_DRAINING && !atomic_load(&c->ending))
		rdma_conn_give_up(c);
	if (state != RDMA_CONN_DRAINING)
		return;
	for (unsigned i = 0; i < c->n_qps; i++)
		c->qps[i]->drained = true;
	rdma_conn_call(c);
}

/* ---- while it is up ---- */

/* Longer than a device tries: by the specification a packet's time is up to four times as long. */
static uint64_t patience_ns(const struct rdma_conn *c)
{
	const struct slime_context_attr *attr = c->t->base.env->attr;
	uint64_t tries_ns =
		4 * (UINT64_C(4096) << attr->rdma_timeout) * (attr->rdma_retry_count + 1);
	uint64_t silence_ns = attr->tcp_user_timeout_ms * SL_NS_PER_MS;

	return tries_ns > silence_ns ? tries_ns : silence_ns;
}

/* Soft-RoCE whose port went down below work that was under way was seen to tell of no error, ever,
 * also after it came up. Looks are counted, and not the time: a process may have stood still. */
static bool is_stuck(struct rdma_qp *q, uint64_t every_ns)
{
	bool under_way = (int32_t)(q->signaled - q->tail) > 0;

	q->n_still = under_way && q->tail == q->checked_tail ? q->n_still + 1 : 0;
	q->checked_tail = q->tail;
	return q->path->port_was_down && q->n_still > patience_ns(q->conn) / every_ns;
}

static void end_stuck(struct rdma_qp *q)
{
	char why[160];

	snprintf(why, sizeof(why),
		 "%.40s: its port went down, and work that was under way has no result",
		 q->nic->device.name);
	rdma_path_fail_locked(q->path, -ECONNRESET, why);
}

void rdma_conn_probe(struct rdma_conn *c, uint64_t every_ns)
{
	if (rdma_state(c) != RDMA_CONN_UP || atomic_load(&c->ending))
		return;
	sl_lock(&c->lock);
	for (unsigned i = 0; i < c->n_qps; i++) {
		struct rdma_qp *q = c->qps[i];

		/* Else a worker may be at it. */
		if (!q->path->usable)
			continue;
		if (is_stuck(q, every_ns)) {
			end_stuck(q);
			continue;
		}
		/* A signaled work request that is under way reports as well. */
		if ((int32_t)(q->signaled - q->tail) > 0 || !rdma_qp_message_room(q))
			continue;
		if (rdma_qp_probe(q))
			rdma_path_fail_locked(q->path, -EIO, "a probe cannot be posted");
	}
	sl_unlock(&c->lock);
}

/* ---- passes ---- */

unsigned rdma_conn_run(struct rdma_conn *c)
{
	if (rdma_state(c) == RDMA_CONN_NEW)
		rdma_conn_begin(c);
	if (atomic_load(&c->ending))
		return rdma_conn_go_on_ending(c);
	if (rdma_state(c) == RDMA_CONN_UP) {
		rdma_path_run(c);
		rdma_key_run(c);
		sl_lock(&c->lock);
		rdma_work_pump(c);
		sl_unlock(&c->lock);
	}
	return 0;
}

/* ---- life ---- */

static void free_conn(struct rdma_conn *c)
{
	rdma_key_free(c);
	rdma_receive_forget_early(c);
	free(c->wrs);
	free(c->sges);
	free(c);
}

static void destroy(struct sl_conn *conn)
{
	struct rdma_conn *c = rdma_conn_of(conn);

	sl_todo_forget(&c->t->todo, &c->todo);
	for (unsigned i = 0; i < c->n_qps; i++)
		c->qps[i]->conn = NULL;
	if (rdma_state(c) == RDMA_CONN_ENDED)
		rdma_offer_free(c->offer);
	else
		rdma_offer_drop(c->offer);
	free_conn(c);
}

static void forget(struct sl_conn *conn)
{
	/* Its offer goes with the transport. */
	free_conn(rdma_conn_of(conn));
}

static const struct sl_conn_ops conn_ops = {
	.submit = rdma_submit,
	.slot = rdma_slot,
	.post = rdma_post,
	.take_imm = rdma_take_imm,
	.close = conn_close,
	.destroy = destroy,
	.forget = forget,
	.is_stale = rdma_key_is_stale,
	.address = address,
	.rails = rdma_path_rails,
};

static int make_proofs(struct rdma_conn *c, const struct sl_conn_attr *attr)
{
	struct rdma_proof p = { .initiator = attr->initiator };
	int ret;

	p.initiator_id = attr->initiator ? attr->self : attr->peer;
	p.acceptor_id = attr->initiator ? attr->peer : attr->self;
	p.initiator_bytes = attr->initiator ? c->offer->bytes : attr->candidate;
	p.initiator_len = attr->initiator ? c->offer->len : attr->candidate_len;
	p.acceptor_bytes = attr->initiator ? attr->candidate : c->offer->bytes;
	p.acceptor_len = attr->initiator ? attr->candidate_len : c->offer->len;
	ret = rdma_proof_make(&p, attr->key, c->proof);
	if (ret)
		return ret;
	p.initiator = !p.initiator;
	return rdma_proof_make(&p, attr->key, c->peer_proof);
}

static int init(struct rdma_conn *c, const struct sl_conn_attr *attr)
{
	int ret;

	c->conn = (struct sl_conn){
		.ops = &conn_ops,
		.events = attr->events,
		.owner = attr->owner,
		.name = attr->name,
		.self = attr->self,
		.peer = attr->peer,
		.imm_taken = &c->imm_taken,
		.any_region = true,
		.device_memory = true,
	};
	c->deadline_ns = attr->deadline_ns;
	c->wrs = calloc(RDMA_SENDS, sizeof(*c->wrs));
	c->sges = calloc((size_t)RDMA_SENDS * RDMA_SGES, sizeof(*c->sges));
	c->given = calloc(c->t->base.env->attr->max_regions, sizeof(*c->given));
	if (!c->wrs || !c->sges || !c->given)
		return -ENOMEM;
	for (unsigned i = 0; i < RDMA_SENDS; i++)
		c->wrs[i].sg_list = &c->sges[i * RDMA_SGES];
	ret = rdma_candidate_read(&c->peer, attr->candidate, attr->candidate_len);
	if (ret == -EPROTONOSUPPORT)
		snprintf(attr->why->text, sizeof(attr->why->text),
			 "the peer's offer is of another version, or requires a feature that we do "
			 "not know");
	if (!ret)
		ret = make_proofs(c, attr);
	if (!ret)
		ret = rdma_path_pair(c, attr->why);
	if (ret)
		return ret;
	c->rest_seed = c->qps[0]->psn;
	rdma_path_describe(c);
	return 0;
}

int rdma_conn_create(struct sl_transport *t, const struct sl_conn_attr *attr, struct sl_conn **out)
{
	struct rdma_conn *c;
	int ret;

	if (!attr->offer)
		return -ENODEV;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->t = rdma_of(t);
	c->offer = (struct rdma_offer *)attr->offer;
	c->on_up = rdma_receive_early;
	sl_list_init(&c->link);
	sl_todo_entry_init(&c->todo);
	sl_list_init(&c->works);
	sl_list_init(&c->held);
	sl_list_init(&c->posted);
	sl_timer_init(&c->timer, on_time);
	sl_timer_init(&c->again, rdma_conn_on_again);
	ret = init(c, attr);
	if (ret) {
		free_conn(c);
		return ret;
	}
	*out = &c->conn;
	rdma_conn_call(c);
	return 0;
}
