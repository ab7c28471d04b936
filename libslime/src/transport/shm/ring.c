/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of a connection: an entry of the peer's ring is taken in a copy that is checked, one
 * of ours is written and the peer rung if it sleeps.
 */
#include <errno.h>
#include <stdio.h>

#include "base/cpu.h"
#include "src/core/copy.h"
#include "src/transport/shm/shm.h"

/* Messages taken in one pass, so that others get their turn. */
#define MESSAGES_PER_PASS 64
/* How far ahead of the last one an entry is fetched to be written. */
#define ENTRIES_AHEAD 4

/* ---- the bell ---- */

static bool peer_sleeps(const struct shm_conn *c)
{
	return atomic_load_explicit(&c->peer_page->sleeping, memory_order_relaxed);
}

/* Whether the peer looks at this ring in every pass, since there is much of late. */
static inline bool peer_looks(const struct shm_conn *c)
{
	return atomic_load_explicit(&c->other->looks, memory_order_relaxed);
}

/*
 * A bell makes the socket readable: the peer does not sleep before it took that out, said so, and
 * looked at the ring once more. Several are better than one: what comes while the peer wakes up has
 * it look again instead of sleep. Bounded, they leave room for packets. The socket stays while we
 * are counted and the connection is ready.
 */
__attribute__((cold)) static void wake_peer(struct shm_conn *c)
{
	uint32_t rung = atomic_load(&c->n_rung);
	int ret = 0;

	do {
		if (rung - atomic_load(&c->other->n_heard) >= SHM_BELLS_MAX)
			return;
	} while (!atomic_compare_exchange_weak(&c->n_rung, &rung, rung + 1));
	atomic_fetch_add(&c->n_busy, 1);
	if (atomic_load(&c->state) == SHM_CONN_READY)
		ret = shm_channel_ring(c->sock.fd);
	atomic_fetch_sub(&c->n_busy, 1);
	if (ret == -EAGAIN)
		atomic_fetch_sub(&c->n_rung, 1);
	else if (ret && ret != -ECONNRESET) /* that it hung up is read from the socket */
		shm_conn_end(c, ret, "cannot wake the peer");
}

/* Of a peer that does not look at this ring in every pass. Its word first: the peer takes what
 * there is of the words that are marked. */
static void mark_board(const struct shm_conn *c)
{
	struct shm_board *board = c->peer_board;
	uint32_t word = c->peer_bit / 64;
	uint64_t bit = UINT64_C(1) << c->peer_bit % 64;

	/* The thread that set the bit may have lost its CPU before it marked the word. */
	if (!(atomic_fetch_or(&board->words[word], bit) & bit) ||
	    !(atomic_load(&board->marked) & UINT64_C(1) << word))
		atomic_fetch_or(&board->marked, UINT64_C(1) << word);
}

static inline void ring_peer(struct shm_conn *c)
{
	/* Publish before checking whether the peer polls this ring, or sleeps. */
	atomic_thread_fence(memory_order_seq_cst);
	if (!peer_looks(c))
		mark_board(c);
	if (peer_sleeps(c))
		wake_peer(c);
}

/* The connection whose messages this thread takes: messages that it posts meanwhile are announced
 * when it is done, since a fence waits until all writes have left this CPU. */
static SL_PER_THREAD const struct shm_conn *draining;

/* ---- entries ---- */

/* Word by word, each once and as its writer wrote it: a CPU makes a load that is wider than the
 * store it follows wait. */
static inline void copy_words(struct sl_msg *to, const struct sl_msg *from)
{
	*(volatile uint64_t *)&to->head = *(const volatile uint64_t *)&from->head;
	for (int i = 0; i < 6; i++)
		*(volatile uint64_t *)&to->w[i] = *(const volatile uint64_t *)&from->w[i];
}

/* The entry so many after e. */
static inline const struct shm_entry *entry_after(const struct shm_half *half,
						  const struct shm_entry *e, unsigned n)
{
	return half->ring + SL_RING_ENTRIES - e > (ptrdiff_t)n ? e + n : e - (SL_RING_ENTRIES - n);
}

static inline struct shm_entry *writable_after(struct shm_half *half, const struct shm_entry *e,
					       unsigned n)
{
	return &half->ring[entry_after(half, e, n) - half->ring];
}

