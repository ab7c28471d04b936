/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/uio.h>

#include "base/log.h"
#include "src/transport/shm/shm.h"

/* Copied in one round, so that messages of others get their turn. */
#define BYTES_PER_ROUND (1U << 20)

/* ---- copies ---- */

static void copy(const struct sl_piece *p, uint8_t *theirs, bool read)
{
	if (read)
		memmove(p->local, theirs, p->len);
	else
		memmove(theirs, p->local, p->len);
}

static int fits(const struct shm_map *m, const struct sl_piece *p, uint32_t access)
{
	if ((m->access & access) != access)
		return -EACCES;
	if (p->len > m->len || p->remote_offset > m->len - p->len)
		return -ERANGE;
	return 0;
}

/* A pid is a number that another process can have by now: the pidfd is not. */
static bool is_alive(struct shm_conn *c)
{
	struct pollfd fd = { .fd = c->pid_source.fd, .events = POLLIN };

	return fd.fd >= 0 && poll(&fd, 1, 0) == 0;
}

static int foreign_error(void)
{
	static struct sl_log_limit limit = SL_LOG_LIMIT_INIT(1, 60000);
	uint32_t held_back;
	int err = errno;

	if (err == ESRCH)
		return -ECONNRESET;
	if (err == EPERM && sl_log_allow(&limit, &held_back))
		sl_error(
			"shm",
			"the kernel forbids process_vm_readv/writev: see kernel.yama.ptrace_scope, or use "
			"memory of slime_mem_alloc");
	return err == EPERM ? -EOPNOTSUPP : err == EFAULT ? -EREMOTEIO : -err;
}

/* One stretch by system calls; short counts are normal. */
static int copy_foreign(struct shm_conn *c, const struct sl_piece *p, bool read)
{
	uint64_t done = 0;

	if (!is_alive(c))
		return -ECONNRESET;
	while (done < p->len) {
		uint64_t left = p->len - done;
		size_t part = left > 0x7ffff000 ? 0x7ffff000 : (size_t)left;
		struct iovec local = { .iov_base = p->local + done, .iov_len = part };
		struct iovec remote = {
			.iov_base = (void *)(uintptr_t)(p->remote->addr + p->remote_offset + done),
			.iov_len = part,
		};
		ssize_t n = read ? process_vm_readv(c->pid, &local, 1, &remote, 1, 0)
				 : process_vm_writev(c->pid, &local, 1, &remote, 1, 0);

		if (n <= 0)
			return n ? foreign_error() : -EREMOTEIO;
		done += (uint64_t)n;
	}
	return 0;
}

/* One after the other, at most budget bytes: 0 all done, -EAGAIN more to do, -EINPROGRESS a mapping
 * is on its way. */
static int copy_some(struct shm_conn *c, struct sl_work *w, uint64_t budget)
{
	bool read = w->kind == SLIME_KIND_READ;
	uint32_t access = read ? SLIME_ACCESS_REMOTE_READ : SLIME_ACCESS_REMOTE_WRITE;
	const struct slime_remote_mr *held = NULL;
	struct shm_map *m = NULL;
	int ret = 0;

	for (;;) {
		struct sl_work before = *w;
		struct sl_piece p;

		if (!sl_work_next(w, budget ? budget : 1, &p))
			break;
		if (!budget) {
			*w = before;
			ret = -EAGAIN;
			break;
		}
		if (p.remote != held) {
			if (m)
				shm_map_put(c, m);
			m = NULL;
			held = p.remote;
			ret = shm_map_get(c, p.remote, &m);
			if (ret) {
				*w = before;
				break;
			}
		}
		ret = fits(m, &p, access);
		if (!ret && m->foreign)
			ret = copy_foreign(c, &p, read);
		else if (!ret)
			copy(&p, m->base + p.remote_offset, read);
		if (ret)
			break;
		budget -= p.len;
	}
	if (m)
		shm_map_put(c, m);
	return ret;
}

/* All bytes are there: the immediate follows them. */
static void announce(struct shm_conn *c, const struct sl_work *w)
{
	struct sl_msg m = { .kind = SL_MSG_IMM, .w = { w->imm, w->total } };

	if (w->kind == SLIME_KIND_WRITE_IMM)
		shm_post(&c->base, &m);
}

/* ---- ops that are not done with their submit ---- */

static void park(struct shm_conn *c, struct slime_op *op)
{
	pthread_mutex_lock(&c->lock);
	sl_list_append(&c->works, &op->link);
	atomic_fetch_add(&c->n_works, 1);
	pthread_mutex_unlock(&c->lock);
	c->t->base.env->kick(c->t->base.env->arg);
}

/* Whether it must wait for what was submitted before it. */
static bool is_fenced(struct shm_conn *c, const struct slime_op *op)
{
	return op->work.flags & SLIME_FENCE && atomic_load(&c->n_works);
}

/* Copy at most budget bytes: whether the op is done with. */
static bool run(struct shm_conn *c, struct slime_op *op, uint64_t budget, int *ret)
{
	*ret = copy_some(c, &op->work, budget);
	if (*ret == -EAGAIN || *ret == -EINPROGRESS)
		return false;
	if (!*ret)
		announce(c, &op->work);
	sl_op_finish(op, *ret, op->work.total);
	return true;
}

int shm_work_submit(struct sl_conn *conn, struct slime_op *op)
{
	struct shm_conn *c = (struct shm_conn *)conn;
	int ret;

	/* First be counted, then look: the end does it the other way round. */
	atomic_fetch_add(&c->n_busy, 1);
	if (atomic_load(&c->state) != SHM_CONN_READY) {
		ret = -ENOTCONN;
		goto leave;
	}
	ret = 0;
	if (is_fenced(c, op) || !run(c, op, c->t->base.env->attr->shm_copy_in_submit, &(int){ 0 }))
		park(c, op);
leave:
	atomic_fetch_sub(&c->n_busy, 1);
	return ret;
}

static struct slime_op *op_of(struct sl_list *e)
{
	return SL_CONTAINER_OF(e, struct slime_op, link);
}

/* Out of the list, where nobody else takes it: works are run with the token only. */
static void unpark(struct shm_conn *c, struct slime_op *op)
{
	pthread_mutex_lock(&c->lock);
	sl_list_remove(&op->link);
	atomic_fetch_sub(&c->n_works, 1);
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

unsigned shm_work_progress(struct shm_conn *c)
{
	struct slime_op *op = next_of(c, NULL);
	bool first = true;
	unsigned n = 0;

	/* The first that can go on gets the round; those that wait for a mapping let others by, a
	 * fenced one does not. */
	while (op) {
		struct slime_op *next = next_of(c, op);
		int ret;

		if (op->work.flags & SLIME_FENCE && !first)
			break;
		ret = copy_some(c, &op->work, BYTES_PER_ROUND);
		if (ret == -EAGAIN)
			return n + 1;
		if (ret != -EINPROGRESS) {
			/* What is fenced behind it goes ahead once it is out of the list. */
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
