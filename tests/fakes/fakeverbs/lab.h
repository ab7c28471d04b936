/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of fakeverbs share: the objects, all under one lock, and who does what. */
#ifndef FAKEVERBS_LAB_H
#define FAKEVERBS_LAB_H

#include <pthread.h>

#include "base/list.h"
#include "tests/fakes/fakeverbs.h"

#define FV_QPS	     4096 /* of a device; QPN is FV_FIRST_QPN and on */
#define FV_MRS	     65536
#define FV_SGES	     32
#define FV_EVENTS    256
#define FV_NEVER     UINT64_MAX
#define FV_PSN_MASK  0xffffffu
#define FV_FIRST_QPN 0x11u
#define FV_REPLIES   16 /* of atomics, that a responder remembers */

/* ---- objects ---- */

enum fv_kind { FV_PD, FV_MR, FV_CHANNEL, FV_CQ, FV_SRQ, FV_QP, FV_KINDS };

/* In every object: who made it, and who still uses it. */
struct fv_object {
	struct sl_list node; /* of its context */
	enum fv_kind kind;
	unsigned long nr; /* in the order of creation, for the reports */
	unsigned n_users;
	unsigned n_async; /* events taken and not acknowledged */
};

struct fv_qp;

struct fv_device {
	struct ibv_device ibv; /* what the list gives */
	struct fakeverbs_device is;
	unsigned index;
	bool dead;
	bool removed; /* and what is destroyed went with it before */
	uint64_t pinned;
	struct sl_list contexts;
	struct fv_qp *qps[FV_QPS];
	struct fv_mr *mrs[FV_MRS];
	uint8_t mr_tags[FV_MRS];
	unsigned last_mr;
	int n_objects[FV_KINDS];
	bool cut[FAKEVERBS_DEVICES]; /* from these devices */
};

struct fv_context {
	struct sl_list node; /* of its device */
	struct fv_device *dev;
	struct sl_list objects;
	struct ibv_async_event events[FV_EVENTS]; /* a ring */
	unsigned n_raised, n_taken;
	struct verbs_context verbs; /* what the user has points into it */
};

struct fv_pd {
	struct ibv_pd ibv;
	struct fv_object obj;
};

struct fv_mr {
	struct ibv_mr ibv;
	struct fv_object obj;
	uint64_t iova;
	uint8_t *base; /* where the bytes are */
	unsigned access;
	void *map; /* of a dmabuf */
	size_t map_len;
};

struct fv_channel {
	struct ibv_comp_channel ibv;
	struct fv_object obj;
	struct sl_list cqs;
};

struct fv_cqe {
	struct ibv_wc wc;
	struct fv_qp *qp; /* NULL once it is gone */
	struct fv_srq *srq;
	uint64_t sq_free; /* the send queue is free below that index once this was polled */
	bool is_recv;
};

struct fv_cq {
	struct ibv_cq ibv;
	struct fv_object obj;
	struct sl_list channel_node;
	struct fv_cqe *ring;
	uint64_t added, polled;
	bool overrun;
	enum { FV_UNARMED, FV_ARMED_SOLICITED, FV_ARMED } armed;
	unsigned n_pending;  /* events that nobody took */
	uint64_t pending_nr; /* when the first of them came */
	unsigned n_taken, n_acked;
};

struct fv_recv {
	uint64_t wr_id;
	int n_sge;
	struct ibv_sge *sge;
};

struct fv_rq {
	struct fv_recv *ring;
	struct ibv_sge *sges;
	uint32_t max_wr, max_sge;
	uint64_t posted, taken, freed; /* freed: their completions were polled */
};

struct fv_srq {
	struct ibv_srq ibv;
	struct fv_object obj;
	struct fv_rq rq;
	uint32_t limit;
};

struct fv_send {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	unsigned flags;
	__be32 imm;
	uint64_t remote_addr;
	uint32_t rkey;
	uint64_t compare_add, swap;
	int n_sge;
	struct ibv_sge *sge;
	uint8_t *inlined;
	uint64_t len;
	uint64_t due; /* to be executed, then to be completed */
	enum ibv_wc_status status;
};

struct fv_reply {
	uint32_t psn;
	uint64_t was; /* there, before the atomic */
};

struct fv_qp {
	struct ibv_qp ibv;
	struct fv_object obj;
	struct fv_device *dev;
	enum ibv_qp_state state; /* the real one: ibv.state is what the user moved it to */
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct fv_send *sq;
	struct ibv_sge *sges;
	uint8_t *inline_area;
	uint64_t posted, executed, completed, freed;
	struct fv_rq rq;
	uint32_t send_psn, expected_psn;
	struct fv_reply replies[FV_REPLIES]; /* a ring */
	unsigned n_replies;
	unsigned retries_left, rnr_left;
	unsigned n_reads;    /* executed and not completed */
	uint64_t wait_until; /* of a retry */
	uint64_t last_due;   /* of the youngest request, and of the youngest acknowledgement */
	uint64_t last_ack;
	uint64_t flush_at;
	uint64_t run_at;
	bool failing; /* a completion with an error is on its way */
	bool running; /* fv_qp_run() is in it */
	bool held, spoke, drained_told, last_wqe_told;
	unsigned n_drop, n_duplicate, n_lose_acks;
};

static inline struct fv_context *fv_context(struct ibv_context *ibv)
{
	return SL_CONTAINER_OF(ibv, struct fv_context, verbs.context);
}

