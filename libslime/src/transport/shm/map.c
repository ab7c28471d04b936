/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "src/transport/shm/shm.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

#define WORD_BITS 64

/* Bytes whose pages are fetched at once: what comes meanwhile waits for some microseconds. */
#define WARM_STEP (UINT64_C(64) << 10)

/* Who is silent because he uses one region for long answers for another in less. */
#define ANSWER_NS (500 * SL_NS_PER_MS)

/* ---- the peer's regions ---- */

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

/* Under lock: what comes of asking for another generation than the last one asked for. One that is
 * lower than a real one is gone, but that one may have been made up. */
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
		/* What we lacked is no property of the region: who comes next asks again. */
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

/* What is not mapped: why not, or -EINPROGRESS. */
static int ask(struct shm_conn *c, const struct slime_remote_mr *r)
{
	int ret;

	pthread_mutex_lock(&c->lock);
	ret = ask_for(c, r);
	pthread_mutex_unlock(&c->lock);

	/* Nothing calls who waits for room in the socket. That the peer hung up is read from it. */
	if (ret == -EAGAIN)
		shm_conn_end(c, -ECONNRESET, "the peer does not read its socket");
	if (ret == -ENOBUFS)
		ret = -ENOMEM;
	return ret && ret != -EAGAIN && ret != -ECONNRESET ? ret : -EINPROGRESS;
}

/* Progress that found us there does not look again by itself: the last one out calls it. */
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
		/* First be counted, then look: who takes the mapping away does it the other way
		 * round. */
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

/* Mappings go in rounds of the token's holder, which is us: nothing has to be held. */
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
	/* Of one that was never had nothing is known. */
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
	/* Its owner can punch a hole into it, and who touches that without a huge page left has
	 * SIGBUS. Our own user's processes have other ways to end us. */
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

/* What an owner can say of a region it is asked for: other values mean something here. */
static bool is_answer(int status)
{
	return status == 0 || status == -ESTALE || status == -EACCES || status == -EOPNOTSUPP ||
	       status == -ENOMEM;
}

/* Under lock: who asked still has it between sending and noting that it did. */
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

/* A peer that hung up meanwhile may have said goodbye before: that is read from the socket, not
 * told by it. */
static void answer(struct shm_conn *c, const struct shm_packet *p)
{
	int ret = shm_channel_send(c->sock.fd, p);

	if (ret == -EAGAIN)
		shm_conn_end(c, -ECONNRESET, "the peer does not read its socket");
	else if (ret && ret != -ECONNRESET)
		/* It would wait for this for ever. */
		shm_conn_end(c, ret, strerror(-ret));
}

