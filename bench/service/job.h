/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One measurement between an agent and a peer of its: what to do, how it went, and both as bytes,
 * since the initiator can be another process than the one that prints (slime-bench --from).
 */
#ifndef BENCH_JOB_H
#define BENCH_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/load/rpc.h"
#include "bench/load/transfer.h"
#include <slime/agent.h>

#define BENCH_JOB_MAX	  2048 /* bytes of either */
#define BENCH_MESSAGE_MAX 200

/* So begin the profiles of links that are made for a measurement: the service touches no other. */
#define BENCH_PROFILE "bench-"

/* What the bench service of an agent offers. */
#define BENCH_REGION	     "bench"	   /* to be read: holds the pattern of LOAD_PATTERN_SEED */
#define BENCH_REGION_WRITE   "bench-write" /* to be written by whoever has claimed it */
#define BENCH_METHOD_RUN     "bench.run"
#define BENCH_METHOD_USAGE   "bench.usage"
#define BENCH_METHOD_CLAIM   "bench.claim"
#define BENCH_METHOD_DRAIN   "bench.drain"
#define BENCH_METHOD_DRAINED "bench.drained"
#define BENCH_METHOD_ECHO    "echo"
/* Of peeragent's echo service: the longest request that it takes, as a le64. */
#define BENCH_METHOD_ECHO_MAX "echo.max_message"

enum bench_kind {
	BENCH_RPC,
	BENCH_TRANSFER,
	BENCH_KINDS,
};

struct bench_job {
	enum bench_kind kind;
	char peer[SLIME_AGENT_NAME_MAX + 1];
	enum slime_transport transport;	       /* NONE: whichever the link gets */
	struct load_rpc rpc;		       /* its method is the runner's */
	struct load_transfer transfer;	       /* its seed and verify are */
	char region[SLIME_AGENT_NAME_MAX + 1]; /* transfer; "": the bench service's */
};

/* What a rail of the link did in the run, its warm-up included. */
struct bench_rail {
	char device[64]; /* the initiator's, with its port */
	char peer[64];
	enum slime_rail_state state; /* at the end */
	uint32_t n_failures;
	uint64_t bytes; /* that the initiator read or wrote over it */
};

struct bench_result {
	enum slime_transport transport; /* that it went over */
	uint64_t trips;			/* or calls */
	uint64_t bytes;
	uint64_t elapsed_ns;
	uint64_t cpu_ns;      /* of the initiator's process, for what is counted in bytes */
	uint64_t peer_cpu_ns; /* of the peer's, if has_peer_cpu */
	bool has_peer_cpu;
	bool verified; /* the bytes were checked, and right */
	uint64_t late; /* open loop: trips that began too late */
	uint64_t n;    /* latencies, of which the following are */
	uint64_t avg_ns;
	uint64_t min_ns;
	uint64_t p50_ns;
	uint64_t p99_ns;
	uint64_t p999_ns;
	uint64_t max_ns;
	unsigned n_rails; /* of a link over rdma */
	struct bench_rail rails[SLIME_RAILS_MAX];
};

/* Fill the figures of latencies. */
void bench_result_latency(struct bench_result *out, const struct load_histogram *h);

/* -ENOENT at once when no such agent is registered, with who is in message; else 0, also when
 * nanoctrl does not tell. */
int bench_check_registered(struct slime_agent *agent, const char *name,
			   char message[BENCH_MESSAGE_MAX]);

/* Why a link is not up, for people; the agent knows, as of a peer that has no transport in common
 * with it. err is what waiting for it said. */
void bench_explain_link(struct slime_agent *agent, const char *peer, const char *profile, int err,
			char message[BENCH_MESSAGE_MAX]);

/*
 * Run it as an agent of this process: brings up a link of its own to the peer, and takes it down
 * again. One at a time for an agent, a peer and a transport. latency, which may be NULL, gets all
 * that out has the percentiles of. -ENOENT at once when the peer is not registered, -ECANCELED soon
 * after control (NULL: none) asked to stop. On an error message says what went wrong, for people.
 */
int bench_job_run(struct slime_agent *agent, const struct bench_job *job,
		  const struct load_control *control, struct bench_result *out,
		  struct load_histogram *latency, char message[BENCH_MESSAGE_MAX]);

/*
 * Have the agent at the other end of ep run it; timeout_ms is for all of it. It ends there when ep
 * does. On an error, also of its, message says what.
 */
int bench_job_run_at(struct slime_agent *agent, struct slime_endpoint *ep,
		     const struct bench_job *job, int64_t timeout_ms, struct bench_result *out,
		     char message[BENCH_MESSAGE_MAX]);

/* As bytes: the length, or -ENOSPC. Readers take hostile bytes: -EINVAL. */
int bench_job_write(const struct bench_job *job, void *buf, size_t cap);
int bench_job_read(struct bench_job *job, const void *buf, size_t len);
int bench_result_write(const struct bench_result *r, void *buf, size_t cap);
int bench_result_read(struct bench_result *r, const void *buf, size_t len);

#endif
