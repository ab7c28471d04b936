/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of nodes of a Redis Cluster about where data are: plain data in, plain data out. */
#ifndef NANOCTRL_CLUSTER_H
#define NANOCTRL_CLUSTER_H

#include <stdint.h>

#define CLUSTER_SLOTS	  16384
#define CLUSTER_NODES_MAX 64 /* that are remembered */
#define CLUSTER_HOST_MAX  256

struct redisReply;

struct cluster_node {
	char host[CLUSTER_HOST_MAX]; /* "": none */
	uint16_t port;
};

struct cluster_map {
	struct cluster_node owner; /* of the slot asked for */
	struct cluster_node nodes[CLUSTER_NODES_MAX];
	unsigned n;
};

/*
 * Of an answer to CLUSTER SLOTS: the node that has the slot, and the nodes that can be asked. from
 * is the host that answered: it stands for nodes whose host it does not name. -EPROTO: it is no
 * such answer.
 */
int cluster_read_slots(const struct redisReply *reply, unsigned slot, const char *from,
		       struct cluster_map *out);

enum cluster_redirect {
	CLUSTER_STAY,  /* the error is another one, or of another slot */
	CLUSTER_MOVED, /* the slot is at another node */
	CLUSTER_ASK,   /* the slot is on its way to another node */
};

/* Of an error: "MOVED SLOT [HOST]:PORT", or with ASK. to is empty when the error has no address. */
enum cluster_redirect cluster_read_redirect(const char *error, unsigned slot, const char *from,
					    struct cluster_node *to);

#endif