static void say_withdrawn(struct shm_conn *c, uint32_t id, uint64_t generation)
{
	struct shm_packet p = { .kind = SHM_WITHDRAWN, .id = id, .a = generation };

	answer(c, &p);
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

/* ---- ours that a peer has ---- */

static bool test_bit(const uint64_t *bits, uint32_t id)
{
	return bits[id / WORD_BITS] >> id % WORD_BITS & 1;
}

static void announced(struct shm_given *g, uint32_t id)
{
	g->announced[id / WORD_BITS] |= UINT64_C(1) << id % WORD_BITS;
	/* What could not be sent before it did not have to answer. */
	if (!g->n_announced++)
		g->asked_ns = sl_clock_ns();
	else if (!g->asked_more_ns)
		g->asked_more_ns = sl_clock_ns();
}

static void unannounced(struct shm_given *g, uint32_t id)
{
	if (!test_bit(g->announced, id))
		return;
	g->announced[id / WORD_BITS] &= ~(UINT64_C(1) << id % WORD_BITS);
	if (!--g->n_announced)
		g->asked_ns = g->asked_more_ns = 0;
}

static int given_set(struct shm_given *g, uint32_t id, uint64_t generation)
{
	if (!g->generations) {
		/* Whose pages come as they are used. */
		g->generations = calloc(SHM_REGIONS_MAX + SHM_REGIONS_MAX / WORD_BITS,
					sizeof(*g->generations));
		if (!g->generations)
			return -ENOMEM;
		g->announced = g->generations + SHM_REGIONS_MAX;
	}
	if (!g->generations[id])
		g->n++;
	if (g->generations[id] != generation)
		unannounced(g, id);
	g->generations[id] = generation;
	return 0;
}

bool shm_given_any(const struct shm_given *g)
{
	return g->n > 0;
}

void shm_given_ask(struct shm_given *g)
{
	if (!g->asked_ns)
		g->asked_ns = sl_clock_ns();
}

void shm_given_hear(struct shm_given *g)
{
	if (g->asked_ns)
		g->asked_ns = g->n_announced ? sl_clock_ns() : 0;
	g->asked_more_ns = 0;
}

static bool given_has(const struct shm_given *g, uint32_t id, uint64_t generation)
{
	return g->generations && g->generations[id] == generation;
}

void shm_given_clear(struct shm_given *g, uint32_t id, uint64_t generation)
{
	if (!generation || id >= SHM_REGIONS_MAX || !given_has(g, id, generation) ||
	    !test_bit(g->announced, id))
		return;
	g->generations[id] = 0;
	unannounced(g, id);
	g->n--;
}

void shm_given_free(struct shm_given *g)
{
	uint64_t *generations = g->generations;

	/* In this order: a fork between the two leaves a child nothing that is free already. */
	*g = (struct shm_given){ 0 };
	free(generations);
}

/* Who guesses is told no more than of a region that is not there. */
static int check_secret(struct shm_conn *c, const struct shm_packet *asked)
{
	const uint64_t secret[2] = { asked->b, asked->c };
	int ret = sl_region_check_secret(c->t->base.env->regions, asked->id, asked->a, secret);

	if (ret == -EACCES && ++c->n_wrong_secrets == SL_WRONG_SECRETS)
		shm_conn_end(c, -EPROTO, "the peer showed wrong secrets of our regions");
	return ret ? -ESTALE : 0;
}

/* What the peer is told of a region it asks for. */
static int give(struct shm_conn *c, const struct shm_packet *asked, struct shm_packet *said)
{
	const struct sl_transport_env *env = c->t->base.env;
	const struct sl_region_user user = { c->base.self.endpoint, .shown = true };
	struct sl_region *r;
	uint8_t *base;
	int ret = check_secret(c, asked);

	if (!ret)
		ret = sl_region_acquire(env->regions, user, asked->id, asked->a, 0, 0, 0, &r,
					&base);
	if (ret)
		return ret;
	said->access = r->access;
	said->len = r->len;
	if (!r->access) {
		ret = -EACCES;
	} else if (r->kind == SL_REGION_MEMFD) {
		said->fds[said->n_fds++] = r->memfd;
		said->b = r->memfd_offset;
		said->c = r->memfd_len;
	} else if (r->kind == SL_REGION_DEVICE || r->restricted || !c->base.any_region) {
		ret = -EOPNOTSUPP;
	}
	if (!ret)
		ret = given_set(&c->given, asked->id, asked->a);
	sl_region_release(r);
	return ret;
}

void shm_map_answer(struct shm_conn *c, const struct shm_packet *p)
{
	struct shm_packet said = { .kind = SHM_MAPPED, .id = p->id, .a = p->a };

	said.status = give(c, p, &said);
	if (said.status)
		said.n_fds = 0;
	answer(c, &said);
}

/* Since when its silence counts, of which the longest is timeout_ns. One that stands still has a
 * moment more, once for all that it is told of. */
static uint64_t silent_since(const struct shm_given *g, uint64_t timeout_ns)
{
	uint64_t more = g->asked_more_ns ? g->asked_more_ns + ANSWER_NS : 0;

	return more > g->asked_ns + timeout_ns ? more - timeout_ns : g->asked_ns;
}

/* Announce it once; whether the peer has it no more. Who cannot be told any more was told of the
 * end. */
static bool withdraw_from(const struct shm_transport *t, struct shm_given *g, int sock,
			  const struct sl_region *r, uint64_t *last)
{
	uint64_t timeout_ns = t->base.env->attr->tcp_user_timeout_ms * SL_NS_PER_MS;
	struct shm_packet p = { .kind = SHM_WITHDRAW, .id = r->id, .a = r->generation };
	uint64_t since;

	if (!given_has(g, r->id, r->generation))
		return true;
	if (!test_bit(g->announced, r->id) && sock >= 0 && shm_channel_send(sock, &p) == 0)
		announced(g, r->id);
	shm_given_ask(g);
	since = silent_since(g, timeout_ns);
	if (since > *last)
		*last = since;
	return false;
}

bool shm_withdraw(struct sl_transport *base, const struct sl_region *r, uint64_t *asked_ns)
{
	struct shm_transport *t = (struct shm_transport *)base;
	struct sl_list *e;
	uint64_t last = 0;
	bool gone = true;

	sl_list_for_each (e, &t->conns) {
		struct shm_conn *c = SL_CONTAINER_OF(e, struct shm_conn, link);

		gone &= withdraw_from(t, &c->given, c->sock.fd, r, &last);
	}
	/* A ghost answers for everything at once. */
	sl_list_for_each (e, &t->ghosts)
		gone &= withdraw_from(t, &SL_CONTAINER_OF(e, struct shm_ghost, link)->given, -1, r,
				      &last);
	if (!gone)
		*asked_ns = last;
	return gone;
}