/* The ibv object stands first in each. */
static inline struct fv_pd *fv_pd(struct ibv_pd *ibv)
{
	return (struct fv_pd *)(void *)ibv;
}

static inline struct fv_cq *fv_cq(struct ibv_cq *ibv)
{
	return (struct fv_cq *)(void *)ibv;
}

static inline struct fv_srq *fv_srq(struct ibv_srq *ibv)
{
	return (struct fv_srq *)(void *)ibv;
}

static inline struct fv_qp *fv_qp(struct ibv_qp *ibv)
{
	return (struct fv_qp *)(void *)ibv;
}

/* ---- lab.c: the lock, the devices, what is wrong ---- */

struct fv_lab {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* an event was acknowledged */
	struct fv_device devices[FAKEVERBS_DEVICES];
	struct sl_list orphans; /* contexts closed with objects in them */
	struct fakeverbs_counts counts;
	enum ibv_fork_status fork_status;
	unsigned long n_created;
	unsigned n_wrong;
	unsigned patience_ms; /* with events that are not acknowledged */
};

extern struct fv_lab fv_lab;

void fv_lock(void);
void fv_unlock(void);

/* The user did something wrong that a device would not tell. */
void fv_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));

void fv_object_add(struct fv_context *ctx, struct fv_object *obj, enum fv_kind kind);
void fv_object_remove(struct fv_context *ctx, struct fv_object *obj);
/* Wait, with the lock let go meanwhile, until *acked reaches taken; too long is wrong. */
void fv_await_acks(const unsigned *taken, const unsigned *acked, const char *what, uint32_t handle);

/* ---- call.c ---- */

/* Take the lock and count the call: 0, or the errno it fails with. dev NULL: of no device. */
int fv_enter(enum fakeverbs_call kind, const struct fv_device *dev);
void fv_leave(void);
/* What the call that destroys an object says, when it did. */
int fv_last_answer(const struct fv_context *ctx);

/* ---- clock.c ---- */

uint64_t fv_now(void);
/* A random delay of what tests asked for. */
uint64_t fv_delay(void);
/* Something is due then. */
void fv_clock_want(uint64_t at);
/* What is due happens: a device works also while the thread that comes for it gets no CPU. */
void fv_clock_catch_up(void);
/* The last device was closed: no thread is needed. Called without the lock. */
void fv_clock_stop(void);

/* ---- event.c ---- */

void fv_raise(struct fv_context *ctx, const struct ibv_async_event *event);
void fv_raise_port(struct fv_device *dev, enum ibv_event_type type, uint8_t port);
void fv_raise_qp(struct fv_qp *qp, enum ibv_event_type type);
/* An element that goes away takes its events along, and waits for those taken. */
void fv_events_forget(struct fv_context *ctx, struct fv_object *obj);
/* An eventfd counts what is there: one more; one less, if there is one. */
void fv_fd_add(int fd);
void fv_fd_remove(int fd);

/* ---- mr.c ---- */

/* len bytes at addr of the region behind key, or NULL: no such region, another protection domain,
 * out of its bounds, or not all of access allowed. */
uint8_t *fv_mr_at(struct fv_device *dev, const struct ibv_pd *pd, uint32_t key, uint64_t addr,
		  uint64_t len, unsigned access);

/* ---- cq.c ---- */

void fv_cq_overrun(struct fv_cq *cq);
void fv_cq_add(struct fv_cq *cq, const struct fv_cqe *cqe, bool solicited);
/* The queue pair goes away: its completions go too, or have no queue pair any more. */
void fv_cq_forget(struct fv_cq *cq, struct fv_qp *qp, bool drop);
int fv_poll_cq(struct ibv_cq *ibv, int n, struct ibv_wc *wc);
int fv_req_notify_cq(struct ibv_cq *ibv, int solicited_only);

/* ---- rq.c: a receive queue, of a queue pair or shared ---- */

int fv_rq_init(struct fv_rq *rq, uint32_t max_wr, uint32_t max_sge);
void fv_rq_fini(struct fv_rq *rq);
int fv_rq_post(struct fv_rq *rq, const struct ibv_recv_wr *wr);
struct fv_recv *fv_rq_take(struct fv_rq *rq);

int fv_post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
void fv_srq_took(struct fv_srq *srq);

/* ---- qp.c, modify.c, post.c ---- */

struct fv_qp *fv_qp_find(struct fv_device *dev, uint32_t qp_num);
/* To the error state: everything outstanding is flushed, at once or after a delay. */
void fv_qp_error(struct fv_qp *qp);
/* Back to what it was when created. */
void fv_qp_reset(struct fv_qp *qp);
int fv_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int fv_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* ---- run.c: what a queue pair does as time goes on ---- */

/* Everything that is due. */
void fv_qp_run(struct fv_qp *qp);
/* A receive completion. */
void fv_qp_received(struct fv_qp *qp, const struct fv_recv *r, const struct ibv_wc *wc,
		    bool solicited);

/* ---- wire.c: one request ---- */

enum fv_outcome {
	FV_DONE,
	FV_FAILED, /* send->status says how */
	FV_RNR,
	FV_LOST,
};

/* Carry it to its target; of reads and atomics only the request. */
enum fv_outcome fv_execute(struct fv_qp *qp, struct fv_send *s);
/* The answer of a read or atomic: the bytes move now. */
enum fv_outcome fv_answer(struct fv_qp *qp, struct fv_send *s);
/* Who is at the other end; NULL when no packet gets there. */
struct fv_qp *fv_peer(struct fv_qp *qp);

#endif
