/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "src/core/lock.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/key.h"
#include "src/transport/rdma/limits.h"
#include "src/transport/rdma/mr.h"
#include "src/transport/rdma/msg.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/offer.h"
#include "src/transport/rdma/transport.h"
#include "src/transport/rdma/wire.h"

/* ---- the peer's regions; under the connection's lock ---- */

static struct rdma_key **bucket_of(struct rdma_conn *c, uint32_t id)
{
	return &c->keys[id % RDMA_BUCKETS];
}

static struct rdma_key *find(struct rdma_conn *c, uint32_t id, uint64_t generation)
{
	struct rdma_key *k = *bucket_of(c, id);

	while (k && (k->id != id || k->generation != generation))
		k = k->next;
	return k;
}

static void forget_keys(struct rdma_key *k)
{
	if (k->rkeys != k->few)
		free(k->rkeys);
	k->rkeys = NULL;
	k->known = 0;
}

/* One that an earlier region of the same number left, or a new one: so there are about as many as
 * the peer has regions. */
static struct rdma_key *add(struct rdma_conn *c, uint32_t id, uint64_t generation)
{
	struct rdma_key **bucket = bucket_of(c, id);
	struct rdma_key *k = *bucket;

	while (k && (k->id != id || k->state != RDMA_KEY_STALE || k->n_inflight || k->n_asked))
		k = k->next;
	if (k) {
		atomic_fetch_sub(&c->conn.n_stale, 1);
		forget_keys(k);
		k->state = RDMA_KEY_NEW;
		k->generation = generation;
		return k;
	}
	k = calloc(1, sizeof(*k));
	if (!k)
		return NULL;
	k->id = id;
	k->generation = generation;
	k->next = *bucket;
	*bucket = k;
	return k;
}

static void ask(struct rdma_conn *c, struct rdma_key *k, const struct slime_remote_mr *r,
		uint64_t offset)
{
	const struct sl_msg m = {
		.kind = RDMA_OPEN,
		.len = r->id,
		.w = { r->generation, r->secret[0], offset, r->secret[1] },
	};

	k->n_asked++;
	c->n_asked++;
	rdma_msg_put(c, &m);
}

static void send_frame(struct rdma_conn *c, uint8_t kind, uint32_t id, uint64_t generation)
{
	const struct sl_msg m = { .kind = kind, .len = id, .w = { generation } };

	rdma_msg_put(c, &m);
}

int rdma_key_get(struct rdma_conn *c, const struct slime_remote_mr *r, struct rdma_key **out)
{
	struct rdma_key *k = find(c, r->id, r->generation);

	if (!k)
		k = add(c, r->id, r->generation);
	if (!k)
		return -ENOMEM;
	switch (k->state) {
	case RDMA_KEY_READY:
		*out = k;
		return 0;
	case RDMA_KEY_STALE:
		return -ESTALE;
	case RDMA_KEY_REFUSED:
		/* The next thread that needs it asks the peer. */
		k->state = RDMA_KEY_NEW;
		return k->status;
	default:
		return -EINPROGRESS;
	}
}

/* The keys of a region whose chunks are known. */
static void ask_chunks(struct rdma_conn *c, struct rdma_key *k, const struct slime_remote_mr *r,
		       uint64_t offset, uint64_t len)
{
	uint64_t first = k->addr >> k->shift;

	if (len > k->len || offset > k->len - len)
		return;
	while (len && c->n_asked < RDMA_OPENS) {
		uint64_t bit = UINT64_C(1) << (((k->addr + offset) >> k->shift) - first);
		uint64_t step = rdma_chunk_left(k->shift, k->addr + offset);

		if (!((k->known | k->asked) & bit)) {
			k->asked |= bit;
			ask(c, k, r, offset);
		}
		step = step < len ? step : len;
		offset += step;
		len -= step;
	}
}

void rdma_key_ask(struct rdma_conn *c, const struct slime_remote_mr *r, uint64_t offset,
		  uint64_t len)
{
	struct rdma_key *k = find(c, r->id, r->generation);

	if (!k)
		k = add(c, r->id, r->generation);
	if (k && k->state == RDMA_KEY_READY) {
		ask_chunks(c, k, r, offset, len);
	} else if (k && k->state == RDMA_KEY_NEW && c->n_asked < RDMA_OPENS) {
		k->state = RDMA_KEY_ASKED;
		ask(c, k, r, offset);
	}
}

static void become_stale(struct rdma_conn *c, struct rdma_key *k)
{
	k->state = RDMA_KEY_STALE;
	atomic_fetch_add(&c->conn.n_stale, 1);
}

