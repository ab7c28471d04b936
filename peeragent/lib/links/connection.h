/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One attempt to connect, and the connection that comes of it: a libslime endpoint whose events
 * arrive on the loop. Retired, it lives on until no user holds its endpoint, and is destroyed by
 * the helper.
 */
#ifndef AGENT_CONNECTION_H
#define AGENT_CONNECTION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <slime/agent.h>

#include "peeragent/lib/loop/helper.h"
#include "nanoctrl/net/loop.h"

/* The cause of an end that the peer brought about in order. */
#define CONNECTION_CLOSED "closed by the peer"

enum connection_state { CONNECTION_OPENING, CONNECTION_UP, CONNECTION_DOWN };

struct connection;

/* On the loop, once for UP and once for DOWN; not after connection_retire(). */
typedef void connection_fn(void *arg, struct connection *c, enum connection_state state, int cause,
			   const char *text);

/* Connections of one agent, of all its links. */
struct connections {
	struct loop *loop;
	struct helper *helper;
	struct slime_context *ctx;
	struct slime_rpc_service *service;
	const bool *isolated; /* as of slime_endpoint_attr, from now on */
	struct sl_list all;
	loop_fn *on_empty; /* the last one was destroyed; NULL: no report */
	void *arg;
};

/* Memory that ops of a connection may use until it is destroyed, which ends them. */
struct connection_memory {
	struct sl_list node;
	void (*free)(struct connection_memory *memory);
};

struct connection {
	struct sl_list node; /* of all */
	struct connections *set;
	struct slime_endpoint *ep;
	struct slime_op *op; /* of the connect */
	connection_fn *fn;   /* NULL: retired */
	void *arg;
	enum connection_state state;
	enum slime_transport transport; /* once it is up */
	uint32_t n_holds;		/* users of ep */
	struct sl_list memory;		/* freed after ep */
	_Atomic int joined;		/* result of the connect; 1: not yet */
	struct loop_task changed;
	struct job destroy;
};

/* Make an endpoint; nothing is connected yet. transports as in slime_endpoint_attr. link has what
 * is asked of rdma; NULL: nothing. */
int connection_create(struct connections *set, const char *name,
		      const enum slime_transport *transports, const struct slime_agent_link *link,
		      connection_fn *fn, void *arg, struct connection **out);

/* Connect to the peer's descriptor. An error is the result of slime_endpoint_connect(). */
int connection_join(struct connection *c, const void *desc, size_t len, uint32_t timeout_ms);

void connection_hold(struct connection *c);
void connection_release(struct connection *c);

/* Free the memory once the connection is destroyed. */
void connection_keep(struct connection *c, struct connection_memory *memory);

/* The owner is done with it: the endpoint is closed. */
void connection_retire(struct connection *c);

/* The connection of an endpoint that is held; NULL when it is none of ours. */
struct connection *connection_of(struct connections *set, const struct slime_endpoint *ep);

#endif
