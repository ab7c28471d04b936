/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The structs of the tcp transport.
 *
 * A link has one stream or several. Messages and control frames go over the first, with few other
 * bytes if there is another one; requests go over whichever has room, and are answered on the same
 * one. A stream carries at most TCP_REQUESTS
 * unanswered requests of each side, so what the one that serves must remember is bounded, and it
 * never stops reading because it cannot send.
 *
 * Locks. conn->lock guards what is to be sent and what was asked for; it is held for short. A
 * stream's tx_lock belongs to the one thread that sends on it, and is taken before conn->lock. Of
 * the receiving half all is [token].
 */
#ifndef SL_TCP_H
#define SL_TCP_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/list.h"
#include "src/core/desc.h"
#include "src/transport/greeting.h"
#include "src/transport/link_listener.h"
#include "src/transport/tcp/frame.h"
#include "src/transport/todo.h"
#include "src/transport/transport.h"

#define TCP_BATCH_IOVS	(4 * (TCP_PIECES_MAX + 1)) /* of one sendmsg */
#define TCP_BATCH_HEADS 6144			   /* bytes of headers and lists in it */
#define TCP_RX_BUF	9216			   /* read ahead of what is parsed */
#define TCP_WITHDRAWN	64			   /* withdrawn regions that are remembered */
#define TCP_HOT_PASSES	256 /* passes without an event before the poller alone looks */
#define TCP_ACTIVE_MAX	4   /* connections whose sockets are polled in every pass */
#define TCP_CROWD	64  /* events on those alone, after which there are no others */
#define TCP_TURN	(UINT64_C(512) << 10) /* bytes of bulk between two looks at messages */
#define TCP_LONG_TURN	(UINT64_C(4) << 20)   /* the same after so many turns without a message */
#define TCP_TURNS_ALONE 64

struct tcp_conn;
struct tcp_transport;

/* ---- what links have only while they are at it ---- */

/*
 * Objects of one kind that the links of a context share: an idle link has none. How many a link may
 * have is bounded where it takes them; those that were given back are kept for the next. An object
 * begins with a list link, and comes as it was given back; a new one is all zeros.
 */
struct tcp_pool {
	pthread_mutex_t lock; /* taken last */
	struct sl_list free;
	size_t len;
};

/* pool.c. Any thread, any lock. */
void *tcp_pool_take(struct tcp_pool *p); /* NULL without memory */
void tcp_pool_give(struct tcp_pool *p, void *object);
/* The object at *place. The place is empty first: a child of a fork finds the object once at most.
 */
#define tcp_pool_give_back(p, place)         \
	do {                                 \
		void *object_ = *(place);    \
		*(place) = NULL;             \
		tcp_pool_give((p), object_); \
	} while (0)
/* All of a context. */
void tcp_pools_init(struct tcp_transport *t);
void tcp_pools_fini(struct tcp_transport *t);
void tcp_pools_forget(struct tcp_transport *t); /* in a child after fork */

/* A request of ours. */
struct tcp_request {
	struct sl_list link; /* to be sent, or in the batch that is being sent */
	struct slime_op *op; /* NULL: the place is free */
	uint64_t len;
	uint64_t end; /* in a batch: how many of its bytes there are up to the end of this */
	uint8_t kind; /* TCP_READ, TCP_WRITE, TCP_WRITE_IMM */
	uint8_t id;
	bool sent; /* the kernel has all of it */
	uint8_t n_pieces;
	struct sl_piece pieces[TCP_PIECES_MAX];
};

/* Those of a stream: it has them while there is one. */
struct tcp_requests {
	struct sl_list link;
	struct tcp_request at[TCP_REQUESTS];
};

/* A READ of the peer's. */
struct tcp_serve {
	struct sl_list link; /* free, waiting, or in the batch that is being sent */
	struct tcp_head head;
	uint64_t end; /* as a request's */
	bool holds;   /* it counts as user of the regions of its pieces */
	struct tcp_piece pieces[TCP_PIECES_MAX];
};

/* Those of a stream: it has them while there is one. */
struct tcp_serves {
	struct sl_list link;
	struct sl_list free; /* of them; not made yet in new ones */
	unsigned n;	     /* that are not free */
	struct tcp_serve at[TCP_REQUESTS];
};

struct tcp_reply {
	uint8_t id;
	uint8_t code;
};

/* The output: headers and lists in heads, payload where it lies. A stream has one until all of it
 * is sent. Under tx_lock. */
