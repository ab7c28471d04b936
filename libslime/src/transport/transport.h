/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam between the library and what carries its bytes. A transport belongs to one context and
 * has a listener; a connection (sl_conn) is one epoch of one link over it. Everything above is
 * written once.
 *
 * A connection does three things:
 *   - one-sided work: an op whose pieces were checked against local regions and descriptors;
 *   - messages: 56 bytes each, some with the payload of a slot. Slots lie at the receiver and are
 * owned by the sender: it knows which are free, writes one, and posts the message that names it.
 * What gives a slot or a window place back is the protocol above (a reply frees its request, a done
 * its send), so that a post never waits: see SL_WINDOW_*;
 *   - a reliable end: after broken() no late byte of this epoch arrives anywhere.
 *
 * Threads. submit, slot, post, take_imm, close, withdraw, info are called from any thread.
 * Everything marked [token] is called by, and every event is raised by, the holder of the context's
 * progress token, with no lock of the transport held.
 */
#ifndef SL_TRANSPORT_H
#define SL_TRANSPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/wire.h"
#include "src/core/op.h"
#include "src/core/poller.h"
#include "src/core/region.h"
#include "src/transport/todo.h"
#include <slime/context.h>
#include <slime/endpoint.h>
#include <slime/stats.h>

/* ---- messages ---- */

enum sl_msg_kind {
	SL_MSG_IMM = 1,	  /* an immediate, after all bytes of its write; w: imm, bytes */
	SL_MSG_SEND,	  /* a send with its payload in a slot; or, flagged, its descriptor */
	SL_MSG_SEND_DONE, /* the receiver matched or refused a send: its slot is free */
	SL_MSG_REQUEST,	  /* a call; payload or descriptor in a slot */
	SL_MSG_REPLY,	  /* its end; payload or error in the slot of the same number */
	SL_MSG_CANCEL,	  /* the caller gave up on a request; answered by its reply */
	SL_MSG_KINDS,
};

struct sl_msg {
	union {
		struct {
			uint8_t kind;
			uint8_t flags; /* the kind's own */
			uint16_t slot;
			uint32_t len; /* of the payload; 0 is no payload */
		};
		uint64_t head; /* all of them: sl_msg_head() */
	};
	uint64_t w[6]; /* the kind's own */
};

/* Written like this it can be read as one word at once: a CPU makes a load wait until the narrower
 * stores before it have left. */
static inline uint64_t sl_msg_head(uint8_t kind, uint8_t flags, uint16_t slot, uint32_t len)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return kind | (uint64_t)flags << 8 | (uint64_t)slot << 16 | (uint64_t)len << 32;
#else
	return (uint64_t)kind << 56 | (uint64_t)flags << 48 | (uint64_t)slot << 32 | len;
#endif
}

/* A request's or a reply's payload up to this length is given to the post. */
#define SL_SHORT_LEN 64

/* A message to be posted. */
struct sl_post {
	struct sl_msg m;
	/* The m.len payload bytes of a request or reply, 1 to SL_SHORT_LEN, which are copied. NULL:
	 * there are none, or they are in the slot. */
	const uint8_t *payload;
	/* Becomes m.w[0] between the last read of the payload and the first moment at which the
	 * peer can see the message; also when the connection ended. NULL: none. */
	_Atomic uint64_t *going;
};

/*
 * How many of each kind a side may have on the way, which is: posted and, as far as it knows, not
 * read. A slot is used again when the message that gave it back proves that all of its earlier ones
 * were read. So a side has at most a place of each immediate, a SEND of each slot and a SEND_DONE
 * of each of the peer's; of each of its call slots one request (a REQUEST, or the fence behind a
 * CANCEL that its reply did not answer) and one CANCEL; and a REPLY of each of the peer's. Their
 * sum is below SL_RING_ENTRIES.
 */
#define SL_WINDOW_IMM	128
#define SL_WINDOW_SEND	64
#define SL_WINDOW_CALL	72
#define SL_RING_ENTRIES 480

enum sl_area {
	SL_AREA_SEND,
	SL_AREA_REQUEST,
	SL_AREA_REPLY,
	SL_AREAS,
};

