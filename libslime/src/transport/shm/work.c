/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "src/core/copy.h"
#include "src/transport/shm/shm.h"

/* Copied for one work before the others of its link have their turn. */
#define TURN_BYTES (UINT64_C(128) << 10)
/* The same of a work that is alone on its link. */
#define ALONE_BYTES (UINT64_C(1) << 20)
/* The bytes that count as another pass: the poller runs after 4 MiB, as after 64 passes. Until then
 * a peer's goodbye is not heard, which may have given up the memory we write. */
#define BYTES_OF_ONE_PASS (UINT64_C(64) << 10)
/* The pages that the kernel maps around a page that is read for the first time. */
#define FETCHED_AROUND 65536

/* ---- copies ---- */

/* Where the block that the work stands at is read from: x is its piece, and within m. */
static const uint8_t *source(const struct shm_map *m, const struct sl_work *w,
			     const struct slime_xfer *x)
{
	if (w->kind == SLIME_KIND_READ)
		return m->base + x->remote_offset + w->block * x->remote_stride;
	return x->local->region->base + x->local_offset + w->block * x->local_stride;
}

/* A page that is written first is fetched alone, one that is read first with those around it, which
 * can be written then. */
static void touch(const uint8_t *to, uint64_t len)
{
	uint64_t at = 0;

	do {
		(void)*(const volatile uint8_t *)(to + at);
		at += FETCHED_AROUND - ((uintptr_t)(to + at) & (FETCHED_AROUND - 1));
	} while (at < len);
}

static void copy(const struct sl_work *w, uint8_t *local, uint8_t *theirs, uint64_t len)
{
	bool read = w->kind == SLIME_KIND_READ;
	uint8_t *to = read ? local : theirs;
	uint8_t *from = read ? theirs : local;

	if (!read)
		touch(to, len);
	if (w->total < SL_COPY_STREAM_FROM)
		sl_copy(to, from, len);
	else
		sl_copy_stream(to, from, len);
}

/* The work's next stretches, which m maps; budget shrinks by what was copied. */
static int copy_mapped(const struct shm_map *m, struct sl_work *w, uint64_t *budget)
{
	const struct slime_xfer *x = sl_work_at(w);
	const struct slime_remote_mr *remote = x->remote;
	int ret;

	do {
		struct sl_piece p;

		sl_work_next(w, *budget, &p);
		ret = shm_map_check(m, &p, w->kind);
		if (ret)
			break;
		x = sl_work_at(w);
		if (x && x->remote == remote)
			sl_copy_fetch(source(m, w, x));
		copy(w, p.local, m->base + p.remote_offset, p.len);
		*budget -= p.len;
	} while (x && x->remote == remote && *budget);
	/* Also of an op that fails here: once it is finished the memory is its owner's. */
	if (w->total >= SL_COPY_STREAM_FROM)
		sl_copy_stream_fence();
	return ret;
}

/*
 * Whether the bytes that were read are those that the peer lent: so they are while the peer has not
 * begun to give its ops back, whose memory is its user's again then.
 */
static bool is_confirmed(const struct shm_conn *c)
{
	/* The bytes were read before this look. */
	atomic_thread_fence(memory_order_acquire);
	return !atomic_load_explicit(&c->other->ended, memory_order_relaxed);
}

/* One after the other, at most *budget bytes, which shrinks by as much: 0 all done, -EAGAIN more to
 * do, -EINPROGRESS a mapping is on its way, or the end of the connection. */
static int copy_some(struct shm_conn *c, struct sl_work *w, uint64_t *budget)
{
	const struct slime_xfer *x;
	int ret = 0;

	while (!ret && (x = sl_work_at(w))) {
		struct shm_map *m;

		if (!*budget)
			return -EAGAIN;
		ret = shm_map_get(c, x->remote, &m);
		if (ret)
			return ret;
		ret = m->foreign ? shm_foreign_copy(c, m, w, budget) : copy_mapped(m, w, budget);
		shm_map_put(c, m);
	}
	if (!ret && w->kind == SLIME_KIND_READ && !is_confirmed(c))
		return -EINPROGRESS;
	return ret;
}

/* All bytes are there: the immediate follows them. */
static void announce(struct shm_conn *c, const struct sl_work *w)
{
	struct sl_msg m = { .kind = SL_MSG_IMM, .w = { w->imm, w->total } };

	if (w->kind == SLIME_KIND_WRITE_IMM)
		sl_conn_post(&c->base, &m);
}

/* ---- ops that are not done with their submit ---- */

static bool is_fence(const struct slime_op *op)
{
	return op->work.flags & SLIME_FENCE;
}