struct tcp_batch {
	struct sl_list link;
	struct iovec iov[TCP_BATCH_IOVS];
	unsigned at, n;
	size_t heads_len;
	uint64_t bytes;
	uint64_t max;  /* with so many it is full */
	uint64_t sent; /* of them */
	struct sl_list requests;
	struct sl_list serves;
	bool bye;
	uint8_t heads[TCP_BATCH_HEADS];
};

enum tcp_rx_step {
	TCP_RX_HEAD,
	TCP_RX_LIST,
	TCP_RX_PAYLOAD,
};

/* The input. A stream has one while a frame is not complete. [token] */
struct tcp_rx {
	struct sl_list link;
	enum tcp_rx_step step;
	struct tcp_head head;
	struct tcp_request *request; /* DATA: the op or request it belongs to */
	struct sl_msg msg;
	int status;	  /* WRITE: refused, and its payload is thrown away */
	bool holds;	  /* WRITE: counts as user of the regions of its pieces; under conn->lock */
	bool answers_due; /* there is something to send back */
	bool is_slow;	  /* handlers of this turn take long: answers leave at once */
	uint64_t due_ns;  /* since when the first message waits for the end of the turn; 0: none */
	bool more;	  /* its turn was over before all was parsed */
	struct tcp_piece pieces[TCP_PIECES_MAX];
	uint64_t left;			      /* of the payload */
	unsigned iov_at, n_iov;		      /* its places; none when it is thrown away */
	struct iovec iov[TCP_PIECES_MAX + 1]; /* and then what is read ahead */
	size_t at, end;			      /* of buf: bytes that were not parsed yet */
	uint8_t buf[TCP_RX_BUF];
};

struct tcp_stream {
	struct tcp_conn *conn;
	uint16_t index;
	struct sl_greeting *greeting; /* of the end that dials, while it goes on */
	struct sl_timer again;	      /* it dials once more: dial.c; [token] */
	int fd;			      /* -1: none */
	bool opened;		      /* the peer's OPEN arrived */

	pthread_mutex_t tx_lock;
	_Atomic bool
		tx_wanted; /* there is something to send: the thread with tx_lock checks again */
	bool dead;	   /* no more system calls on fd; under tx_lock, as are the next four */
	bool blocked;	   /* the kernel took no more: wait for EPOLLOUT */
	bool rx_paused;
	bool closing; /* only its end is of interest */
	struct sl_source source;
	struct tcp_batch *batch; /* NULL: nothing is being sent */

	/* Under conn->lock. */
	struct tcp_requests *requests; /* NULL: there are none */
	struct sl_list to_send;
	_Atomic unsigned n_requests;
	uint64_t requested;	   /* their bytes */
	struct tcp_serves *serves; /* NULL: there are none */
	struct sl_list serves_waiting;
	struct tcp_reply replies[TCP_REQUESTS];
	unsigned replies_first, n_replies;
	bool open_due;

	struct tcp_rx *rx;	  /* NULL: nothing is being received; [token] */
	unsigned hot;		  /* passes in which something may come soon; [token] */
	struct sl_list bulk_link; /* in the transport's list; [token] */
	unsigned n_turns;
	bool tx_due;		  /* and then there is something to send, too; [token] */
	uint64_t silent_since_ns; /* see tcp_silence_lasts(). [token] */
};

/* Messages that wait to be sent. */
struct tcp_msgs {
	struct sl_list link;
	struct sl_msg at[SL_RING_ENTRIES];
};

/* A region of the peer's of which we have shown the secret. */
struct tcp_shown {
	uint64_t generation;
	uint32_t streams; /* on which: a mask. What asks for it goes behind that */
};

enum tcp_conn_state {
	TCP_CONN_NEW, /* its start is due */
	TCP_CONN_OPENING,
	TCP_CONN_UP,
	TCP_CONN_LEAVING, /* we said BYE, or are about to */
	TCP_CONN_ENDED,
};

/* The report of a stream to its connection: OPEN or READY arrived. 0, -EPROTO. [token] */
struct tcp_conn_parts {
	int (*on_open)(struct tcp_stream *s, const struct tcp_head *h);
	int (*on_ready)(struct tcp_conn *c);
};

struct tcp_conn {
	struct sl_conn conn;
	const struct tcp_conn_parts *parts;
	struct tcp_transport *t;
	struct sl_conn_attr attr;
	uint8_t candidate[SL_CANDIDATE_MAX];
	struct sl_timer timer; /* to be ready, or to have left */