void rdma_key_tell(struct rdma_conn *c, struct rdma_key *k)
{
	k->tell = false;
	send_frame(c, RDMA_WITHDRAWN, k->id, k->generation);
}

bool rdma_key_is_stale(struct sl_conn *conn, const struct slime_remote_mr *r)
{
	struct rdma_conn *c = rdma_conn_of(conn);
	struct rdma_key *k;
	bool stale;

	sl_lock(&c->lock);
	k = find(c, r->id, r->generation);
	stale = k && k->state == RDMA_KEY_STALE;
	sl_unlock(&c->lock);
	return stale;
}

/* ---- what the peer says of them ---- */

/* How the region is divided: false: it cannot be like that, or it was said otherwise before. */
static bool take_geometry(struct rdma_key *k, const struct sl_msg *m, unsigned shift)
{
	uint64_t addr = m->w[2], len = m->w[3], n;

	if (!len || addr + len < addr)
		return false;
	if (!shift)
		shift = RDMA_ONE_CHUNK;
	n = ((addr + len - 1) >> shift) - (addr >> shift) + 1;
	if (shift < RDMA_CHUNK_SHIFT_MIN || shift > RDMA_ONE_CHUNK || n > RDMA_CHUNKS_MAX ||
	    (shift == RDMA_ONE_CHUNK && n > 1) || m->slot >= n)
		return false;
	if (k->rkeys)
		return k->addr == addr && k->len == len && k->shift == shift;
	k->addr = addr;
	k->len = len;
	k->shift = shift;
	k->n_chunks = (unsigned)n;
	k->access = m->flags;
	return true;
}

/* The i-th of keys that are two in a word. */
static uint32_t key_in(const uint64_t *words, unsigned i)
{
	return (uint32_t)(words[i / 2] >> (i % 2 * 32));
}

static void put_key(uint64_t *words, unsigned i, uint32_t key)
{
	words[i / 2] |= (uint64_t)key << (i % 2 * 32);
}

bool rdma_key_more(struct rdma_conn *c, const struct sl_msg *m)
{
	struct rdma_more_keys *more = &c->more;

	if (more->there || c->peer.n_rails <= RDMA_KEYS_OPENED)
		return false;
	*more = (struct rdma_more_keys){
		.there = true,
		.id = m->len,
		.generation = m->w[0],
		.chunk = m->slot,
	};
	for (unsigned i = 0; i < RDMA_RAILS_MAX - RDMA_KEYS_OPENED; i++)
		more->rkeys[i] = key_in(&m->w[1], i);
	return true;
}

/* Whether what came before this frame is what has to. */
static bool take_more(struct rdma_conn *c, const struct sl_msg *m)
{
	struct rdma_more_keys *more = &c->more;
	bool there = more->there;

	more->there = false;
	if (c->peer.n_rails <= RDMA_KEYS_OPENED || (m->w[1] & UINT8_MAX) != RDMA_ANSWER_OK)
		return !there;
	return there && more->id == m->len && more->generation == m->w[0] && more->chunk == m->slot;
}

static void take_keys(struct rdma_key *k, const struct rdma_more_keys *more, const struct sl_msg *m)
{
	uint32_t *rkeys;

	if (!k->rkeys)
		k->rkeys = k->n_chunks == 1 ? k->few
					    : calloc(k->n_chunks * (size_t)RDMA_RAILS_MAX,
						     sizeof(*k->rkeys));
	if (!k->rkeys) {
		k->state = RDMA_KEY_REFUSED;
		k->status = -ENOMEM;
		return;
	}
	rkeys = &k->rkeys[m->slot * RDMA_RAILS_MAX];
	for (unsigned i = 0; i < RDMA_KEYS_OPENED; i++)
		rkeys[i] = key_in(&m->w[4], i);
	memcpy(rkeys + RDMA_KEYS_OPENED, more->rkeys, sizeof(more->rkeys));
	k->known |= UINT64_C(1) << m->slot;
	k->state = RDMA_KEY_READY;
}