static void park(struct shm_conn *c, struct slime_op *op)
{
	const struct sl_transport_env *env = c->t->base.env;
	bool waited_for = !op->fn && !(op->flags & SLIME_OP_QUEUED);

	pthread_mutex_lock(&c->lock);
	sl_list_append(&c->works, &op->link);
	atomic_fetch_add(&c->n_works, 1);
	c->n_fences += is_fence(op);
	pthread_mutex_unlock(&c->lock);
	shm_conn_call(c);
	/* The op may be gone by now. */
	if (waited_for)
		env->nudge(env->arg);
	else
		env->kick(env->arg);
}

/* Whether it must wait for what was submitted before it. */
static bool is_fenced(struct shm_conn *c, const struct slime_op *op)
{
	return is_fence(op) && atomic_load(&c->n_works);
}

/* What a submit may copy itself. A long op of a callback has its turns with the others: as long as
 * the callback copies, the rest of the pass waits. */
static uint64_t share_of_submit(const struct sl_transport_env *env, const struct slime_op *op)
{
	if (op->work.total > TURN_BYTES && env->in_pass(env->arg))
		return 0;
	return env->attr->shm_copy_in_submit;
}

/* Copy a part of the op: whether it is done with. */
static bool run(struct shm_conn *c, struct slime_op *op)
{
	uint64_t budget = share_of_submit(c->t->base.env, op);
	int ret = copy_some(c, &op->work, &budget);

	if (ret == -EAGAIN || ret == -EINPROGRESS)
		return false;
	if (!ret)
		announce(c, &op->work);
	sl_op_finish(op, ret, op->work.total);
	return true;
}

int shm_work_submit(struct sl_conn *conn, struct slime_op *op)
{
	struct shm_conn *c = (struct shm_conn *)conn;
	int ret;

	/* First be counted, then look: the end does it in the opposite order. */
	atomic_fetch_add(&c->n_busy, 1);
	if (atomic_load(&c->state) != SHM_CONN_READY) {
		ret = -ENOTCONN;
		goto leave;
	}
	ret = 0;
	if (is_fenced(c, op) || !run(c, op))
		park(c, op);
leave:
	atomic_fetch_sub(&c->n_busy, 1);
	return ret;
}

static struct slime_op *op_of(struct sl_list *e)
{
	return SL_CONTAINER_OF(e, struct slime_op, link);
}

/* Out of the list, where no other thread takes it: works are run with the token only. */
static void unpark(struct shm_conn *c, struct slime_op *op)
{
	pthread_mutex_lock(&c->lock);
	sl_list_remove(&op->link);
	atomic_fetch_sub(&c->n_works, 1);
	c->n_fences -= is_fence(op);
	pthread_mutex_unlock(&c->lock);
}

/* It had its turn: those behind it have theirs, unless one of them waits for it. */
static void let_others(struct shm_conn *c, struct slime_op *op)
{
	pthread_mutex_lock(&c->lock);
	if (!c->n_fences) {
		sl_list_remove(&op->link);
		sl_list_append(&c->works, &op->link);
	}
	pthread_mutex_unlock(&c->lock);
}

static struct slime_op *next_of(struct shm_conn *c, struct slime_op *op)
{
	struct sl_list *e;

	pthread_mutex_lock(&c->lock);
	e = op ? op->link.next : c->works.next;
	pthread_mutex_unlock(&c->lock);
	return e == &c->works ? NULL : op_of(e);
}

unsigned shm_work_turn(struct shm_conn *c, uint64_t *budget)
{
	struct slime_op *op = next_of(c, NULL);
	const uint64_t turn = atomic_load(&c->n_works) > 1 ? TURN_BYTES : ALONE_BYTES;
	uint64_t left = turn, copied;
	bool first = true;
	unsigned n = 0;

	/* Those that wait for a mapping, or the end, let others by, a fenced one does not. */
	while (op) {
		struct slime_op *next = next_of(c, op);
		int ret;

		if (is_fence(op) && !first)
			break;
		ret = copy_some(c, &op->work, &left);
		if (ret == -EAGAIN) {
			let_others(c, op);
			n++;
			break;
		}
		if (ret != -EINPROGRESS) {
			/* Works that are fenced behind it continue once it is out of the list. */
			if (!ret)
				announce(c, &op->work);
			unpark(c, op);
			sl_op_finish(op, ret, op->work.total);
			n++;
		} else {
			first = false;
		}
		op = next;
	}
	copied = turn - left;
	*c->t->base.env->passes += (uint32_t)(copied / BYTES_OF_ONE_PASS);
	*budget -= copied < *budget ? copied : *budget;
	return n;
}

void shm_work_flush(struct shm_conn *c, int status)
{
	struct slime_op *op;

	while ((op = next_of(c, NULL))) {
		unpark(c, op);
		sl_op_finish(op, status, 0);
	}
}
