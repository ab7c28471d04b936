/* SPDX-License-Identifier: Apache-2.0 */
/* The peer's regions that we have. */
#include <errno.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/log.h"
#include "src/transport/shm/shm.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

/* Bytes whose pages are fetched at once: messages that come meanwhile wait for some microseconds.
 */
#define WARM_STEP (UINT64_C(64) << 10)

static struct shm_map *map_at(struct shm_conn *c, uint32_t id)
{
	return id < SHM_REGIONS_MAX ? atomic_load_explicit(&c->maps[id], memory_order_acquire)
				    : NULL;
}

/* The place for region id; made when it is first asked for, and freed with the connection. */
static struct shm_map *make_map(struct shm_conn *c, uint32_t id)
{
	struct shm_map *m = map_at(c, id);

	if (m || id >= SHM_REGIONS_MAX)
		return m;
	m = calloc(1, sizeof(*m));
	if (!m)
		return NULL;
	m->id = id;
	sl_list_init(&m->link);
	m->next = c->made;
	c->made = m;
	atomic_store_explicit(&c->maps[id], m, memory_order_release);
	return m;
}

/* Under lock. The answer comes to the holder of the token, who sees all of this through it. */
static int send_question(struct shm_conn *c, struct shm_map *m, const struct slime_remote_mr *r)
{
	struct shm_packet p = {
		.kind = SHM_MAP,
		.id = r->id,
		.a = r->generation,
		.b = r->secret[0],
		.c = r->secret[1],
	};
	int ret;

	if (atomic_load(&c->n_asked) == SHM_ASKED_MAX)
		return 0; /* an answer comes, and after it this is tried again */
	ret = shm_channel_send(c->sock.fd, &p);
	if (ret)
		return ret;
	atomic_fetch_add(&c->n_asked, 1);
	atomic_store(&m->generation, r->generation);
	atomic_store(&m->state, SHM_MAP_ASKED);
	return 0;
}

/* Under lock: a request for another generation than the last one asked for. A lower one is gone if
 * the last one was real, but a caller may have invented that number. */
static int ask_for_other(struct shm_conn *c, struct shm_map *m, const struct slime_remote_mr *r)
{
	bool is_newer = r->generation > atomic_load(&m->generation);

	switch ((enum shm_map_state)atomic_load(&m->state)) {
	case SHM_MAP_NONE:
	case SHM_MAP_REFUSED:
		return send_question(c, m, r);
	case SHM_MAP_ASKED:
		return 0;
	case SHM_MAP_READY:
		/* No other region has this id before we let go of the one that has it. */
		return -ESTALE;
	case SHM_MAP_STALE:
		return is_newer ? 0 : -ESTALE;
	default:
		return is_newer ? send_question(c, m, r) : -ESTALE;
	}
}

/* Under lock, as the next ones: of the one last asked for. */
static int ask_for_same(struct shm_conn *c, struct shm_map *m, const struct slime_remote_mr *r)
{
	int status = m->status;

	switch ((enum shm_map_state)atomic_load(&m->state)) {
	case SHM_MAP_NONE:
		return send_question(c, m, r);
	case SHM_MAP_ASKED:
	case SHM_MAP_READY: /* since we looked */
		return 0;
	case SHM_MAP_REFUSED:
		/* The missing resource is no property of the region: the next caller asks again. */
		if (status == -ENOMEM || status == -EMFILE)
			atomic_store(&m->state, SHM_MAP_NONE);
		return status;
	default:
		return -ESTALE;
	}
}

static int ask_for(struct shm_conn *c, const struct slime_remote_mr *r)
{
	struct shm_map *m = make_map(c, r->id);

	if (!m)
		return r->id < SHM_REGIONS_MAX ? -ENOMEM : -ESTALE;
	return r->generation == atomic_load(&m->generation) ? ask_for_same(c, m, r)
							    : ask_for_other(c, m, r);
}