bool rdma_key_opened(struct rdma_conn *c, const struct sl_msg *m, bool *divided)
{
	static const int statuses[RDMA_ANSWERS] = {
		[RDMA_ANSWER_ACCESS] = -EACCES,
		[RDMA_ANSWER_MEMORY] = -EREMOTEIO,
	};
	struct rdma_key *k = find(c, m->len, m->w[0]);
	unsigned code = m->w[1] & UINT8_MAX;
	uint64_t shift = m->w[1] >> 8;
	bool was_ready = k && k->state == RDMA_KEY_READY;

	if (!take_more(c, m) || !k || !k->n_asked || code >= RDMA_ANSWERS || shift > RDMA_ONE_CHUNK)
		return false;
	if (code == RDMA_ANSWER_OK && !take_geometry(k, m, (unsigned)shift))
		return false;
	c->n_asked--;
	if (!--k->n_asked)
		k->asked = 0;
	/* Once withdrawn it stays so. */
	if (code == RDMA_ANSWER_STALE && k->state != RDMA_KEY_STALE) {
		become_stale(c, k);
	} else if (k->state != RDMA_KEY_STALE && code != RDMA_ANSWER_OK) {
		k->state = RDMA_KEY_REFUSED;
		k->status = statuses[code];
	} else if (k->state != RDMA_KEY_STALE) {
		take_keys(k, &c->more, m);
		*divided = !was_ready && k->n_chunks > 1;
	}
	return true;
}

/* We may know already, by its answer to an OPEN that crossed its word; the key's place may even be
 * another's by then. What we do not have is not under way. */
static void withdrawn_by_peer(struct rdma_conn *c, const struct sl_msg *m)
{
	struct rdma_key *k = find(c, m->len, m->w[0]);

	if (k && k->state != RDMA_KEY_STALE)
		become_stale(c, k);
	if (k && k->n_inflight)
		k->tell = true;
	else
		send_frame(c, RDMA_WITHDRAWN, m->len, m->w[0]);
}

/* ---- ours ---- */

static void answer(struct rdma_conn *c, const struct rdma_open *o, enum rdma_answer code,
		   const struct rdma_mr *mr)
{
	struct sl_msg m = {
		.kind = RDMA_OPENED,
		.len = o->id,
		.w = { o->generation, code },
	};
	struct sl_msg more = { .kind = RDMA_KEYS, .len = o->id, .w = { o->generation } };
	uint64_t at = mr ? (uintptr_t)mr->base + (o->offset < mr->len ? o->offset : 0) : 0;

	for (unsigned i = 0; mr && i < c->offer->n_rails; i++) {
		const struct ibv_mr *ibv = rdma_mr_part(mr, c->offer->rails[i].nic->index, at);
		/* None on a device that failed, which the link does not use. */
		uint32_t rkey = ibv ? ibv->rkey : 0;

		if (i < RDMA_KEYS_OPENED)
			put_key(&m.w[4], i, rkey);
		else
			put_key(&more.w[1], i - RDMA_KEYS_OPENED, rkey);
	}
	if (mr) {
		m.flags = (uint8_t)mr->access;
		m.slot = (uint16_t)rdma_mr_chunk(mr, at);
		m.w[1] |= mr->n_chunks > 1 ? (uint64_t)mr->shift << 8 : 0;
		m.w[2] = (uintptr_t)mr->base;
		m.w[3] = mr->len;
	}
	more.slot = m.slot;
	sl_lock(&c->lock);
	if (mr && c->offer->n_rails > RDMA_KEYS_OPENED)
		rdma_msg_put(c, &more);
	rdma_msg_put(c, &m);
	sl_unlock(&c->lock);
}

static enum rdma_answer answer_of(int err)
{
	return err == -ESTALE	? RDMA_ANSWER_STALE
	       : err == -EACCES ? RDMA_ANSWER_ACCESS
				: RDMA_ANSWER_MEMORY;
}

/* Whether it was answered. */
static bool try_answer(struct rdma_conn *c, const struct rdma_open *o)
{
	struct rdma_mr *mr;
	int ret = rdma_mr_get(c->offer->domain, o->region, RDMA_MR_SHOWN, RDMA_MR_SOURCE, &mr);

	if (ret == -EINPROGRESS)
		return false;
	if (!ret) {
		/* Note it first, then tell the peer: the withdrawing thread asks for it back. */
		c->given[o->id] = o->generation;
		answer(c, o, RDMA_ANSWER_OK, mr);
	} else {
		answer(c, o, answer_of(ret), NULL);
	}
	sl_region_release(o->region);
	return true;
}

void rdma_key_run(struct rdma_conn *c)
{
	unsigned left = 0;

	for (unsigned i = 0; i < c->n_opens; i++) {
		if (!try_answer(c, &c->opens[i]))
			c->opens[left++] = c->opens[i];
	}
	c->n_opens = left;
}

