/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An RDMA device in memory behind libibverbs' symbols: a program that links it runs its verbs on
 * it, unchanged. Reliable connected queue pairs of all contexts of the process reach each other by
 * GID or LID over one fabric; memory regions, completion queues, shared receive queues, completion
 * channels and asynchronous events behave as <infiniband/verbs.h> and the InfiniBand specification
 * say, the errors included, and where devices differ as the harsher of them does: a send queue
 * entry is free only when its completion was polled, queue pair numbers are used again at once and
 * are the same on each device, fields that a failed completion does not define hold garbage.
 *
 * What a user does wrong that a device would not tell (objects left behind, events never
 * acknowledged) is written to stderr and counted: fakeverbs_check().
 *
 * Any thread may call anything. Time is the clock's unless a test holds it.
 */
#ifndef TESTS_FAKEVERBS_H
#define TESTS_FAKEVERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#define FAKEVERBS_DEVICES 16
#define FAKEVERBS_PORTS	  2
#define FAKEVERBS_GIDS	  16
#define FAKEVERBS_PKEYS	  4

/* ---- what there is ---- */

struct fakeverbs_gid {
	union ibv_gid gid; /* all zero: no entry */
	enum ibv_gid_type type;
	uint32_t ndev_ifindex;
};

struct fakeverbs_port {
	uint8_t link_layer;
	bool grh_required; /* of InfiniBand, as virtual functions have it; RoCE always has one */
	enum ibv_port_state state;
	enum ibv_mtu max_mtu, active_mtu;
	uint16_t lid, sm_lid;
	uint32_t max_msg_sz; /* 0: it is not told, and there is no limit */
	uint8_t active_width, active_speed;
	uint16_t pkeys[FAKEVERBS_PKEYS];
	struct fakeverbs_gid gids[FAKEVERBS_GIDS];
};

struct fakeverbs_device {
	char name[IBV_SYSFS_NAME_MAX]; /* empty: there is no such device */
	char ibdev_path[IBV_SYSFS_PATH_MAX];
	enum ibv_node_type node_type;
	enum ibv_transport_type transport_type;
	uint64_t guid;
	char fw_ver[64];
	uint32_t vendor_id, vendor_part_id, hw_ver;
	uint8_t n_ports;
	struct fakeverbs_port ports[FAKEVERBS_PORTS]; /* [0] is port 1 */
	int max_qp, max_qp_wr, max_sge, max_sge_rd, max_cq, max_cqe, max_mr, max_pd;
	int max_srq, max_srq_wr, max_srq_sge;
	uint32_t max_inline;
	int max_rd_atomic;	/* that a queue pair may answer at a time */
	int max_init_rd_atomic; /* that it may have under way */
	uint64_t max_mr_size;
	uint64_t max_pinned; /* bytes of all regions, as RLIMIT_MEMLOCK bounds them */
	int n_comp_vectors;
	struct ibv_odp_caps odp_caps;
	int dmabuf_errno;	    /* of ibv_reg_dmabuf_mr; 0: a memfd is taken for a dmabuf */
	bool has_peer_memory;	    /* device memory can be registered by its address */
	bool retries_for_ever_at_7; /* retry_cnt 7 never gives up, as soft-RoCE has it */
	bool forgets_completions;   /* of a queue pair that is destroyed or reset, as mlx5 has it */
	bool responder_stays;	    /* a remote access error leaves the responder as it is */
	bool grants_more;	    /* capabilities of queues are rounded up */
	bool cannot_reset;	    /* a queue pair that is to be reset goes to the error state, for
				       good, as irdma has it */
	bool refuses_in_error; /* requests that are posted to a queue pair in the error state, as
				  bnxt_re has it */
};

/*
 * Forget everything: two RoCE devices, "fake0" and "fake1", one active port each with a link-local
 * and an IPv4-mapped GID, both as RoCE v1 and v2 (index 3 is v2 of 10.88.0.1 and 10.88.0.2);
 * nothing held, delayed, counted or made to fail. No device may be open.
 */