/* Slots come in two classes; number 0 is the first small one. */
#define SL_SLOT_SMALL	    1024
#define SL_SLOT_LARGE	    16384
#define SL_SEND_SLOTS	    SL_WINDOW_SEND /* small */
#define SL_CALL_SLOTS_SMALL 64
#define SL_CALL_SLOTS_LARGE 8
#define SL_CALL_SLOTS	    (SL_CALL_SLOTS_SMALL + SL_CALL_SLOTS_LARGE)

_Static_assert(SL_CALL_SLOTS == SL_WINDOW_CALL, "a call in flight has a slot");
#define SL_WINDOWS (SL_WINDOW_IMM + 2 * SL_WINDOW_SEND + 3 * SL_WINDOW_CALL)
_Static_assert(SL_WINDOWS < SL_RING_ENTRIES, "what may be on the way fits the ring");

#define SL_SEND_AREA_LEN (SL_SEND_SLOTS * SL_SLOT_SMALL)
#define SL_CALL_AREA_LEN (SL_CALL_SLOTS_SMALL * SL_SLOT_SMALL + SL_CALL_SLOTS_LARGE * SL_SLOT_LARGE)
#define SL_SLOTS_LEN	 (SL_SEND_AREA_LEN + 2 * SL_CALL_AREA_LEN) /* of all areas of one direction */

/* How many slots the area has. */
static inline unsigned sl_area_slots(enum sl_area area)
{
	return area == SL_AREA_SEND ? SL_SEND_SLOTS : SL_CALL_SLOTS;
}

/* The bytes slot can hold. slot is below sl_area_slots(). */
static inline uint32_t sl_slot_len(enum sl_area area, unsigned slot)
{
	return area != SL_AREA_SEND && slot >= SL_CALL_SLOTS_SMALL ? SL_SLOT_LARGE : SL_SLOT_SMALL;
}

/* Where slot begins among the SL_SLOTS_LEN bytes of a direction. */
static inline uint32_t sl_slot_offset(enum sl_area area, unsigned slot)
{
	uint32_t base = area == SL_AREA_SEND ? 0 : SL_SEND_AREA_LEN;

	if (area == SL_AREA_REPLY)
		base += SL_CALL_AREA_LEN;
	if (area == SL_AREA_SEND || slot < SL_CALL_SLOTS_SMALL)
		return base + slot * SL_SLOT_SMALL;
	return base + SL_CALL_SLOTS_SMALL * SL_SLOT_SMALL +
	       (slot - SL_CALL_SLOTS_SMALL) * SL_SLOT_LARGE;
}

/* The area a message's payload lies in; SL_AREAS when that kind has none. */
static inline enum sl_area sl_msg_area(uint8_t kind)
{
	switch (kind) {
	case SL_MSG_SEND:
		return SL_AREA_SEND;
	case SL_MSG_REQUEST:
		return SL_AREA_REQUEST;
	case SL_MSG_REPLY:
		return SL_AREA_REPLY;
	default:
		return SL_AREAS;
	}
}

/* The checks of a transport on a message from the wire before it raises it: kind, slot and length.
 */
static inline bool sl_msg_valid(const struct sl_msg *m)
{
	enum sl_area area = sl_msg_area(m->kind);

	if (m->kind == 0 || m->kind >= SL_MSG_KINDS)
		return false;
	if (area == SL_AREAS)
		return m->len == 0;
	return m->slot < sl_area_slots(area) && m->len <= sl_slot_len(area, m->slot);
}

#define SL_RDMA_QPS_MAX 8 /* queue pairs of a rail */

/* ---- connections ---- */

/* Names one end of one connection: a context is an incarnation of a process, its endpoints are
 * never reused. */
struct sl_link_id {
	uint64_t context;
	uint64_t endpoint;
};

struct sl_conn;