/* Links that are not isolated share a protection domain: what the peer of one reaches all reach. */
static bool is_out_of_bounds(struct rdma_conn *c, const struct sl_region *r)
{
	if (!r->restricted || c->offer->domain->isolated)
		return false;
	if (c->refused != r->generation)
		sl_error("rdma",
			 "%s: region %u is restricted, and this link is not isolated: the peer has "
			 "no access",
			 c->conn.name, r->id);
	c->refused = r->generation;
	return true;
}

/* A peer that guesses gets the same answer as for a region that does not exist. -EACCES: the link
 * ends. */
static int check_secret(struct rdma_conn *c, const struct sl_msg *m)
{
	const uint64_t secret[2] = { m->w[1], m->w[3] };
	int ret = sl_region_check_secret(c->t->base.env->regions, m->len, m->w[0], secret);

	if (ret != -EACCES)
		return ret;
	if (++c->n_wrong_secrets < SL_WRONG_SECRETS)
		return -ESTALE;
	rdma_conn_fail(c, -EPROTO, "the peer showed wrong secrets of our regions");
	return -EACCES;
}

static bool open_for_peer(struct rdma_conn *c, const struct sl_msg *m)
{
	struct rdma_open o = { .id = m->len, .generation = m->w[0], .offset = m->w[2] };
	const struct sl_region_user user = { c->conn.self.endpoint, .shown = true };
	uint8_t *ptr;
	int ret;

	if (c->n_opens == RDMA_OPENS)
		return false;
	ret = check_secret(c, m);
	if (ret == -EACCES)
		return true;
	if (!ret)
		ret = sl_region_acquire(c->t->base.env->regions, user, o.id, o.generation, 0, 0, 0,
					&o.region, &ptr);
	if (!ret && (!o.region->access || is_out_of_bounds(c, o.region))) {
		sl_region_release(o.region);
		ret = -EACCES;
	}
	if (ret) {
		answer(c, &o, answer_of(ret), NULL);
	} else {
		c->opens[c->n_opens++] = o;
		rdma_key_run(c);
	}
	return true;
}

/* generation 0: a place for another. */
static struct rdma_told *find_told(struct rdma_conn *c, uint32_t id, uint64_t generation)
{
	for (unsigned i = 0; i < RDMA_WITHDRAWS; i++) {
		struct rdma_told *told = &c->told[i];

		if (told->generation == generation && (told->id == id || !generation))
			return told;
	}
	return NULL;
}

static bool withdrawal_acknowledged(struct rdma_conn *c, const struct sl_msg *m)
{
	struct rdma_told *told = m->w[0] ? find_told(c, m->len, m->w[0]) : NULL;

	if (!told)
		return false;
	c->given[told->id] = 0;
	told->generation = 0;
	return true;
}

bool rdma_key_received(struct rdma_conn *c, const struct sl_msg *m)
{
	if (m->kind == RDMA_OPEN)
		return open_for_peer(c, m);
	if (m->kind == RDMA_WITHDRAWN)
		return withdrawal_acknowledged(c, m);
	sl_lock(&c->lock);
	withdrawn_by_peer(c, m);
	sl_unlock(&c->lock);
	return true;
}

static void tell(struct rdma_conn *c, const struct sl_region *r)
{
	struct rdma_told *told = find_told(c, 0, 0);

	/* When as many are not acknowledged as there may be, it is asked again. */
	if (!told)
		return;
	*told = (struct rdma_told){
		.id = r->id,
		.generation = r->generation,
		.until_ns = sl_clock_ns() +
			    c->t->base.env->attr->tcp_user_timeout_ms * SL_NS_PER_MS / 2,
	};
	sl_lock(&c->lock);
	send_frame(c, RDMA_WITHDRAW, r->id, r->generation);
	sl_unlock(&c->lock);
}

bool rdma_key_withdraw(struct rdma_conn *c, const struct sl_region *r)
{
	const struct rdma_told *told;

	if (c->given[r->id] != r->generation)
		return true;
	told = find_told(c, r->id, r->generation);
	if (!told)
		tell(c, r);
	else if (sl_clock_ns() >= told->until_ns)
		rdma_conn_fail(c, -ECONNRESET, "the peer keeps a region that is withdrawn");
	return false;
}

/* ---- life ---- */

void rdma_key_end(struct rdma_conn *c)
{
	while (c->n_opens)
		sl_region_release(c->opens[--c->n_opens].region);
}

void rdma_key_free(struct rdma_conn *c)
{
	for (unsigned i = 0; i < RDMA_BUCKETS; i++) {
		while (c->keys[i]) {
			struct rdma_key *k = c->keys[i];

			c->keys[i] = k->next;
			forget_keys(k);
			free(k);
		}
	}
	free(c->given);
}
