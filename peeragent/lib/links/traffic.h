/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes that an agent has moved, by the NIC that moved them: a device of an RDMA connection,
 * else the transport. Operations are counted at a connection's first device, bytes of reads and
 * writes at the device of the rail that moved them. Counts never go back: connections that are gone
 * stay in them.
 */
#ifndef AGENT_TRAFFIC_H
#define AGENT_TRAFFIC_H

#include <stddef.h>
#include <stdint.h>
#include <slime/slime.h>

#define TRAFFIC_NICS_MAX 16
#define TRAFFIC_NIC_NAME 32

/* Of late: an average that forgets. */
struct traffic_rate {
	uint64_t bytes; /* at the last look */
	double gb_s;	/* 10^9 bytes a second */
};

struct traffic_nic {
	char name[TRAFFIC_NIC_NAME];
	struct slime_endpoint_stats sum; /* of all that is booked */
	uint64_t pending;		 /* operations, at the last look */
	struct traffic_rate rate;
};

struct traffic {
	struct traffic_nic nics[TRAFFIC_NICS_MAX];
	size_t n;
};

/* The transport and device of a connection, "" when there is none yet; and the address of the other
 * end. */
void traffic_local_nic(const struct slime_endpoint_info *info, char out[TRAFFIC_NIC_NAME]);
const char *traffic_remote_nic(const struct slime_endpoint_info *info);

/* The counts of one connection that are booked; all zero at its beginning. */
struct traffic_booked {
	struct slime_endpoint_stats stats;
	uint64_t rails[SLIME_RAILS_MAX]; /* bytes of each */
};

/* Book what a connection did since the last time; rails may be none. */
void traffic_book(struct traffic *t, struct traffic_booked *booked, const char *nic,
		  const struct slime_endpoint_stats *stats, const struct slime_rail_info *rails,
		  size_t n_rails);
/* The same, of a connection as it is now. */
void traffic_book_endpoint(struct traffic *t, struct traffic_booked *booked,
			   const struct slime_endpoint *ep);

/* A look: is told of each connection that lives, and ends elapsed_ns after the one before it. */
void traffic_look_begin(struct traffic *t);
void traffic_look_pending(struct traffic *t, const char *nic, uint64_t pending);
void traffic_look_end(struct traffic *t, uint64_t elapsed_ns);

/* Bytes of what moves data; messages are counted as posted only. */
uint64_t traffic_bytes(const struct slime_endpoint_stats *stats);
void traffic_rate_step(struct traffic_rate *rate, uint64_t bytes, uint64_t elapsed_ns);
void traffic_sum(struct slime_endpoint_stats *sum, const struct slime_endpoint_stats *stats);

#endif