struct sl_conn_events {
	/* Both ends are ready. */
	void (*ready)(void *owner);
	/* A valid message; payload (NULL when len is 0) stays where it is until the protocol gives
	 * its slot back; a short one of a call, until this returns. On shm the peer can still
	 * change it: read each byte that decides something once. Return false for a broken
	 * protocol: the connection ends with -EPROTO. */
	bool (*msg)(void *owner, const struct sl_msg *m, const uint8_t *payload);
	/*
	 * The connection ended: cause 0 when one side closed it in order, else a negative errno.
	 * Raised once, also for a connection that never got ready, after every op it had has
	 * finished and no late byte can arrive. The owner destroys the connection now or later.
	 */
	void (*broken)(void *owner, int cause, const char *why);
};

struct sl_conn_attr {
	const struct sl_conn_events *events;
	void *owner;
	struct sl_link_id self;
	struct sl_link_id peer;
	uint8_t key[32]; /* of the link; both ends prove that they have it */
	bool initiator;
	const uint8_t *candidate; /* the peer's address, as its transport's offer() wrote it */
	size_t candidate_len;
	struct sl_offer *offer; /* ours; the connection's once conn_create() returned 0 */
	uint64_t deadline_ns;	/* not ready by then: broken(-ETIMEDOUT) */
	const char *name;	/* for log lines; outlives the connection */
	struct sl_why *why;	/* filled by conn_create() when it knows more than its errno says */
};

struct sl_conn_ops {
	/*
	 * Execute op->work; all is checked but what only the transport knows. Finishes the op, now
	 * or later, with sl_op_finish(); for write_imm after the immediate left behind its bytes (a
	 * window place for it is taken), and with an error only if it will never leave. Returns 0,
	 * or, with the op untouched, -ENOTCONN or -EOPNOTSUPP.
	 */
	int (*submit)(struct sl_conn *conn, struct slime_op *op);
	/* Where the payload for that slot of the peer is written before the post: always the same
	 * place. NULL when the connection ended. */
	uint8_t *(*slot)(struct sl_conn *conn, enum sl_area area, unsigned slot);
	/* Send n messages, at least one, in this order, and in order with other posts of this
	 * thread. Dropped when the connection ended. */
	void (*post)(struct sl_conn *conn, const struct sl_post *posts, size_t n);
	/* Tell the peer that taken immediates in all have been taken here. Arrives as
	 * conn->imm_taken there. */
	void (*take_imm)(struct sl_conn *conn, uint64_t taken);
	/*
	 * Begin the end: cause 0 closes in order (its ops finish with -ECANCELED, the peer sees
	 * cause 0), else it is an abort for that reason. broken() follows. Closing twice is
	 * harmless.
	 */
	void (*close)(struct sl_conn *conn, int cause, const char *why);
	/* After broken(), or before start. [token] */
	void (*destroy)(struct sl_conn *conn);
	/* In a child after fork: free its memory. No thread of ours is there, and all else that it
	 * has is the parent's. */
	void (*forget)(struct sl_conn *conn);
	/*
	 * len bytes at offset of the peer's region, as they lie here, for an access of these
	 * rights: until the holder of the token gives it back or makes another pass. NULL: not
	 * mapped, not yet, or not so; submit() finds out. May be NULL itself. [token]
	 */
	uint8_t *(*view)(struct sl_conn *conn, const struct slime_remote_mr *r, uint64_t offset,
			 uint64_t len, uint32_t access);
	/* Whether the peer's region is known to be withdrawn; not asked while n_stale is 0. */
	bool (*is_stale)(struct sl_conn *conn, const struct slime_remote_mr *r);
	/*
	 * Of an initiator that cannot reach its peer: whether it takes the peer's streams in the
	 * place of its own. 0, -EAGAIN that will show, -ENOENT it does not. May be NULL: never.
	 * [token]
	 */
	int (*gave_way)(struct sl_conn *conn);
	/* Where it is connected to, for people. */
	void (*address)(struct sl_conn *conn, char *out, size_t cap);
	/* As slime_endpoint_rails(). May be NULL: it has none. */
	size_t (*rails)(struct sl_conn *conn, struct slime_rail_info *out, size_t cap);
};

