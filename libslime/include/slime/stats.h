/* SPDX-License-Identifier: Apache-2.0 */
/* Counters, taken by value. They are relaxed: exact when nothing runs, close while it does. */
#ifndef SLIME_STATS_H
#define SLIME_STATS_H

#include <stddef.h>
#include <stdint.h>
#include <slime/context.h>
#include <slime/export.h>

SLIME_BEGIN_DECLS

struct slime_context;
struct slime_endpoint;

enum slime_op_kind {
	SLIME_KIND_READ,
	SLIME_KIND_WRITE,
	SLIME_KIND_WRITE_IMM,
	SLIME_KIND_IMM_RECV,
	SLIME_KIND_SEND,
	SLIME_KIND_RECV,
	SLIME_KIND_CALL,  /* calls made */
	SLIME_KIND_SERVE, /* requests handled */
	SLIME_KIND_MAX,
};

/* "read", "write", "write_imm", ... */
SLIME_API const char *slime_op_kind_name(enum slime_op_kind kind);

struct slime_kind_stats {
	uint64_t submitted; /* of SLIME_KIND_SERVE: answered, well or not */
	uint64_t completed; /* with success */
	uint64_t failed;
	uint64_t bytes;	       /* of the completed ones */
	uint64_t failed_bytes; /* that failed reads and writes were to move */
};

struct slime_endpoint_stats {
	struct slime_kind_stats kinds[SLIME_KIND_MAX];
};

SLIME_API void slime_endpoint_stats(const struct slime_endpoint *ep,
				    struct slime_endpoint_stats *out);

/* ---- latency ---- */

/* Of so many operations of a kind, one of each endpoint is timed. */
#define SLIME_LATENCY_EVERY   64
#define SLIME_LATENCY_BUCKETS 23

/* Operations of one kind over one transport that were timed and succeeded. */
struct slime_latency {
	uint64_t n;
	uint64_t sum_ns;
	/* Those that took longer than the bound of the bucket before, and at most that of this one
	 * (slime_latency_bound_ns()); the last has no bound. */
	uint64_t counts[SLIME_LATENCY_BUCKETS];
};

/* From 250 ns to 5 s; UINT64_MAX for the last bucket. */
SLIME_API uint64_t slime_latency_bound_ns(unsigned bucket);

/*
 * How long operations of the context took since it was created, from submit to the end, also over
 * links that are gone: reads, writes, writes with an immediate, and calls. Of other kinds, which
 * wait for the program of the peer, and of unknown values all is 0.
 */
SLIME_API void slime_context_latency(const struct slime_context *ctx,
				     enum slime_transport transport, enum slime_op_kind kind,
				     struct slime_latency *out);

/* ---- RDMA devices ---- */

/* What a device tells without being asked; beside each, what follows from it. */
enum slime_device_event {
	SLIME_DEVICE_PORT_ACTIVE,    /* rails of the port are tried again */
	SLIME_DEVICE_PORT_ERROR,     /* other rails carry their share, as long as there are any */
	SLIME_DEVICE_ADDRESS_CHANGE, /* GID, LID or partition: links made from now on have the new
				      */
	SLIME_DEVICE_QP_ERROR,	     /* the rail, or the link, of the queue pair ends */
	SLIME_DEVICE_CQ_ERROR,	     /* completions are lost: the rails that use the queue end */
	SLIME_DEVICE_FATAL,	     /* all rails of the device end */
	SLIME_DEVICE_OTHER, /* nothing: the subnet manager changed, a limit was reached, ... */
	SLIME_DEVICE_EVENTS,
};

/* "port active", "port error", "address change", "qp error", "cq error", "fatal", "other". */
SLIME_API const char *slime_device_event_name(enum slime_device_event event);

struct slime_device_stats {
	char device[68]; /* "mlx5_0:1" with its port */
	uint64_t events[SLIME_DEVICE_EVENTS];
};

/*
 * What the ports that links of the context use have told since it was created: those of a device
 * come to each of its ports, those of a port to that one. Writes at most cap of them and returns
 * how many there are, at most eight: 0 before anything was offered over rdma.
 */
SLIME_API size_t slime_context_device_stats(const struct slime_context *ctx,
					    struct slime_device_stats *out, size_t cap);

SLIME_END_DECLS

#endif