	/* dial.c. [token] */
	bool dials; /* the streams are ours to bring up: at first the initiator's */
	uint64_t give_way_ns;
	struct sl_greeting *reverse;
	struct sl_timer reverse_timer;
	int vain_cause; /* why an initiator's own dial failed, while it waits for the peer's; 0 */
	struct sl_why vain_why;

	_Atomic uint32_t state; /* enum tcp_conn_state; changes with lock held, by [token] */
	bool peer_ready;	/* [token], as are the next */
	unsigned n_opened;
	uint32_t unread; /* streams whose turn was over before all input was parsed: a mask */
	struct sl_list active_link;
	struct sl_list link;	      /* in the transport's list of all */
	uint64_t withdraw_until_ns;   /* it uses a region that is to go, and has so long; 0: none */
	uint64_t withdraw_generation; /* of that region */

	_Atomic uint64_t imm_taken;
	_Atomic bool is_active;
	_Atomic uint32_t idle_passes; /* since something was submitted or arrived */
	_Atomic unsigned n_blocked;   /* streams that wait for EPOLLOUT */
	_Atomic bool has_sent;	      /* bytes that the peer's host may not have acknowledged */
	uint64_t idle_since_ns;	      /* see tcp_idle_lasts(). [token] */
	struct sl_todo_entry todo;

	pthread_mutex_t lock;
	_Atomic bool ending; /* end_* say why it is to end */
	_Atomic bool left;   /* the peer has seen that we leave */
	bool shut;	     /* closed by us, whichever values end_* have */
	bool end_local;
	int end_cause;
	struct sl_why end_why;
	struct sl_list ops;    /* not all of their requests are made */
	unsigned n_fences;     /* of them those that wait for earlier writes */
	unsigned n_writes;     /* begun and not finished */
	struct tcp_msgs *msgs; /* NULL: there are none */
	unsigned msgs_first, n_msgs;
	_Atomic bool lacks_memory; /* for what was asked for */
	bool ready_due, bye_due;
	uint64_t taken; /* immediates of the peer's, to be told */
	uint64_t taken_told;
	uint64_t withdrawn[TCP_WITHDRAWN]; /* the last generations of ours that were withdrawn */
	unsigned n_withdrawn, n_withdrawn_told;
	uint64_t stale[TCP_WITHDRAWN]; /* and of the peer's */
	char address[80];

	/* secret.c */
	uint64_t *shown; /* by id of our regions: the generation whose secret the peer has shown;
			    NULL: it has shown none */
	unsigned n_wrong_secrets;
	struct tcp_shown *shown_there; /* by id of the peer's, n_shown_there of them */
	uint32_t n_shown_there;

	uint8_t *out_slots; /* as the peer's in_slots will be */
	uint8_t *in_slots;
	bool has_said;	   /* a message */
	bool stands_still; /* the peer, since we said goodbye; [token] */
	struct tcp_stream *bye_stream;
	unsigned n_streams; /* 0: an end that does not dial learns it from the first OPEN */
	struct tcp_stream *streams[TCP_STREAMS_MAX]; /* by index; NULL: not there yet */
};

static inline struct tcp_conn *tcp_conn_of(struct sl_conn *conn)
{
	return SL_CONTAINER_OF(conn, struct tcp_conn, conn);
}

static inline uint32_t tcp_conn_state(const struct tcp_conn *c)
{
	return atomic_load_explicit(&c->state, memory_order_acquire);
}

struct tcp_transport {
	struct sl_transport transport;
	struct sl_link_listener *listener;
	struct sockaddr_storage advertised;
	bool listens;
	struct sl_timer watch;
	struct sl_list conns; /* [token] */
	/*
	 * Connections where something happened of late, the oldest first: every pass looks at their
	 * sockets. When one too many comes the first leaves, and then for TCP_CROWD events every
	 * pass looks at the poller instead: one system call, however many there are. [token]
	 */
	struct sl_list active;
	struct sl_list *next_active;
	unsigned n_active;
	unsigned crowd; /* events that are left */
	/* Streams without messages where bytes may move now, of all connections. A pass gives one
	 * of them a turn. [token] */
	struct sl_list bulk;
	_Atomic unsigned turns; /* since a message went or came, up to TCP_TURNS_ALONE */
	struct tcp_pool requests, serves, batches, rxs, msgs;
	struct tcp_rx *spare_rx; /* [token]: one that is out of the pool, or NULL */
	bool polls;		 /* spinners look at sockets; else the poller alone tells of them */
	bool armed;		 /* [token] and so it is now */
	struct sl_todo todo;	 /* conns that the token's holder must look at */
	struct sl_list lingering; /* [token], the oldest first */
	unsigned n_lingering;
};