/* The error for memory that is not mapped, or -EINPROGRESS. */
static int ask(struct shm_conn *c, const struct slime_remote_mr *r)
{
	int ret;

	pthread_mutex_lock(&c->lock);
	ret = ask_for(c, r);
	pthread_mutex_unlock(&c->lock);

	/* Nothing wakes a thread that waits for room in the socket, so a full socket ends the link.
	 * A peer that hung up is noticed when the socket is read. */
	if (ret == -EAGAIN)
		shm_conn_end(c, -ECONNRESET, "the peer does not read its socket");
	if (ret == -ENOBUFS)
		ret = -ENOMEM;
	return ret && ret != -EAGAIN && ret != -ECONNRESET ? ret : -EINPROGRESS;
}

/* A pass that found a user here does not come back by itself: the last user calls it. */
void shm_map_put(struct shm_conn *c, struct shm_map *m)
{
	atomic_fetch_sub(&m->n_users, 1);
	if (atomic_load(&m->state) == SHM_MAP_STALE)
		c->t->base.env->kick(c->t->base.env->arg);
}

int shm_map_get(struct shm_conn *c, const struct slime_remote_mr *r, struct shm_map **out)
{
	struct shm_map *m = map_at(c, r->id);

	if (m) {
		/* Count ourselves first, then check: taking the mapping away does both the other
		 * way round. */
		atomic_fetch_add(&m->n_users, 1);
		if (atomic_load(&m->state) == SHM_MAP_READY &&
		    atomic_load(&m->generation) == r->generation) {
			*out = m;
			return 0;
		}
		shm_map_put(c, m);
	}
	return ask(c, r);
}

/* Mappings go in passes of the token's holder, which is us: nothing has to be held. */
uint8_t *shm_map_view(struct sl_conn *conn, const struct slime_remote_mr *r, uint64_t offset,
		      uint64_t len, uint32_t access)
{
	struct shm_conn *c = (struct shm_conn *)conn;
	uint8_t *at = NULL;
	struct shm_map *m = NULL;

	if (shm_map_get(c, r, &m))
		return NULL;
	if (!m->foreign && (m->access & access) == access && len <= m->len &&
	    offset <= m->len - len)
		at = m->base + offset;
	shm_map_put(c, m);
	return at;
}

bool shm_map_is_stale(struct sl_conn *conn, const struct slime_remote_mr *r)
{
	struct shm_conn *c = (struct shm_conn *)conn;
	struct shm_map *m = map_at(c, r->id);
	uint64_t generation;
	uint32_t state;

	if (!m)
		return false;
	generation = atomic_load_explicit(&m->generation, memory_order_relaxed);
	state = atomic_load_explicit(&m->state, memory_order_relaxed);
	/* Of a region that was never mapped we cannot say that it is stale. */
	return (generation > r->generation && state == SHM_MAP_READY) ||
	       (generation >= r->generation && state >= SHM_MAP_STALE);
}

/* Whether the owner has all of the file's pages: those that lack would be fetched at our cost. */
static bool is_populated(int fd, uint64_t len)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (uint64_t)st.st_blocks * 512 >= len;
}

static bool is_of_huge_pages(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) || fs.f_type == HUGETLBFS_MAGIC;
}

static int map_region(struct shm_conn *c, struct shm_map *m, struct shm_packet *p)
{
	int prot = PROT_READ | (p->access & SLIME_ACCESS_REMOTE_WRITE ? PROT_WRITE : 0);
	int ret;

	if (p->b > p->c || p->len > p->c - p->b)
		return -EPROTO;
	/* Its owner can punch a hole into it, and a thread that touches that without a huge page
	 * left gets SIGBUS. Processes of our own user have other ways to end us. */
	if (!c->same_user && is_of_huge_pages(p->fds[0]))
		return -EOPNOTSUPP;
	ret = shm_map_sealed(p->fds[0], p->c, prot, &m->mapping);
	if (ret)
		return ret;
	m->mapping_len = p->c;
	m->base = (uint8_t *)m->mapping + p->b;
	if (is_populated(p->fds[0], p->c)) {
		m->cold_at = p->b & ~(WARM_STEP - 1);
		m->cold_end = p->b + p->len;
		sl_list_append(&c->cold, &m->link);
	}
	return 0;
}

