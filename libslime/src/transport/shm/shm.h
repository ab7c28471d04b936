/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shm transport: its context part, its connections, and what they know of their peer's regions.
 *
 *	shm.c         the context's part: link listener, page, passes
 *	handshake.c   how a connection comes up
 *	conn.c        a connection: packets, life, end
 *	conn_report.c what its parts report to it
 *	ring.c        its messages
 *	peer.c        what we have of a peer's context
 *	turn.c        which of them a pass looks at
 *	work.c        one-sided work: a bounded share of it in submit
 *	foreign.c     copies where nothing is mapped, by process_vm_readv and process_vm_writev
 *	map.c         the peer's regions that we have
 *	given.c       our regions that the peer has
 *	retained_mapping.c  our regions that a peer has after its connection ended
 *	segment.c     the memory both ends share
 *	channel.c     the unix socket between them
 */
#ifndef SL_SHM_H
#define SL_SHM_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "src/transport/greeting.h"
#include "src/transport/link_listener.h"
#include "src/transport/shm/channel.h"
#include "src/transport/shm/segment.h"
#include "src/transport/todo.h"
#include "src/transport/transport.h"

/* A peer's region id is below this: the largest max_regions. */
#define SHM_REGIONS_MAX 65536
/* Asked for and not answered, per connection: what the socket's buffer holds without doubt. */
#define SHM_ASKED_MAX 32
/* Bells that were not heard yet: together with what is asked they find room in the socket. */
#define SHM_BELLS_MAX 16
/* Packets read at once, so that a flood of them does not keep others from their turn. */
#define SHM_PACKETS_PER_CALL 64
#define SHM_CANDIDATE_MAX    64

struct shm_transport {
	struct sl_transport base;
	struct sl_link_listener *listener;
	char name[40]; /* of the abstract unix socket */
	struct shm_page *page;
	int page_fd;
	uint64_t start_time; /* of this process */
	struct shm_board *board;
	int board_fd;
	struct sl_todo todo;	 /* connections that the next pass looks at, whatever for */
	struct sl_list conns;	 /* [token] */
	struct sl_list retained; /* [token] */
	struct sl_list peers;	 /* [token] */

	/* turn.c; [token] */
	struct sl_list active; /* each pass looks at their rings */
	unsigned n_active;
	struct shm_conn *by_bit[SHM_BOARD_BITS]; /* the first connection of each; NULL: none */
	uint32_t next_bit;
	uint64_t n_found;    /* messages of others that were found */
	uint64_t all_due_ns; /* a pass looks at all of them */

	struct sl_list copying; /* connections with works; the next one is first. [token] */
};

/* What we have of the context at the other end of one link or several. [token] */
struct shm_peer {
	struct sl_list link;
	unsigned n_links;
	dev_t dev, board_dev; /* of the files: they tell it from others */
	ino_t page_ino, board_ino;
	const struct shm_page *page;
	struct shm_board *board;
};

/* ---- ours that the peer has ---- */

/*
 * Which of our regions a peer has mapped. The generation is set before the descriptor leaves: an id
 * may be another region's while a peer still has the former one of that id.
 */
struct shm_given {
	uint64_t *generations; /* by id; 0: it has not. NULL: it has none */
	uint64_t *announced;   /* bits by id: told to forget it */
	uint32_t n;
	uint32_t n_announced;
	uint64_t asked_ns; /* it was told, or of our end, and has said nothing since; 0: it was not
			    */
	uint64_t asked_more_ns; /* it was first told of another one meanwhile; 0: it was not */
};

/*
 * A peer whose connection ended here and that still has regions of ours: they stay fenced until it
 * releases them or exits.
 */
struct shm_retained {
	struct sl_list link;
	struct shm_transport *t;
	struct shm_given given;
	struct sl_source sock;
	struct sl_source pid;
};

/* ---- the peer's that we have ---- */

enum shm_map_state {
	SHM_MAP_NONE,
	SHM_MAP_ASKED, /* the peer will answer */
	SHM_MAP_READY,
	SHM_MAP_REFUSED, /* status says why */
	SHM_MAP_STALE,	 /* withdrawn; unmapped once the last user left */
	SHM_MAP_GONE,	 /* and unmapped */
};

struct shm_map {
	_Atomic uint32_t state;	  /* enum shm_map_state */
	_Atomic uint32_t n_users; /* copies under way */
	_Atomic uint64_t generation;
	bool foreign; /* not mapped: by process_vm_readv */
	int status;
	uint32_t id;
	uint32_t access;
	uint64_t len;
	uint8_t *base;
	void *mapping;
	uint64_t mapping_len;
	uint64_t cold_at; /* from there to cold_end an access may fault. [token] */
	uint64_t cold_end;
	struct sl_list link;  /* of the cold ones, or of those that wait for their users. [token] */
	struct shm_map *next; /* of all */
};

/* ---- a connection ---- */

enum shm_conn_state {
	SHM_CONN_STARTING,
	SHM_CONN_READY,
	SHM_CONN_ENDED,
};