/* Accesses that the thread sanitizer cannot judge. Each use states the reason beside it. */
#ifdef __SANITIZE_THREAD__
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
#define TCP_TSAN(annotation) annotation(__FILE__, __LINE__)
#else
#define TCP_TSAN(annotation) ((void)0)
#endif

/* The places of a system call of at most max bytes: those before end, of which the last is shorter
 * meanwhile. */
struct tcp_iov_cut {
	unsigned end;
	size_t len; /* of the last, to be mended */
};

static inline struct tcp_iov_cut tcp_iov_cut(struct iovec *iov, unsigned at, unsigned end,
					     uint64_t max)
{
	struct tcp_iov_cut cut;

	while (at < end && iov[at].iov_len < max)
		max -= iov[at++].iov_len;
	cut.end = at < end ? at + 1 : end;
	cut.len = iov[cut.end - 1].iov_len;
	if (at < end)
		iov[at].iov_len = max;
	return cut;
}

static inline void tcp_iov_mend(struct iovec *iov, const struct tcp_iov_cut *cut)
{
	iov[cut->end - 1].iov_len = cut->len;
}

/* n bytes are done with: iov[*at] is what comes next, at most iov[end]. */
static inline void tcp_iov_advance(struct iovec *iov, unsigned *at, unsigned end, size_t n)
{
	while (*at < end && n >= iov[*at].iov_len)
		n -= iov[(*at)++].iov_len;
	if (!n || *at == end)
		return;
	iov[*at].iov_base = (uint8_t *)iov[*at].iov_base + n;
	iov[*at].iov_len -= n;
}

/* ---- socket.c ---- */

/* Parse a numeric address. -EINVAL. */
int tcp_parse_address(const char *text, uint16_t port, struct sockaddr_storage *out);
bool tcp_is_wildcard(const struct sockaddr_storage *a);
bool tcp_is_loopback(const struct sockaddr_storage *a);
void tcp_format_address(const struct sockaddr_storage *a, char *out, size_t cap);
socklen_t tcp_address_len(const struct sockaddr_storage *a);
/* A socket that listens at *a; *a is then what the kernel made of it. Negative errno. */
int tcp_listen(struct sockaddr_storage *a, int *out);
/* A non-blocking socket that connects, or has failed at once. Negative errno. */
int tcp_dial(const struct sockaddr_storage *a, int *out);
/* The common parts of all streams. Negative errno. */
int tcp_set_options(int fd, uint32_t user_timeout_ms);
/* A candidate: family, port, address. The reader takes hostile bytes: -EINVAL. */
void tcp_write_candidate(const struct sockaddr_storage *a, struct sl_writer *w);
int tcp_read_candidate(struct sockaddr_storage *a, const uint8_t *bytes, size_t len);

/* ---- conn.c ---- */

int tcp_conn_create(struct sl_transport *t, const struct sl_conn_attr *attr, struct sl_conn **out);
/* A stream that was greeted: a sl_link_listener_fn. [token] */
void tcp_conn_adopt(struct sl_transport *t, struct sl_conn *conn, int fd, uint16_t stream);
/* Do what is due: begin, receive on, leave, end. c may be gone afterwards. Returns what there was.
 * [token] */
unsigned tcp_conn_run(struct tcp_conn *c);
/* It is not looked at in every pass any more. [token] */
void tcp_conn_rest(struct tcp_transport *t, struct tcp_conn *c);

/* ---- conn_report.c ---- */

static inline uint64_t tcp_turn(const struct tcp_transport *t)
{
	return atomic_load_explicit(&t->turns, memory_order_relaxed) < TCP_TURNS_ALONE
		       ? TCP_TURN
		       : TCP_LONG_TURN;
}

/* A message goes or came: turns are short, as others may follow. Any thread. */
static inline void tcp_turn_shorten(struct tcp_transport *t)
{
	if (atomic_load_explicit(&t->turns, memory_order_relaxed))
		atomic_store_explicit(&t->turns, 0, memory_order_relaxed);
}

/* The stream, which carries no messages, has something to receive, or to send if tx. [token] */
static inline void tcp_bulk_add(struct tcp_stream *s, bool tx)
{
	s->tx_due |= tx;
	if (sl_list_empty(&s->bulk_link))
		sl_list_append(&s->conn->t->bulk, &s->bulk_link);
}

