/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context is the root of everything: it owns progress, the listeners of its transports and the
 * table of its memory regions. A process usually has one for each NUMA node it works on, or just
 * one.
 *
 * Progress. At any moment at most one thread makes progress for a context: a thread inside
 * slime_op_wait(), a caller of slime_context_poll(), or the context's own thread, which makes way
 * for the others and takes over when they stop. Callbacks and inline handlers run on that
 * thread, with no lock of the library held; they may submit, and destroy their own op; they must
 * not block, and a wait inside one answers -EDEADLK.
 */
#ifndef SLIME_CONTEXT_H
#define SLIME_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <slime/export.h>

SLIME_BEGIN_DECLS

struct slime_context;

enum slime_polling {
	SLIME_POLLING_ADAPTIVE, /* spin for a budget after the last event, then sleep */
	SLIME_POLLING_BUSY,	/* never sleep */
	SLIME_POLLING_EVENT,	/* sleep as soon as there is nothing to do */
};

enum slime_transport {
	SLIME_TRANSPORT_NONE,
	SLIME_TRANSPORT_SHM,
	SLIME_TRANSPORT_TCP,
	SLIME_TRANSPORT_RDMA,
	SLIME_TRANSPORT_MAX,
};

/* "shm", "tcp", "rdma"; "none" for everything else. */
SLIME_API const char *slime_transport_name(enum slime_transport transport);

/* The transport of that name, or SLIME_TRANSPORT_NONE. */
SLIME_API enum slime_transport slime_transport_by_name(const char *name);

/*
 * Which ports of two ends make a rail: those that agree in this. Where several have the same, as on
 * one NUMA node, the first goes with the first, and so on; those without a partner are not used.
 * When no port agrees with one of the peer's, all go together in the order of rdma_devices.
 */
enum slime_rdma_pair {
	SLIME_RDMA_PAIR_POSITION, /* their place in rdma_devices */
	SLIME_RDMA_PAIR_NUMA,	  /* the NUMA node of the device, where unknown is one, too */
	SLIME_RDMA_PAIR_NAME,	  /* the device's name, of which 16 bytes count, and the port */
};

/*
 * Over shm: whether links reach regions whose memory is not from slime_mem_alloc(), as that of an
 * engine with an allocator of its own. It is copied by process_vm_readv/writev, which is slower for
 * small transfers than memory that the peer maps, and the kernel may forbid it. Both ends must be
 * processes of one user, and regions that are restricted (slime/mr.h) are never reached this way.
 */
enum slime_foreign {
	SLIME_FOREIGN_AUTO,    /* where the peer does not say off; tried when a link comes up, and
				* slime_endpoint_info() says what came of it. Where it failed, ops on
				* such memory are -EOPNOTSUPP at submit, and the log has the cure */
	SLIME_FOREIGN_REQUIRE, /* a link where it does not work in both directions passes shm over
				* and takes its next transport */
	SLIME_FOREIGN_OFF,     /* never, in either direction */
};

struct slime_context_attr {
	enum slime_polling polling;
	uint32_t spin_us; /* adaptive: how long to spin after the last event, and less when waits
			   * are much longer anyhow; more than a wake-up takes, or two ends that
			   * answer each other both fall asleep for ever */
	bool manual; /* no thread of our own: nothing moves unless the caller waits or polls; peers
		      * see stalls meanwhile, which they never take for death */
	int cpu;     /* CPU for the progress thread, -1 for any */
	uint32_t max_regions;		   /* local regions at one time */
	uint32_t max_endpoints;		   /* endpoints at one time */
	enum slime_foreign foreign_memory; /* shm: memory that is not from slime_mem_alloc() */
	const char *shm_users; /* other users whose processes may be peers over shm, by number:
				* "1000,1001"; both ends name the other's. NULL: none, not even
				* root */
	const char *tcp_bind;  /* numeric address the tcp listener binds, NULL for 127.0.0.1; "" for
				  no listener: links whose other end initiates, which is chance, do
				  not come up over tcp then */
	uint16_t tcp_port;     /* of the listener; 0: a free one */
	uint16_t tcp_port_last; /* the listener takes the first free port from tcp_port to this one;
				 * 0: tcp_port alone */
	const char *tcp_advertise;    /* numeric address peers connect to; needed when tcp_bind is a
					 wildcard */
	uint32_t tcp_streams;	      /* streams per link, 1 to 16 */
	uint32_t tcp_user_timeout_ms; /* a peer that acknowledges nothing for so long is dead */
	uint32_t shm_copy_in_submit;  /* bytes a submit copies at most before the rest is left to
					 progress */
	uint64_t max_bandwidth; /* bits per second that all endpoints together move at most, as that
				 * of struct slime_endpoint_attr; 0: no cap */
	uint32_t rpc_workers; /* threads for pool handlers; 0 until the first pool method, then 1 */

