/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An endpoint is the local end of a link to one peer. Standing alone, a link is made in three steps
 * at both ends: export a descriptor, give it to the peer over any channel that keeps a secret,
 * connect with the peer's. An endpoint lives for one connection: after a failure it is destroyed
 * and another is made.
 */
#ifndef SLIME_ENDPOINT_H
#define SLIME_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <slime/context.h>
#include <slime/export.h>

SLIME_BEGIN_DECLS

struct slime_endpoint;
struct slime_op;

enum slime_endpoint_state {
	SLIME_ENDPOINT_IDLE, /* created; not connecting yet */
	SLIME_ENDPOINT_CONNECTING,
	SLIME_ENDPOINT_CONNECTED,
	SLIME_ENDPOINT_BROKEN, /* failed; cause says why */
	SLIME_ENDPOINT_CLOSED, /* closed by us or by the peer in order */
};

SLIME_API const char *slime_endpoint_state_name(enum slime_endpoint_state state);

/* Runs on the progress thread at each change of state but the one that slime_endpoint_connect()
 * makes; the endpoint may be closed here, not destroyed. */
typedef void slime_endpoint_fn(void *arg, struct slime_endpoint *ep,
			       enum slime_endpoint_state state, int cause);

struct slime_rpc_service;

struct slime_endpoint_attr {
	const char *name; /* in log lines; copied; NULL: a number */
	enum slime_transport
		transports[SLIME_TRANSPORT_MAX]; /* in order of preference; none: shm, rdma, tcp */
	uint32_t max_pending_ops;		 /* submitted and not complete */
	slime_endpoint_fn *on_state;		 /* NULL: none */
	void *arg;
	struct slime_rpc_service *service; /* methods offered to the peer, of the same context;
					      NULL: none; outlives the endpoint */
	bool isolated; /* rdma: protection domains of its own, so that its peer reaches only regions
			* that it asked for over this link, and may reach restricted regions
			* (slime/mr.h). Every region that is used over it is registered again, and
			* counts again as locked memory. Other endpoints share their domains. */
	/* rdma; of two ends the smaller number of queue pairs and of rails counts, and the larger
	 * bandwidth. */
	uint32_t rdma_qps;   /* queue pairs of each rail, 1 to 8; 0: rdma_qps of the context */
	uint32_t rdma_rails; /* at most so many rails, the first ones; 0: all */
	/* Ports of ours, of the peer's, by the names that each host has for them:
	 * "mlx5_0,mlx5_1:2", a device without a port's number means all its ports. The link uses no
	 * others; NULL: any. If an end names ports of its peer, the first port of either list is a
	 * rail, and so on. Ours have to be among rdma_devices of the context. Both are copied. */
	const char *rdma_devices;
	const char *rdma_peer_devices;
	/* Bits per second: the sum of the link speeds of the rails, each of its slower port. With
	 * less there is no link over rdma. 0: any */
	uint64_t rdma_min_bandwidth;
	/* Bits per second that reads and writes of this end move at most, with those that fetch
	 * long messages and requests, and bring long replies; over every transport. What is above
	 * waits its time, which takes no CPU. Short messages, and what the peer reads and writes,
	 * are not counted. 0: no cap */
	uint64_t max_bandwidth;
	bool quiet; /* logs at debug level that it is connected, failed or was lost: for programs
		     * that log it themselves in on_state */
};

#define SLIME_ENDPOINT_ATTR_INIT         \
	{                                \
		.max_pending_ops = 65536 \
	}
SLIME_API void slime_endpoint_attr_init(struct slime_endpoint_attr *attr);

/*
 * Create an endpoint, which is idle; attr NULL means the defaults.
 *   -EINVAL  a value is out of range, the service is of another context, or a list of ports is
 *            malformed
 *   -ENOTSUP  a transport that this build lacks
 *   -ENOSPC  max_endpoints is reached         -ENOMEM
 */
SLIME_API SLIME_CHECKED int slime_endpoint_create(struct slime_context *ctx,
						  const struct slime_endpoint_attr *attr,
						  struct slime_endpoint **out);

#define SLIME_ENDPOINT_DESC_MAX 4096

/*
 * Write the descriptor the peer needs to connect: at most SLIME_ENDPOINT_DESC_MAX bytes, for this
 * peer only, a secret. Returns its length, or -ENOSPC. The endpoint's first export, or connect,
 * may take as long as opening the context's RDMA devices does, and closing those that failed.
 */
SLIME_API SLIME_CHECKED int slime_endpoint_export(struct slime_endpoint *ep, void *buf, size_t cap);