/* Have the holder of the token run it. Any thread, any lock but the transport's. */
void tcp_conn_call(struct tcp_conn *c);
/* It will be looked at in every pass for a while. Any thread. */
static inline void tcp_conn_touch(struct tcp_conn *c)
{
	atomic_store_explicit(&c->idle_passes, 0, memory_order_relaxed);
	if (c->t->polls && !atomic_load_explicit(&c->is_active, memory_order_relaxed))
		sl_todo_put(&c->t->todo, &c->todo);
}

/* As tcp_conn_fail(); local: we close it. */
void tcp_conn_end_because(struct tcp_conn *c, int cause, const char *why, bool local);
/* It is to end; the first reason counts. Any thread, any lock but the transport's. */
void tcp_conn_fail(struct tcp_conn *c, int cause, const char *why);
/* A message to be sent; false: there are as many as the windows allow, and the caller has the link
 * fail once it let go of conn->lock. Under conn->lock. */
static inline bool tcp_conn_queue(struct tcp_conn *c, const struct sl_msg *m)
{
	if (c->n_msgs == SL_RING_ENTRIES)
		return false;
	if (!c->n_msgs) {
		c->msgs = (struct tcp_msgs *)tcp_pool_take(&c->t->msgs);
		c->msgs_first = 0;
		if (!c->msgs) {
			atomic_store(&c->lacks_memory, true);
			return false;
		}
	}
	c->msgs->at[(c->msgs_first + c->n_msgs++) % SL_RING_ENTRIES] = *m;
	return true;
}

/* More messages than that: a peer that answers what it was not asked, or reads nothing. Or there is
 * no memory for them. */
void tcp_conn_fail_queue(struct tcp_conn *c);

/* ---- dial.c: [token] ---- */

void tcp_dial_begin(struct tcp_conn *c);
/* The time to come up is over: the connection ends. */
void tcp_dial_ran_out(struct tcp_conn *c);
/* The acceptor makes a reverse connection attempt: its timer's. */
void tcp_dial_reverse(struct sl_timer *t);
/* Stop the reverse attempts: a stream of the peer arrived, or the connection ends. */
void tcp_dial_stop_reverse(struct tcp_conn *c);
/* The connection is to end. True: it goes on instead, since its dial failed and the peer may dial
 * in the other direction. */
bool tcp_dial_gives_way(struct tcp_conn *c);
/* A stream of the peer proved the key: an initiator whose own dial is not answered gives it up. */
void tcp_dial_accept(struct tcp_conn *c);
/* As gave_way of struct sl_conn_ops. */
int tcp_dial_gave_way(struct sl_conn *conn);

/* ---- lingering_close.c: [token] ---- */

/* The link is closed, and its peer stands still: keep the sockets, with what was not sent, until
 * the peer has read it. */
void tcp_lingering_begin(struct tcp_conn *c);
/* End all of them: their peers find the links dead. */
void tcp_lingering_end_all(struct tcp_transport *t);
/* In a child after fork: free their memory. */
void tcp_lingering_forget_all(struct tcp_transport *t);

/* ---- withdraw.c ---- */

/* Whether requests of the peer use r. [token] */
bool tcp_conn_holds(struct tcp_conn *c, const struct sl_region *r);
/* Tell the peer that r is withdrawn, once. [token] */
void tcp_conn_withdraw(struct tcp_conn *c, const struct sl_region *r);
/* Whether the peer said that r is withdrawn. */
bool tcp_conn_is_stale(struct sl_conn *conn, const struct slime_remote_mr *r);

/* ---- secret.c: under conn->lock ---- */

/* The peer shows the secret of a region of ours: 0, -EPROTO it has shown too many that were wrong,
 * -ENOMEM. */
int tcp_secret_take(struct tcp_conn *c, uint32_t id, uint64_t generation, const uint64_t secret[2]);
/* Whether the peer has shown the secret of that generation. */
static inline bool tcp_secret_was_shown(const struct tcp_conn *c, const struct tcp_piece *p)
{
	return p->region < c->t->transport.env->regions->n && c->shown &&
	       c->shown[p->region] == p->generation;
}
/* Note that r is asked for on a stream: whether its secret has to be shown there first. */
bool tcp_secret_is_due(struct tcp_conn *c, const struct slime_remote_mr *r, unsigned stream);

/* ---- stream.c ---- */

