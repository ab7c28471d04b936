/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pid is a number: another process may have it, or the process another program, of other rights
 * than ours towards it. So each copy looks for the mark that the peer's program has.
 */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "base/log.h"
#include "src/transport/shm/shm.h"

/* Stretches that one system call moves. */
#define STRETCHES_PER_CALL 256
/* The most that one system call moves. */
#define BYTES_PER_CALL 0x7ffff000

/* The mark is the first stretch. Where it is not mapped, nothing behind it is moved; where other
 * bytes are, what is behind it was read as well, and the op fails. */
struct batch {
	uint8_t mark[SHM_MARK_LEN];
	struct iovec local[1 + STRETCHES_PER_CALL];
	struct iovec remote[1 + STRETCHES_PER_CALL];
	size_t n;
};

/* Of a copy that the kernel refused. */
static int error_of(int err)
{
	return err == ESRCH    ? -ECONNRESET
	       : err == EPERM  ? -EOPNOTSUPP
	       : err == EFAULT ? -EREMOTEIO
			       : -err;
}

static void begin(struct batch *b, const struct shm_conn *c)
{
	b->local[0] = (struct iovec){ .iov_base = b->mark, .iov_len = SHM_MARK_LEN };
	b->remote[0] = (struct iovec){ .iov_base = (void *)(uintptr_t)c->mark_at,
				       .iov_len = SHM_MARK_LEN };
	b->n = 1;
}

/* The work's next stretches within m, at most *budget bytes, which shrinks by as much. */
static int gather(const struct shm_map *m, struct sl_work *w, uint64_t *budget, struct batch *b)
{
	uint64_t left = *budget < BYTES_PER_CALL ? *budget : BYTES_PER_CALL;
	const struct slime_xfer *x = sl_work_at(w);
	const struct slime_remote_mr *remote = x->remote;

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
	} while (x && x->remote == remote && left && b->n <= STRETCHES_PER_CALL);
	return 0;
}

/* Read the mark and, in the same call, n stretches from the first on: how many bytes of those.
 * -ENOEXEC there is no such mark. */
static ssize_t read_marked(struct shm_conn *c, struct batch *b, size_t first, size_t n)
{
	struct iovec local = b->local[first - 1], remote = b->remote[first - 1];
	ssize_t len;

	b->local[first - 1] = b->local[0];
	b->remote[first - 1] = b->remote[0];
	len = process_vm_readv(c->pid, b->local + first - 1, n + 1, b->remote + first - 1, n + 1,
			       0);
	b->local[first - 1] = local;
	b->remote[first - 1] = remote;
	if (len < 0 && errno != EFAULT)
		return error_of(errno);
	if (len < SHM_MARK_LEN || memcmp(b->mark, c->mark, SHM_MARK_LEN) != 0)
		return -ENOEXEC;
	return len - SHM_MARK_LEN;
}

/* The kernel writes no mark: it is looked for just before. */
static ssize_t write_marked(struct shm_conn *c, struct batch *b, size_t first, size_t n)
{
	ssize_t len = read_marked(c, b, 1, 0);

	if (len)
		return len;
	len = process_vm_writev(c->pid, b->local + first, n, b->remote + first, n, 0);
	return len < 0 ? error_of(errno) : len;
}

int shm_foreign_probe(struct shm_conn *c)
{
	struct batch b;

	begin(&b, c);
	return (int)read_marked(c, &b, 1, 0);
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
	size_t first = 1;

	while (first < b->n) {
		ssize_t n = read ? read_marked(c, b, first, b->n - first)
				 : write_marked(c, b, first, b->n - first);

		if (n <= 0)
			return n ? (int)n : -EREMOTEIO;
		first = skip(b, first, (size_t)n);
	}
	return 0;
}

static void log_forbidden(const struct shm_conn *c)
{
	static struct sl_log_limit limit = SL_LOG_LIMIT_INIT(1, 60000);
	uint32_t held_back;

	if (sl_log_allow(&limit, &held_back))
		sl_error("shm",
			 "%s: the kernel forbids process_vm_readv/writev by now: is a process not "
			 "dumpable? Use memory of slime_mem_alloc",
			 c->base.name);
}

int shm_foreign_copy(struct shm_conn *c, const struct shm_map *m, struct sl_work *w,
		     uint64_t *budget)
{
	struct batch b;
	int ret;

	begin(&b, c);
	ret = gather(m, w, budget, &b);
	if (!ret)
		ret = move(c, &b, w->kind == SLIME_KIND_READ);
	if (ret == -EOPNOTSUPP)
		log_forbidden(c);
	if (ret != -ENOEXEC)
		return ret;
	shm_conn_end(c, -ECONNRESET, "the peer's process runs another program");
	return -ECONNRESET;
}