unsigned shm_map_warm(struct shm_conn *c)
{
	struct shm_map *m = SL_CONTAINER_OF(c->cold.next, struct shm_map, link);
	uint64_t left = m->cold_end - m->cold_at;
	size_t step = left < WARM_STEP ? left : WARM_STEP;

	/* Read, also where we may write: that fetches many at once, and they can be written. A
	 * kernel before 5.14 has no such advice; then each access fetches what it needs. */
	if (madvise((uint8_t *)m->mapping + m->cold_at, step, MADV_POPULATE_READ))
		step = left;
	m->cold_at += step;
	if (m->cold_at == m->cold_end)
		sl_list_remove(&m->link);
	return 1;
}

/* The answers that an owner can give about a region: other values mean something here. */
static bool is_answer(int status)
{
	return status == 0 || status == -ESTALE || status == -EACCES || status == -EOPNOTSUPP ||
	       status == -ENOMEM;
}

/* Under lock: the asking thread still has it between sending and noting that it did. */
static int take_answer(struct shm_conn *c, struct shm_map *m, struct shm_packet *p)
{
	int ret = p->fds_lost ? -EMFILE : p->status;

	if (atomic_load(&m->state) != SHM_MAP_ASKED || atomic_load(&m->generation) != p->a ||
	    !is_answer(p->status))
		return -EPROTO;
	atomic_fetch_sub(&c->n_asked, 1);
	m->len = p->len;
	m->access = p->access;
	m->foreign = !ret && p->n_fds == 0;
	if (m->foreign && c->base.no_foreign)
		ret = -EOPNOTSUPP;
	if (!ret && !m->foreign)
		ret = map_region(c, m, p);
	m->status = ret;
	atomic_store(&m->state, ret ? SHM_MAP_REFUSED : SHM_MAP_READY);
	return ret;
}

bool shm_map_answered(struct shm_conn *c, struct shm_packet *p)
{
	struct shm_map *m = map_at(c, p->id);
	int ret;

	if (!m)
		return false;
	pthread_mutex_lock(&c->lock);
	ret = take_answer(c, m, p);
	pthread_mutex_unlock(&c->lock);
	if (ret == -EOPNOTSUPP)
		sl_warn("shm",
			"%s: region %u of the peer is out of reach over shm: memory that is not from "
			"slime_mem_alloc where it is restricted or foreign_memory does not work, a device's, "
			"or another user's huge pages",
			c->base.name, p->id);
	return ret != -EPROTO;
}

static void say_withdrawn(struct shm_conn *c, uint32_t id, uint64_t generation)
{
	struct shm_packet p = { .kind = SHM_WITHDRAWN, .id = id, .a = generation };

	shm_conn_answer(c, &p);
}

void shm_map_withdrawn(struct shm_conn *c, const struct shm_packet *p)
{
	struct shm_map *m = map_at(c, p->id);

	if (!m || atomic_load(&m->generation) != p->a || atomic_load(&m->state) != SHM_MAP_READY) {
		say_withdrawn(c, p->id, p->a);
		return;
	}
	atomic_store(&m->state, SHM_MAP_STALE);
	sl_list_remove(&m->link);
	sl_list_append(&c->leaving, &m->link);
}

static void unmap(struct shm_map *m)
{
	if (m->mapping)
		munmap(m->mapping, m->mapping_len);
	m->mapping = NULL;
	m->base = NULL;
}

unsigned shm_map_progress(struct shm_conn *c)
{
	struct sl_list *e, *tmp;
	unsigned n = 0;

	sl_list_for_each_safe (e, tmp, &c->leaving) {
		struct shm_map *m = SL_CONTAINER_OF(e, struct shm_map, link);

		if (atomic_load(&m->n_users))
			continue;
		sl_list_remove(e);
		unmap(m);
		say_withdrawn(c, m->id, atomic_load(&m->generation));
		atomic_store(&m->state, SHM_MAP_GONE);
		n++;
	}
	return n;
}

void shm_map_drop_all(struct shm_conn *c)
{
	for (struct shm_map *m = c->made; m; m = m->next) {
		sl_list_remove(&m->link);
		unmap(m);
	}
}

void shm_map_free(struct shm_conn *c)
{
	while (c->made) {
		struct shm_map *m = c->made;

		c->made = m->next;
		free(m);
	}
	free(c->maps);
}