int tcp_stream_create(struct tcp_conn *c, uint16_t index, struct tcp_stream **out);
/* It has its socket. [token] */
int tcp_stream_attach(struct tcp_stream *s, int fd);
/* No byte comes or goes any more. [token] */
void tcp_stream_stop(struct tcp_stream *s);
void tcp_stream_free(struct tcp_stream *s);
/* [token] */
void tcp_stream_pause(struct tcp_stream *s, bool paused);
void tcp_stream_leave(struct tcp_stream *s);

/* ---- piece.c ---- */

/* Give back the regions of pieces. Under conn->lock. */
void tcp_release_pieces(struct tcp_conn *c, const struct tcp_piece *pieces, unsigned n);
/* Take them, and say where they lie: 0 or -ESTALE, -ERANGE, -EACCES, and none is held. Under
 * conn->lock. */
int tcp_acquire_pieces(struct tcp_conn *c, const struct tcp_piece *pieces, unsigned n,
		       uint32_t access, struct iovec *iov);

/* ---- serve.c: under conn->lock ---- */

/* A place for a request of the peer's, in no list: 0, -EAGAIN it has as many as it may, -ENOMEM. */
int tcp_serve_new(struct tcp_stream *s, struct tcp_serve **out);
/* It is answered, and in no list. */
void tcp_serve_done(struct tcp_stream *s, struct tcp_serve *v);

/* ---- tx.c ---- */

/* Send what there is, unless another thread has tx_lock, which then does it. No lock held. */
void tcp_tx_flush(struct tcp_stream *s);
/* Release tx_lock, which the caller held for something else than sending: other threads may have
 * left frames for us to send. No other lock held. */
void tcp_tx_unlock(struct tcp_stream *s);
/* Ask the poller for what is of interest now. Under tx_lock. */
void tcp_tx_watch(struct tcp_stream *s);
/* The kernel has room again. [token] */
void tcp_tx_unblock(struct tcp_stream *s);
/* Of a connection that leaves: a copy of all that its stream has still to send, for free(); 0,
 * -ENOMEM. */
int tcp_tx_take_rest(struct tcp_stream *s, uint8_t **out, size_t *len);
/* Release what the batch holds, and the batch. Under tx_lock. */
void tcp_tx_drop(struct tcp_stream *s);
/* For all streams of a mask. */
void tcp_tx_flush_mask(struct tcp_conn *c, uint32_t streams);

/* ---- rx.c ---- */

/* Whether what c has to say over its first stream may wait for the end of the turn that this thread
 * is in, which sends it. */
bool tcp_rx_sends_later(struct tcp_conn *c);

/* What it held for requests of the peer. No thread receives any more. [token] */
void tcp_rx_drop(struct tcp_stream *s);
/* Receive what is there, to a bound; returns the number of frames. [token] */
unsigned tcp_rx_run(struct tcp_stream *s);

/* ---- watch.c ---- */

/* Look at the streams of all connections from time to time, while there are any. [token] */
void tcp_watch_init(struct tcp_transport *t);
void tcp_watch_start(struct tcp_transport *t);
void tcp_watch_stop(struct tcp_transport *t);

/*
 * One look at a stream: whether it had data under way for timeout_ns without an acknowledgement.
 * *since_ns is kept from look to look, 0 at first and while nothing is under way.
 */
bool tcp_silence_lasts(uint64_t *since_ns, uint64_t now_ns, bool under_way, uint64_t ack_ago_ns,
		       uint64_t timeout_ns);

/*
 * The same of a link at rest: whether the kernel has probed it, and for timeout_ns (with a second
 * before the first probe, and time to answer the last one) nothing came. *look_ns becomes the time
 * at which that will be so, if it is earlier.
 */
bool tcp_idle_lasts(uint64_t *since_ns, uint64_t now_ns, bool probed, uint64_t ack_ago_ns,
		    uint64_t timeout_ns, uint64_t *look_ns);

/* ---- request.c ---- */

int tcp_submit(struct sl_conn *conn, struct slime_op *op);
/* Make requests of what waits, as far as there is room. Returns the streams to flush. Under
 * conn->lock. */
uint32_t tcp_pump(struct tcp_conn *c);
/* The request that an answer on s names, and that was sent: NULL when there is none. [token] */
struct tcp_request *tcp_request_find(struct tcp_stream *s, uint32_t id);
/* It ended; its place is free. [token] */
void tcp_request_done(struct tcp_stream *s, struct tcp_request *r, int status);
/* Every op ends with status; the streams are stopped. [token] */
void tcp_fail_ops(struct tcp_conn *c, int status);

#endif