static inline const struct shm_entry *next_of(const struct shm_half *half,
					      const struct shm_entry *e)
{
	return e == half->ring + SL_RING_ENTRIES - 1 ? half->ring : e + 1;
}

/* ---- taking ---- */

/* The connection ends, and what follows is not taken. */
__attribute__((cold)) static void refuse(struct shm_conn *c, const char *why)
{
	c->rx_over = true;
	shm_conn_end(c, -EPROTO, why);
}

__attribute__((cold)) static void refuse_malformed(struct shm_conn *c, const struct sl_msg *m)
{
	char why[96];

	snprintf(why, sizeof(why),
		 "the peer broke the protocol: malformed message: kind %u, slot %u, %u bytes",
		 m->kind, m->slot, m->len);
	refuse(c, why);
}

/* Where the payload of a message from that entry is; NULL: there is none. The message is one that
 * would be valid in its slot. */
static inline const uint8_t *find_payload(const struct shm_conn *c, const struct shm_entry *e,
					  struct sl_msg *m)
{
	const uint8_t *payload = e->payload;

	if (!m->len)
		return NULL;
	if (m->slot & SHM_SLOT_HERE)
		m->slot &= (uint16_t)~SHM_SLOT_HERE;
	else
		payload = c->other->slots + sl_slot_offset(sl_msg_area(m->kind), m->slot);
	sl_cpu_fetch(payload);
	return payload;
}

static inline bool is_valid(const struct sl_msg *m)
{
	if (!(m->slot & SHM_SLOT_HERE))
		return sl_msg_valid(m);
	return (m->kind == SL_MSG_REQUEST || m->kind == SL_MSG_REPLY) &&
	       (m->slot & ~SHM_SLOT_HERE) < SL_CALL_SLOTS && m->len && m->len <= SL_SHORT_LEN;
}

/* Take the message of an entry, in a copy that is checked and used: the peer can still write to the
 * entry. False: none that follows is taken. */
static inline bool take_message(struct shm_conn *c, const struct shm_entry *e)
{
	const uint8_t *payload;
	struct sl_msg m;

	copy_words(&m, &e->m);
	atomic_signal_fence(memory_order_seq_cst);
	if (!is_valid(&m)) {
		refuse_malformed(c, &m);
		return false;
	}
	payload = find_payload(c, e, &m);
	if (!c->base.events->msg(c->base.owner, &m, payload)) {
		refuse(c, "the peer broke the protocol");
		return false;
	}
	return true;
}

/* The next message is there. */
static unsigned take_messages(struct shm_conn *c, unsigned max)
{
	const struct shm_half *const half = c->other;
	const struct shm_entry *e = c->rx_next;
	const struct shm_entry *next = next_of(half, e);
	uint64_t seq = c->rx_seq;
	unsigned n = 0;
	bool goes_on;

	sl_cpu_fetch(next);
	do {
		const struct shm_entry *ahead = next_of(half, next);

		/* Where two messages lie others most likely do, each on two lines. Of the first
		 * nothing is known: what is fetched before it was written is taken away from its
		 * writer. */
		if (n++) {
			sl_cpu_fetch(ahead);
			sl_cpu_fetch(ahead->payload);
		}
		c->rx_seq = ++seq;
		c->rx_next = next;
		goes_on = take_message(c, e);
		e = next;
		next = ahead;
	} while (goes_on && n < max &&
		 atomic_load_explicit(&e->seq, memory_order_acquire) == seq + 1);
	return n;
}

static inline unsigned drain(struct shm_conn *c, unsigned max)
{
	unsigned n;

	if (!shm_conn_has_message(c) || c->rx_over)
		return 0;
	draining = c;
	n = take_messages(c, max);
	draining = NULL;
	if (c->ring_later) {
		c->ring_later = false;
		ring_peer(c);
	}
	return n;
}

unsigned shm_ring_drain(struct shm_conn *c, unsigned max)
{
	return drain(c, max);
}

static unsigned take_next(void *arg);

/* After some messages of a connection that is active more of them are likely; but none that follows
 * a malformed one is taken. */