/* The head of every connection. */
struct sl_conn {
	const struct sl_conn_ops *ops;
	const struct sl_conn_events *events;
	void *owner;
	const char *name;
	struct sl_link_id self;
	struct sl_link_id peer;
	const _Atomic uint64_t *imm_taken; /* immediates of ours the peer has taken, ever */
	_Atomic uint32_t n_stale; /* of the peer's regions; where it is not counted never 0 */
	bool polls_disturb;	  /* polling for a message delays the peer that writes it */
	bool any_region;    /* once ready: the peer reaches every region, with memory of any kind */
	bool device_memory; /* also that which no CPU touches, here and there */
	/* Why no op reaches a region of the peer that is SL_REGION_FOREIGN, for people; NULL: it
	 * does. Once ready it stays. */
	const char *no_foreign;
};

/* Post one message whose payload, if any, is in its slot. */
static inline void sl_conn_post(struct sl_conn *conn, const struct sl_msg *m)
{
	const struct sl_post post = { .m = *m };

	conn->ops->post(conn, &post, 1);
}

/* ---- transports ---- */

/* The facts that a greeting needs of the endpoint that an incoming stream names. */
struct sl_expected {
	struct sl_link_id peer;
	uint8_t key[32];
	struct sl_conn *conn; /* made by conn_create as acceptor, waiting for its stream(s) */
};

typedef int sl_expect_fn(void *arg, enum slime_transport transport, uint64_t endpoint,
			 struct sl_expected *out);

/* The part that a transport keeps ready for the peer of one endpoint; opaque to others. */
struct sl_offer;

/* Why something cannot be had, in words. */
struct sl_why {
	char text[256];
};

/*
 * The most likely next event: *word becomes value, and take(arg) handles it, with all else that is
 * there of the same kind, as a progress() of its own. A spinner checks only this between its
 * passes. The transport that set it clears it before the word is freed. [token]
 */
struct sl_next {
	const _Atomic uint64_t *word; /* NULL: not known */
	uint64_t value;
	unsigned (*take)(void *arg);
	void *arg;
};

/* The parameters that a transport gets from its context; it outlives the transport. */
struct sl_transport_env {
	const struct slime_context_attr *attr;
	uint64_t context; /* its id */
	struct sl_region_table *regions;
	struct sl_poller *poller; /* sources of events; callbacks run as [token] */
	/*
	 * The endpoint of this id that waits for a connection over this transport: -ENOENT there is
	 * none (any more), -EAGAIN it exists and does not know its peer, or has not come to it:
	 * hold the greeting and ask again. out->peer is the peer that it has, or is to have, a
	 * link with, whatever is returned; zeros: none. [token]
	 */
	sl_expect_fn *expect;
	/* There is work that no descriptor announces: wake a thread that sleeps, so that it calls
	 * progress(). Cheap when none sleeps. Any thread. */
	void (*kick)(void *arg);
	/* As kick, for work that may wait for a millisecond because its owner most likely waits
	 * for it at once: the context's thread is not woken from WATCH to compete with the owner.
	 * */
	void (*nudge)(void *arg);
	/* Whether this thread makes a pass: it is in a callback or an inline handler, and the rest
	 * of the pass waits for it. */
	bool (*in_pass)(void *arg);
	/* abandon() may succeed now where it failed before. This takes as long as unmapping
	 * memory: call it on a thread of the transport's own, with no lock held, and call kick()
	 * after it. */
	void (*tidy)(void *arg);
	/* progress() counts its system calls that found nothing: the time that a spinner polls is
	 * measured, not its passes. [token] */
	uint32_t *vain_calls;
	/* progress() sets whether it polled a device, which takes as long as a pause: then a
	 * spinner makes no pause. [token] */
	bool *slow_poll;
	/* Passes since the poller was polled. A progress() that took as long as several passes
	 * adds them: the end of a connection that waits in the poller must be seen before more is
	 * copied. [token] */
	uint32_t *passes;
	struct sl_next *next;
	/* 1 while a thread is inside a post, which may take as long as the transfer on a device
	 * without hardware. Any of several threads that leave sets it to 0. */
	_Atomic uint32_t *posting;
	/* This pass polls everything, also what progress() polls only now and then. */
	const bool *poll_all;
	void *arg;
};

