/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <sys/uio.h>

#include "base/log.h"
#include "src/transport/shm/shm.h"

/* Stretches that one system call moves. */
#define STRETCHES_PER_CALL 256
/* What one system call moves at most. */
#define BYTES_PER_CALL 0x7ffff000

struct batch {
	struct iovec local[STRETCHES_PER_CALL];
	struct iovec remote[STRETCHES_PER_CALL];
	size_t n;
};

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

/* The work's next stretches within m, at most *budget bytes, which shrinks by as much. */
static int gather(const struct shm_map *m, struct sl_work *w, uint64_t *budget, struct batch *b)
{
	uint64_t left = *budget < BYTES_PER_CALL ? *budget : BYTES_PER_CALL;
	const struct slime_xfer *x = sl_work_at(w);
	const struct slime_remote_mr *remote = x->remote;

	b->n = 0;
	do {
		struct sl_piece p;
		int ret;

		sl_work_next(w, left, &p);
		ret = shm_map_check(m, &p, w->kind);
		if (ret)
			return ret;
		b->local[b->n] = (struct iovec){ .iov_base = p.local, .iov_len = p.len };
		b->remote[b->n] = (struct iovec){
			.iov_base = (void *)(uintptr_t)(remote->addr + p.remote_offset),
			.iov_len = p.len,
		};
		b->n++;
		left -= p.len;
		*budget -= p.len;
		x = sl_work_at(w);
	} while (x && x->remote == remote && left && b->n < STRETCHES_PER_CALL);
	return 0;
}

/* The first stretches were moved, len bytes in all: the index of the first that was not, its rest
 * in its place. */
static size_t skip(struct batch *b, size_t first, size_t len)
{
	while (first < b->n && len >= b->local[first].iov_len)
		len -= b->local[first++].iov_len;
	if (len) {
		b->local[first].iov_base = (char *)b->local[first].iov_base + len;
		b->local[first].iov_len -= len;
		b->remote[first].iov_base = (char *)b->remote[first].iov_base + len;
		b->remote[first].iov_len -= len;
	}
	return first;
}

/* Short counts are normal. */
static int move(struct shm_conn *c, struct batch *b, bool read)
{
	size_t first = 0;

	while (first < b->n) {
		struct iovec *local = b->local + first;
		struct iovec *remote = b->remote + first;
		size_t left = b->n - first;
		ssize_t n = read ? process_vm_readv(c->pid, local, left, remote, left, 0)
				 : process_vm_writev(c->pid, local, left, remote, left, 0);

		if (n <= 0)
			return n ? foreign_error() : -EREMOTEIO;
		first = skip(b, first, (size_t)n);
	}
	return 0;
}

int shm_foreign_copy(struct shm_conn *c, const struct shm_map *m, struct sl_work *w,
		     uint64_t *budget)
{
	struct batch b;
	int ret = gather(m, w, budget, &b);

	if (ret)
		return ret;
	return is_alive(c) ? move(c, &b, w->kind == SLIME_KIND_READ) : -ECONNRESET;
}
