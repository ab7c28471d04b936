/* SPDX-License-Identifier: Apache-2.0 */
/* Our regions that a peer has. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "src/transport/shm/shm.h"

#define WORD_BITS 64

/* A peer that uses one region for long must still answer questions about other regions within this
 * time. */
#define ANSWER_NS (500 * SL_NS_PER_MS)

static bool test_bit(const uint64_t *bits, uint32_t id)
{
	return bits[id / WORD_BITS] >> id % WORD_BITS & 1;
}

static void announced(struct shm_given *g, uint32_t id)
{
	g->announced[id / WORD_BITS] |= UINT64_C(1) << id % WORD_BITS;
	/* A message that could not be sent before needed no answer. */
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
		/* Memory whose pages are allocated as they are used. */
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

/* A peer that guesses gets the same answer as for a region that does not exist. */
static int check_secret(struct shm_conn *c, const struct shm_packet *asked)
{
	const uint64_t secret[2] = { asked->b, asked->c };
	int ret = sl_region_check_secret(c->t->base.env->regions, asked->id, asked->a, secret);

	if (ret == -EACCES && ++c->n_wrong_secrets == SL_WRONG_SECRETS)
		shm_conn_end(c, -EPROTO, "the peer showed wrong secrets of our regions");
	return ret ? -ESTALE : 0;
}

/* The answer to a peer that asks for a region. */
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

void shm_given_answer(struct shm_conn *c, const struct shm_packet *p)
{
	struct shm_packet said = { .kind = SHM_MAPPED, .id = p->id, .a = p->a };

	said.status = give(c, p, &said);
	if (said.status)
		said.n_fds = 0;
	shm_conn_answer(c, &said);
}

/* Returns when the peer's silence began, of which timeout_ns is the limit. A stopped peer gets
 * ANSWER_NS more, once, for however many regions it was asked about. */
static uint64_t silent_since(const struct shm_given *g, uint64_t timeout_ns)
{
	uint64_t more = g->asked_more_ns ? g->asked_more_ns + ANSWER_NS : 0;

	return more > g->asked_ns + timeout_ns ? more - timeout_ns : g->asked_ns;
}

/* Announce it once; returns whether the peer has released it. A peer that cannot be told any more
 * was told of the end. */
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
	/* The peer answers for all regions of a retained mapping at once. */
	sl_list_for_each (e, &t->retained)
		gone &= withdraw_from(t, &SL_CONTAINER_OF(e, struct shm_retained, link)->given, -1,
				      r, &last);
	if (!gone)
		*asked_ns = last;
	return gone;
}