struct shm_conn {
	struct sl_conn base;
	struct shm_transport *t;
	struct sl_list link;
	struct sl_todo_entry todo;
	_Atomic uint32_t state;	 /* enum shm_conn_state */
	_Atomic uint32_t n_busy; /* submits that copy, and posts that ring */
	bool initiator;

	/* turn.c; [token] */
	struct sl_list turn;	   /* among the active ones, or in no list */
	uint32_t quiet_passes;	   /* while there */
	uint32_t bit;		   /* of our board */
	struct shm_conn *same_bit; /* the next one that has it */
	uint64_t found_at;	   /* t->n_found of its last message, while it was not active */

	/* Handshake. [token] */
	struct sl_conn_attr attr; /* an initiator's, to dial with; the key is wiped once ready */
	uint8_t candidate[SHM_CANDIDATE_MAX];
	struct sl_greeting *greeting;
	struct sl_timer deadline;
	struct sl_timer again; /* dials once more */
	uint64_t nonce;
	const char *step; /* what it waits for, for people; NULL once it is ready */

	/* The peer. [token] */
	struct sl_source sock;
	struct sl_source pid_source;
	pid_t pid;
	bool same_user;	    /* as ours */
	uint8_t peer_flags; /* of SEGMENT or ACCEPT */
	uint64_t mark_at;   /* in its address space */
	uint8_t mark[SHM_MARK_LEN];
	bool said_bye; /* the peer closed in order */

	struct shm_segment *segment;
	struct shm_half *own;	  /* we write */
	struct shm_half *other;	  /* we read */
	struct shm_peer *context; /* of the peer's end; its page and board are the next two */
	const struct shm_page *peer_page;
	struct shm_board *peer_board;
	uint32_t peer_bit;	 /* of it */
	_Atomic uint32_t n_rung; /* bells that were sent */
	uint32_t n_heard;	 /* and that came. [token] */

	_Atomic uint64_t tx_seq;	 /* entries taken by threads that post */
	uint64_t rx_seq;		 /* messages taken. [token] */
	const struct shm_entry *rx_next; /* where the next one will be; NULL until ready. [token] */
	bool rx_over;			 /* nothing more is taken. [token] */
	_Atomic uint64_t imm_taken;
	bool ring_later; /* the peer may have to be rung. [token] */

	pthread_mutex_t lock; /* of works, maps' creation, and the wish to end */
	struct sl_list works; /* ops that are not done with */
	_Atomic uint32_t n_works;
	struct sl_list copying; /* in the transport's list, or in none. [token] */
	uint32_t n_fences;	/* works that wait for those before them */
	_Atomic bool end_wanted;
	int end_cause;
	char end_why[96];

	_Atomic(struct shm_map *) *maps; /* by region id; SHM_REGIONS_MAX */
	struct shm_map *made;		 /* those that there are */
	_Atomic uint32_t n_asked;
	struct sl_list leaving;	  /* maps that wait for their users. [token] */
	struct sl_list cold;	  /* maps whose pages are fetched when there is time. [token] */
	struct shm_given given;	  /* [token] */
	unsigned n_wrong_secrets; /* [token] */
	struct shm_retained *retained; /* what may be left of us; NULL once it is */
};

/* The connection is ready. [token] */
static inline bool shm_conn_has_message(const struct shm_conn *c)
{
	return atomic_load_explicit(&c->rx_next->seq, memory_order_acquire) == c->rx_seq + 1;
}

/* peer.c; [token] */

/* The context with this page and board, whose files are checked when they are mapped. */
int shm_peer_get(struct shm_transport *t, int page_fd, int board_fd, struct shm_peer **out);
void shm_peer_put(struct shm_peer *p);
void shm_peer_forget(struct shm_peer *p); /* in a child after fork */

/* turn.c; [token] */

/* The connection gets a bit of our board; and ends. */
void shm_turn_join(struct shm_conn *c);
void shm_turn_leave(struct shm_conn *c);
/* There is a message of a connection that was not active: it becomes active if it had one of the
 * last few. */
void shm_turn_found(struct shm_conn *c);
/* Nothing came for long: the peer is to mark the board from now on. */
void shm_turn_rest(struct shm_conn *c);

static inline bool shm_turn_is_active(const struct shm_conn *c)
{
	return !sl_list_empty(&c->turn);
}

/* The next pass looks at it. Any thread, any lock. */
static inline void shm_conn_call(struct shm_conn *c)
{
	sl_todo_put(&c->t->todo, &c->todo);
}

/* conn.c */
int shm_conn_create(struct sl_transport *t, const struct sl_conn_attr *attr, struct sl_conn **out);
unsigned shm_conn_progress(struct shm_conn *c); /* [token] */

/* conn_report.c */

/* It is to end; the first reason counts. Any thread. */
void shm_conn_end(struct shm_conn *c, int cause, const char *why);
/* Send what the peer waits for; the connection ends where that fails, unless the peer hung up: it
 * may have said goodbye before, which is read from the socket. [token] */
void shm_conn_answer(struct shm_conn *c, const struct shm_packet *p);

static inline struct sl_poller *shm_poller(const struct shm_conn *c)
{
	return c->t->base.env->poller;
}

/* ring.c */