struct sl_transport {
	const struct sl_transport_ops *ops;
	const struct sl_transport_env *env;
	/* The lists that progress() works on. While all of them are empty a pass skips it; where
	 * no list is named progress() is always called. [token] */
	const struct sl_list *watched[2];
	const struct sl_todo *todo;
};

/* Whether progress() would have nothing to do. [token] */
static inline bool sl_transport_rests(const struct sl_transport *t)
{
	return t->watched[0] && sl_list_empty(t->watched[0]) &&
	       (!t->watched[1] || sl_list_empty(t->watched[1])) &&
	       (!t->todo || !sl_todo_count(t->todo));
}

struct sl_transport_ops {
	enum slime_transport id;
	int (*create)(const struct sl_transport_env *env, struct sl_transport **out);
	void (*destroy)(struct sl_transport *t);
	void (*forget)(struct sl_transport *t); /* as of a connection */
	/*
	 * Write this transport's part of an endpoint's descriptor: how the peer reaches us. What
	 * was made for it, and waits for the peer, is *out (NULL: nothing), and goes into
	 * conn_create(), or drop_offer(). attr is the endpoint's. Asked once for
	 * each endpoint, by any thread; takes milliseconds at most. On an error peers cannot reach
	 * us: why has the words.
	 */
	int (*offer)(struct sl_transport *t, const struct sl_link_id *self,
		     const struct slime_endpoint_attr *attr, struct sl_writer *w,
		     struct sl_offer **out, struct sl_why *why);
	/* No connection comes of it. Does not block; any thread. May be NULL where there are none.
	 * In a fork child offers go with their transport. */
	void (*drop_offer)(struct sl_transport *t, struct sl_offer *offer);
	/*
	 * Make a connection and begin: an initiator dials, an acceptor is found through
	 * env->expect(). [token] not needed Returns 0, and broken() or ready() will be raised; or a
	 * negative errno and nothing will.
	 */
	int (*conn_create)(struct sl_transport *t, const struct sl_conn_attr *attr,
			   struct sl_conn **out);
	/*
	 * A region of ours was withdrawn: announce it, once, to every peer that can reach it
	 * without our help; true when no peer can any more. Asked again until then. It may set
	 * *asked_ns to the time since which each of those that can owes us an answer and has said
	 * nothing; else that is now; SL_NEVER: none of them can, devices of ours are at it. [token]
	 */
	bool (*withdraw)(struct sl_transport *t, const struct sl_region *r, uint64_t *asked_ns);
	/*
	 * A region of ours is of no use any more: the only connection that its memory was for is at
	 * its end. True when no device reaches it; else to be asked again after env->tidy(). May be
	 * NULL where no peer reaches memory that is not mapped any more. Does not block; any
	 * thread.
	 */
	bool (*abandon)(struct sl_transport *t, const struct sl_region *r);
	/*
	 * Have a region of ours ready for use before it is used: 0, -EINPROGRESS (it will be; ask
	 * again), or why it cannot be. The caller keeps it from being withdrawn. May be NULL where
	 * there is nothing to do. [token]
	 */
	int (*prepare)(struct sl_transport *t, const struct sl_region *r);
	/* How far that is; all zero before. NULL with prepare. Any thread. */
	void (*prepared)(struct sl_transport *t, const struct sl_region *r,
			 struct slime_mr_progress *out);
	/* As slime_context_device_stats(), of rdma alone: others have NULL. Any thread. */
	size_t (*device_stats)(struct sl_transport *t, struct slime_device_stats *out, size_t cap);
	/* Do what can be done without sleeping; returns the number of events handled. [token] */
	unsigned (*progress)(struct sl_transport *t);
	/* Before a thread sleeps on the poller: make peers ring. A last progress() follows.
	 * [token] */
	void (*arm)(struct sl_transport *t);
	/* A thread polls again: peers need not ring. [token] */
	void (*disarm)(struct sl_transport *t);
};

extern const struct sl_transport_ops sl_shm_transport;
extern const struct sl_transport_ops sl_rdma_transport;
extern const struct sl_transport_ops sl_tcp_transport;

#endif