static void expect_more(struct shm_conn *c)
{
	struct sl_next *next = c->t->base.env->next;

	if (c->rx_over || !shm_turn_is_active(c)) {
		*next = (struct sl_next){ .word = NULL };
		return;
	}
	next->word = &c->rx_next->seq;
	next->value = c->rx_seq + 1;
	next->take = take_next;
	next->arg = c;
}

void shm_ring_expect_nothing(const struct shm_conn *c)
{
	struct sl_next *next = c->t->base.env->next;

	if (next->arg == c)
		*next = (struct sl_next){ .word = NULL };
}

unsigned shm_ring_take(struct shm_conn *c)
{
	unsigned n = drain(c, MESSAGES_PER_PASS);

	if (n)
		expect_more(c);
	return n;
}

static unsigned take_next(void *arg)
{
	return shm_ring_take(arg);
}

/* ---- posting ---- */

/* An entry that was taken is written and published: its payload, if that goes along, then the
 * message. */
static inline void write_payload(struct shm_entry *e, const struct sl_msg *m,
				 const uint8_t *payload)
{
	/* The thread that wrote it a lap ago, if that was another one, is done with it. */
	(void)atomic_load_explicit(&e->seq, memory_order_acquire);
	if (payload)
		sl_copy_short(e->payload, payload, m->len);
}

/* The entry is the one after n others. */
static inline void write_message(struct shm_entry *e, uint64_t n, const struct sl_msg *m,
				 const uint8_t *payload)
{
	/* All of the line that the peer looks at together: it takes it away in between. */
	copy_words(&e->m, m);
	if (payload)
		e->m.slot = m->slot | SHM_SLOT_HERE;
	atomic_store_explicit(&e->seq, n + 1, memory_order_release);
}

/* The peer read that one a lap ago, and does not look at it yet. */
static inline void fetch_to_write(const struct shm_conn *c, const struct shm_entry *e,
				  bool has_payload)
{
	const struct shm_entry *ahead = entry_after(c->own, e, ENTRIES_AHEAD);

	sl_cpu_fetch_to_write(ahead);
	if (has_payload)
		sl_cpu_fetch_to_write(ahead->payload);
}

/* The payload was copied, and the peer does not see the message yet. */
static inline void set_going(const struct sl_post *p)
{
	if (p->going)
		atomic_store_explicit(p->going, p->m.w[0], memory_order_release);
}

/* The connection ended: the calls end with it. */
static void drop_posts(const struct sl_post *posts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		set_going(&posts[i]);
}

/* Entries were published. */
static inline void announce(struct shm_conn *c)
{
	if (draining == c && !peer_sleeps(c))
		c->ring_later = true;
	else
		ring_peer(c);
}

/* Take an entry, write it, publish it: entries that other threads take meanwhile are read after it.
 */
static inline void post_one(struct shm_conn *c, const struct sl_post *p)
{
	uint64_t n = atomic_fetch_add_explicit(&c->tx_seq, 1, memory_order_relaxed);
	struct shm_entry *e = shm_half_entry(c->own, n);

	write_payload(e, &p->m, p->payload);
	set_going(p);
	write_message(e, n, &p->m, p->payload);
	announce(c);
	if (peer_looks(c))
		fetch_to_write(c, e, p->payload);
}

/* The same with as many entries; the peer is told once. */
static void post_several(struct shm_conn *c, const struct sl_post *posts, size_t n_posts)
{
	uint64_t n = atomic_fetch_add_explicit(&c->tx_seq, n_posts, memory_order_relaxed);
	struct shm_entry *e = shm_half_entry(c->own, n);

	for (size_t i = 0; i < n_posts; i++, e = writable_after(c->own, e, 1)) {
		const struct sl_post *p = &posts[i];

		fetch_to_write(c, e, p->payload);
		write_payload(e, &p->m, p->payload);
		set_going(p);
		write_message(e, n + i, &p->m, p->payload);
	}
	announce(c);
}

void shm_ring_post(struct sl_conn *conn, const struct sl_post *posts, size_t n_posts)
{
	struct shm_conn *c = (struct shm_conn *)conn;

	if (atomic_load_explicit(&c->state, memory_order_acquire) != SHM_CONN_READY)
		drop_posts(posts, n_posts);
	else if (n_posts == 1)
		post_one(c, posts);
	else
		post_several(c, posts, n_posts);
}