/* Take at most max messages: how many there were. [token] */
unsigned shm_ring_drain(struct shm_conn *c, unsigned max);
/* Take a pass's worth, and expect more after some. [token] */
unsigned shm_ring_take(struct shm_conn *c);
/* The connection ends. [token] */
void shm_ring_expect_nothing(const struct shm_conn *c);
/* As post of struct sl_conn_ops. */
void shm_ring_post(struct sl_conn *conn, const struct sl_post *posts, size_t n_posts);

/* handshake.c; [token] */
int shm_handshake_dial(struct shm_conn *c); /* an initiator's first step. Negative errno, */
const char *shm_handshake_error(int ret);   /* and what that means */
void shm_handshake_again(
	struct sl_timer *t); /* the timer's: the queue of the peer's listener was full */
/* A socket whose other end has proven that it holds the key: a sl_link_listener_fn. */
void shm_conn_greeted(struct sl_transport *t, struct sl_conn *conn, int fd, uint16_t stream);
/* SEGMENT, ACCEPT or READY arrived: 0, or the negative errno that ends the connection. */
int shm_handshake_packet(struct shm_conn *c, struct shm_packet *p);

/* work.c */
int shm_work_submit(struct sl_conn *conn, struct slime_op *op);
static inline bool shm_work_any(const struct shm_conn *c)
{
	return atomic_load_explicit(&c->n_works, memory_order_acquire);
}

/* The first that can go on has a turn: how many ended or went on. *budget shrinks by the bytes,
 * down to 0. [token] */
unsigned shm_work_turn(struct shm_conn *c, uint64_t *budget);
void shm_work_flush(struct shm_conn *c,
		    int status); /* finish all; no submit copies, and no post rings. [token] */

/* foreign.c */

/* Whether memory of the peer's process can be copied: 0, -EOPNOTSUPP the kernel forbids it,
 * others it cannot be. */
int shm_foreign_probe(struct shm_conn *c);
/* The work's next stretches, at most *budget bytes, which shrinks by as much; they begin in m. */
int shm_foreign_copy(struct shm_conn *c, const struct shm_map *m, struct sl_work *w,
		     uint64_t *budget);

/* map.c */

/*
 * The peer's region that r names, held until shm_map_put():
 *   -EINPROGRESS  asked for: try again from progress     -ESTALE, -EOPNOTSUPP, or what the peer
 * refused with
 */
int shm_map_get(struct shm_conn *c, const struct slime_remote_mr *r, struct shm_map **out);
void shm_map_put(struct shm_conn *c, struct shm_map *m);

/* Whether p lies in the region, as the peer described it, and may be read or written. */
static inline int shm_map_check(const struct shm_map *m, const struct sl_piece *p,
				enum slime_op_kind kind)
{
	uint32_t access =
		kind == SLIME_KIND_READ ? SLIME_ACCESS_REMOTE_READ : SLIME_ACCESS_REMOTE_WRITE;

	if (!(m->access & access))
		return -EACCES;
	return p->len > m->len || p->remote_offset > m->len - p->len ? -ERANGE : 0;
}

bool shm_map_is_stale(struct sl_conn *conn, const struct slime_remote_mr *r);
uint8_t *shm_map_view(struct sl_conn *conn, const struct slime_remote_mr *r, uint64_t offset,
		      uint64_t len, uint32_t access); /* [token] */
bool shm_map_answered(struct shm_conn *c,
		      struct shm_packet *p); /* MAPPED arrived; false: broken protocol */
void shm_map_withdrawn(struct shm_conn *c, const struct shm_packet *p); /* WITHDRAW arrived */
unsigned shm_map_progress(struct shm_conn *c); /* unmap what is not used any more */
unsigned shm_map_warm(struct shm_conn *c);     /* fetch some pages of a cold one; there is one */
void shm_map_drop_all(struct shm_conn *c);     /* no submit copies */
void shm_map_free(struct shm_conn *c);

/* given.c */

void shm_given_answer(struct shm_conn *c, const struct shm_packet *p); /* MAP arrived: answer it */
bool shm_given_any(const struct shm_given *g);
/* The peer is to say something, from now on if it was not before. */
void shm_given_ask(struct shm_given *g);
/* It says something. */
void shm_given_hear(struct shm_given *g);
/* The peer let go of a region. */
void shm_given_clear(struct shm_given *g, uint32_t id, uint64_t generation);
void shm_given_free(struct shm_given *g);
bool shm_withdraw(struct sl_transport *t, const struct sl_region *r, uint64_t *asked_ns);

/* retained_mapping.c */

/* Made with its connection, so that a lack of memory cannot end a fence. -ENOMEM. */
int shm_retained_create(struct shm_transport *t, struct shm_retained **out);
/* Keep watching a peer that still has regions of ours; takes what it is given, and ends itself.
 * sock may be closed already. [token] */
void shm_retained_begin(struct shm_retained *g, struct sl_source *sock, struct sl_source *pid,
			struct shm_given *given);
void shm_retained_destroy(struct shm_retained *g);
void shm_retained_forget(struct shm_retained *g); /* in a child after fork */

#endif