void fakeverbs_reset(void);

/* The i-th device, to be changed before it is opened. */
struct fakeverbs_device *fakeverbs_device(unsigned i);

/* Make its first port InfiniBand: this LID, this subnet, one GID. */
void fakeverbs_make_infiniband(unsigned i, uint16_t lid, uint64_t subnet_prefix);

/* An address as a GID: "fe80::1", "10.0.0.1" (IPv4-mapped). */
union ibv_gid fakeverbs_gid(const char *address);

/* ibv_is_fork_initialized() says this. */
void fakeverbs_set_fork_status(enum ibv_fork_status status);

/* addr is memory of a GPU: the process cannot touch it, its bytes are at backing. */
void fakeverbs_add_device_memory(void *addr, size_t len, void *backing);

/* ---- faults and events ---- */

/* With the event PORT_ACTIVE or PORT_ERR. Packets over a port that is not active are lost. */
void fakeverbs_set_port_state(unsigned device, uint8_t port, enum ibv_port_state state);

/* Change or clear (gid NULL) an entry, with the event GID_CHANGE. */
void fakeverbs_set_gid(unsigned device, uint8_t port, unsigned index, const union ibv_gid *gid,
		       enum ibv_gid_type type);

/* Packets between the two devices are lost. */
void fakeverbs_set_cut(unsigned a, unsigned b, bool cut);

/* DEVICE_FATAL: queue pairs are flushed, then calls fail with EIO; destroying works. */
void fakeverbs_kill_device(unsigned device);

/* The same of one that was pulled out, as libibverbs tells it: an object is destroyed, and the call
 * says EIO. The event is another's to raise, before or after. */
void fakeverbs_remove_device(unsigned device);

/* Its event descriptors are in error for ever (POLLERR), as the kernel tells of it in that case.
 * For who has one watched already it is closed. No event is raised any more. */
void fakeverbs_end_events(unsigned device);

/* It is there again, for who opens it now: nobody has it open. */
void fakeverbs_revive_device(unsigned device);

/* An event of a port (or the device), or of a queue pair: QP_FATAL, PATH_MIG_ERR, ... The fatal
 * ones put the queue pair in error. */
void fakeverbs_raise(unsigned device, enum ibv_event_type type, uint8_t port);
void fakeverbs_raise_qp(unsigned device, uint32_t qp_num, enum ibv_event_type type);

/* CQ_ERR of the completion queue of that queue pair: it tells of nothing any more. */
void fakeverbs_break_cq(unsigned device, uint32_t qp_num);
/* The same of one that no queue pair has yet. */
void fakeverbs_break_new_cq(struct ibv_cq *cq);

/* Numbers of the queue pairs there are, oldest first; returns how many, also beyond cap. */
size_t fakeverbs_qps(unsigned device, uint32_t *qp_nums, size_t cap);

/* Nothing happens on the queue pair, as requester and for its flush, until it is let go. */
void fakeverbs_hold_qp(unsigned device, uint32_t qp_num, bool held);

/* The queue pair's next completion is lost, or comes twice. */
void fakeverbs_drop_completion(unsigned device, uint32_t qp_num);
void fakeverbs_duplicate_completion(unsigned device, uint32_t qp_num);

/* So many requests of the queue pair arrive, and their acknowledgements are lost: each is sent
 * again after the timeout, as often as its retries allow, and the responder knows it for one that
 * it had.
 */
void fakeverbs_lose_acks(unsigned device, uint32_t qp_num, unsigned n);

/* ---- time ---- */

/* Each request takes from min_ns to max_ns to its target and again to its completion, in order
 * within its queue pair only; a flush takes as long. 0, 0: everything happens inside the post. */
void fakeverbs_set_delay(uint64_t min_ns, uint64_t max_ns, uint64_t seed);