/*
 * Connect to the endpoint that desc describes, whose owner does the same with ours. op completes
 * with 0 when both ends are ready, or with the cause:
 *   -ETIMEDOUT     the peer did not answer within timeout_ms
 *   -ECONNREFUSED  the peer refused, or none of the transports both allow came up; the log has each
 *                  one's reason
 *   -EPROTO        the peer speaks another protocol version or broke it
 *   -EACCES        the peer could not prove that it holds our descriptor
 *   -ECANCELED     the endpoint was closed
 * The call itself, which may take as long as slime_endpoint_export():
 *   -EINVAL    malformed descriptor, or our own; op is of another context
 *   -EBUSY     op is pending
 *   -EALREADY  connect was called before            -ENOTCONN  closed before
 */
SLIME_API SLIME_CHECKED int slime_endpoint_connect(struct slime_endpoint *ep, const void *desc,
						   size_t len, int64_t timeout_ms,
						   struct slime_op *op);

/*
 * Close: new operations fail with -ENOTCONN, pending ones complete with -ECANCELED. The peer is
 * told and sees SLIME_ENDPOINT_CLOSED; what it has pending completes with -ECONNRESET. Returns at
 * once; the state says when it is done. Closing twice is harmless.
 */
SLIME_API void slime_endpoint_close(struct slime_endpoint *ep);

/*
 * Close if need be, wait for the end of it and for pool handlers that run, free. Every op and call
 * of it has completed when this returns. -EDEADLK inside a callback, an inline handler, or a pool
 * handler of this endpoint. destroy(NULL) is 0.
 */
SLIME_API int slime_endpoint_destroy(struct slime_endpoint *ep);

/* Why there is no link, in words: room for all that each transport may say, and rdma of its rails,
 * of which it may leave out the last. */
#define SLIME_CAUSE_TEXT_MAX 1024

struct slime_endpoint_info {
	enum slime_endpoint_state state;
	int cause; /* negative errno once broken, else 0 */
	char cause_text[SLIME_CAUSE_TEXT_MAX];
	enum slime_transport transport;
	uint64_t epoch;	  /* of the connection: both ends' incarnations and a counter */
	uint64_t peer;	  /* the peer's context */
	char address[80]; /* what the transport connected to, for people */
	uint32_t pending_ops;
	uint64_t
		max_bandwidth; /* bits per second: the lower cap of endpoint and context; 0: none */
	/* While connected: whether our order of transports counted, while the peer waited on all
	 * that it allows, or the peer's; and why those that stand before this one in our order are
	 * not in use, as far as this end knows: "shm: ...; rdma: ...". */
	bool own_order;
	char passed_over[SLIME_CAUSE_TEXT_MAX];
	/* From the first export or connect on: why none of the transports that the endpoint may use
	 * can be had on this host, "rdma: ...; tcp: ..."; "" when one of them can. */
	char no_transport[SLIME_CAUSE_TEXT_MAX];
	/* While connected: whether ops reach regions of the peer whose memory is not from
	 * slime_mem_alloc(), and why not: "" when they do. */
	bool foreign_memory;
	char no_foreign_memory[128];
	/* While connected over rdma: how many rails the link has, which slime_endpoint_rails()
	 * tells one by one, queue pairs of each, and the sum of their link speeds. */
	uint32_t n_rails, n_qps;
	uint64_t bandwidth; /* bits per second */
};

SLIME_API void slime_endpoint_info(const struct slime_endpoint *ep,
				   struct slime_endpoint_info *out);

/* ---- rails ---- */

enum slime_rail_state {
	SLIME_RAIL_UP,	     /* it carries its share */
	SLIME_RAIL_STOPPING, /* it failed; the ends agree on it, then its work moves to the others
			      */
	SLIME_RAIL_DOWN,     /* the others carry its share; it is tried again and again */
	SLIME_RAIL_RISING,   /* it is being set up anew */
};

SLIME_API const char *slime_rail_state_name(enum slime_rail_state state);

#define SLIME_RAILS_MAX 8

struct slime_rail_info {
	enum slime_rail_state state;
	char device[64];     /* ours, as "mlx5_0:1" with its port */
	char peer[64];	     /* the peer's, by its own name for it */
	uint32_t n_qps;	     /* its queue pairs */
	uint64_t bandwidth;  /* link speed of the slower port, bits per second; 0: unknown */
	uint32_t share;	     /* of a large batch, in thousandths: as fast as it has been of late */
	uint32_t n_failures; /* how often it failed since the link came up */
	uint64_t bytes;	     /* of our reads and writes that it moved since then */
	char error[128];     /* what it failed with last, "" if never */
	char why[256];	     /* why these two ports, and why this address of ours, for people */
};

/*
 * Explain the rails of a connected rdma link, in an order that both ends share. Writes at most cap
 * of them and returns how many there are: 0 on other transports, and when not connected.
 */
SLIME_API size_t slime_endpoint_rails(const struct slime_endpoint *ep, struct slime_rail_info *out,
				      size_t cap);

SLIME_END_DECLS

#endif