	/* rdma: the devices that links use, as rails, "mlx5_0,mlx5_1:2" (a port's number behind a
	 * colon, else 1), at most SLIME_RAILS_MAX; "all": each port of the host that can be used,
	 * those that are up first if there are more; NULL: the first that can be used, and another
	 * one while that is down. Opened with the first endpoint that may use them: all that are
	 * named, or it is an error. Links are made over those whose port is up. */
	const char *rdma_devices;
	enum slime_rdma_pair rdma_pair; /* of links with several rails; the same at both ends */
	int rdma_gid_index;    /* in each port's table; -1: chosen, and the choice logged */
	uint32_t rdma_qps;     /* queue pairs per rail and link, 1 to 8 */
	uint32_t rdma_timeout; /* a packet not acknowledged in 4.096 us * 2^this is sent again; 1
				* to 31 */
	uint32_t rdma_retry_count;   /* so often, then the peer is gone: 0 to 7; with the defaults
				      * after 0.5 s on most devices, which may take up to four times
				      * the timeout each time. soft-RoCE takes 7 as for ever */
	uint32_t rdma_rnr_retry;     /* the same when it has no receive posted, 0 to 7; 7 is for
				      * ever */
	uint32_t rdma_min_rnr_timer; /* wait before such a retry, as InfiniBand encodes it, 0 to 31:
				      * 12 is 0.64 ms */
	uint32_t rdma_service_level; /* 0 to 15 */
	uint32_t rdma_traffic_class; /* 0 to 255: DSCP and ECN of RoCE v2 */
	uint32_t rdma_hop_limit;     /* 1 to 255 */
	uint32_t rdma_pkey_index;    /* in each port's table */
	uint32_t rdma_flow_label;    /* 20 bits */
	uint64_t rdma_chunk; /* a longer region is registered in chunks of so many bytes or more, by
			      * several threads: a power of two from 4096; at most 64 chunks */
};

#define SLIME_CONTEXT_ATTR_INIT                                                                    \
	{                                                                                          \
		.polling = SLIME_POLLING_ADAPTIVE, .spin_us = 100, .cpu = -1, .max_regions = 1024, \
		.max_endpoints = 1024, .tcp_streams = 4, .tcp_user_timeout_ms = 2000,              \
		.shm_copy_in_submit = 1048576, .rdma_gid_index = -1, .rdma_qps = 1,                \
		.rdma_timeout = 14, .rdma_retry_count = 6, .rdma_rnr_retry = 6,                    \
		.rdma_min_rnr_timer = 12, .rdma_hop_limit = 64, .rdma_chunk = UINT64_C(1) << 30,   \
	}
/* The same at run time: for C++, whose aggregates have no such initialiser, and other languages.
 * Each struct with an initialiser has such a function beside it. */
SLIME_API void slime_context_attr_init(struct slime_context_attr *attr);

/*
 * Create a context; attr NULL means the defaults. The strings in attr are copied.
 *   -EINVAL  a value is out of its range; the log line names it
 *   -EADDRINUSE, -EADDRNOTAVAIL, -EACCES  the tcp listener's address
 *   -EMFILE, -ENOMEM
 */
SLIME_API SLIME_CHECKED int slime_context_create(const struct slime_context_attr *attr,
						 struct slime_context **out);

/*
 * Destroy a context. All that was made of it must have been destroyed, and requests answered.
 * -EBUSY when one has not, and nothing changed; also when a device has not let go of the memory of
 * long calls within tcp_user_timeout_ms, which is waited for: try again. -EDEADLK inside a callback
 * or inline handler. destroy(NULL) is 0.
 */
SLIME_API int slime_context_destroy(struct slime_context *ctx);

/*
 * Make what progress there is now, without sleeping. Returns the number of events handled, 0 when
 * there was none or another thread is at it, -EDEADLK inside a callback.
 */
SLIME_API int slime_context_poll(struct slime_context *ctx);

/*
 * A descriptor for poll(2)/epoll: readable when slime_context_next() has something, and, for a
 * manual context, also when slime_context_poll() has. It belongs to the context. A manual one is
 * armed before each sleep on it; other threads may wait for ops and calls meanwhile, but not poll:
 * while one does it makes the progress, and the descriptor is readable again when it is done:
 *
 *	while (slime_context_poll(ctx) > 0 || slime_context_arm(ctx) == -EAGAIN)
 *		;
 *	poll(&fd, 1, -1);
 *
 * -EPERM in a child after fork().
 */
SLIME_API int slime_context_fd(struct slime_context *ctx);

/* Manual contexts: 0 when armed, or while another thread waits and does the work; -EAGAIN when
 * there is work already. */
SLIME_API SLIME_CHECKED int slime_context_arm(struct slime_context *ctx);

struct slime_call;
struct slime_op;
struct slime_rpc_request;

enum slime_event_kind {
	SLIME_EVENT_OP = 1,  /* an op with SLIME_OP_QUEUED completed */
	SLIME_EVENT_CALL,    /* a call with SLIME_CALL_QUEUED ended */
	SLIME_EVENT_REQUEST, /* a peer calls a method with SLIME_RPC_QUEUED */
};

struct slime_event {
	enum slime_event_kind kind;
	union {
		struct slime_op *op;
		struct slime_call *call;
		struct slime_rpc_request *request;
	};
};

/*
 * Take the next event of what was created to be queued: so a program without callbacks waits and
 * serves. An op or call is pending until it was taken; a request has to be answered from then on.
 * Requests whose deadline passed, or whose caller gave up, are answered here and not handed out.
 * False: there is none now. Any thread.
 */
SLIME_API SLIME_CHECKED bool slime_context_next(struct slime_context *ctx, struct slime_event *out);

SLIME_END_DECLS

#endif