/* Time stands still unless the test moves it. */
void fakeverbs_hold_time(bool held);
/* What is due until then happens, in its order. */
void fakeverbs_advance(uint64_t ns);
/* On to the next moment at which something is due; false: there is none. */
bool fakeverbs_step(void);

/* ---- calls ---- */

enum fakeverbs_call {
	/* May be made to fail. */
	FAKEVERBS_GET_DEVICE_LIST,
	FAKEVERBS_OPEN_DEVICE,
	FAKEVERBS_QUERY_DEVICE,
	FAKEVERBS_QUERY_PORT,
	FAKEVERBS_QUERY_GID,
	FAKEVERBS_QUERY_PKEY,
	FAKEVERBS_ALLOC_PD,
	FAKEVERBS_REG_MR,
	FAKEVERBS_REG_DMABUF_MR,
	FAKEVERBS_ADVISE_MR,
	FAKEVERBS_CREATE_COMP_CHANNEL,
	FAKEVERBS_CREATE_CQ,
	FAKEVERBS_REQ_NOTIFY_CQ,
	FAKEVERBS_CREATE_SRQ,
	FAKEVERBS_MODIFY_SRQ,
	FAKEVERBS_QUERY_SRQ,
	FAKEVERBS_CREATE_QP,
	FAKEVERBS_MODIFY_QP,
	FAKEVERBS_QUERY_QP,
	FAKEVERBS_POST_SEND,
	FAKEVERBS_POST_RECV,
	FAKEVERBS_POST_SRQ_RECV,
	FAKEVERBS_FORK_INIT,
	/* Fail only when asked for by name. */
	FAKEVERBS_POLL_CQ, /* with completions in it, which are lost */
	FAKEVERBS_GET_CQ_EVENT,
	FAKEVERBS_GET_ASYNC_EVENT,
	FAKEVERBS_CLOSE_DEVICE,
	FAKEVERBS_DEALLOC_PD,
	FAKEVERBS_DEREG_MR,
	FAKEVERBS_DESTROY_COMP_CHANNEL,
	FAKEVERBS_DESTROY_CQ,
	FAKEVERBS_DESTROY_SRQ,
	FAKEVERBS_DESTROY_QP,
	FAKEVERBS_CALLS,
};

#define FAKEVERBS_ANY FAKEVERBS_POLL_CQ /* of those before it */

/* The n-th call from now fails with that errno, of any kind that may fail or of one kind; n from 1.
 */
void fakeverbs_fail_call(unsigned n, int err);
void fakeverbs_fail_call_of(enum fakeverbs_call kind, unsigned n, int err);
/* Whether it did; then the next is not failed any more. */
bool fakeverbs_failed(void);
/* What failed, for a test to say. */
const char *fakeverbs_call_name(enum fakeverbs_call kind);
enum fakeverbs_call fakeverbs_failed_call(void);

struct fakeverbs_counts {
	uint64_t calls[FAKEVERBS_CALLS];
	uint64_t send_wrs, recv_wrs; /* accepted */
	uint64_t signaled, inlined;  /* of the send_wrs */
	uint64_t completions;	     /* given to a poll */
	uint64_t empty_polls;
	uint64_t busy_arms; /* of a queue with completions in it */
	uint64_t cq_events;
	uint64_t rnr_naks;
	uint64_t lost;	     /* packets that nobody answered */
	uint64_t duplicates; /* requests that their responder had before */
	uint64_t bytes;
};

/* Since the last reset of the counts (or of everything). */
struct fakeverbs_counts fakeverbs_counts(void);
void fakeverbs_reset_counts(void);

/* How long destroying waits for events that were taken and not acknowledged; 10 s unless told. */
void fakeverbs_set_patience(unsigned ms);

/*
 * Objects that exist and wrong uses so far, each with a line on stderr: 0 at the end of a test
 * whose code cleaned up. Wrong uses are forgotten once told.
 */
unsigned fakeverbs_check(void);

#endif
