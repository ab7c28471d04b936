/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the wanted topology true and keeps it true: what is wanted and what nanoctrl reports meet
 * here. Everything is on the loop.
 */
#ifndef AGENT_RECONCILE_H
#define AGENT_RECONCILE_H

#include <slime/agent.h>

#include "peeragent/lib/control/ctrl.h"
#include "peeragent/lib/links/links.h"
#include "peeragent/lib/control/publish.h"
#include "peeragent/lib/regions/region.h"
#include "peeragent/lib/agent/snapshot.h"

struct reconcile;

/* The agent's state may be another one. */
typedef void reconcile_fn(void *arg, enum slime_agent_state state, int cause, const char *text);

/* Another agent put a region into the directory, or changed it there. */
typedef void reconcile_region_fn(void *arg, const char *agent, const char *name);

/* A peer ended, as slime_agent_watch_create() says. */
typedef void reconcile_end_fn(void *arg, const struct slime_peer_end *end);

struct reconcile_attr {
	struct ctrl_attr ctrl;
	struct loop *loop;
	struct helper *helper;
	struct slime_context *ctx;
	struct slime_rpc_service *service;
	const struct slime_context_attr *data;
	const enum slime_transport *transports;
	uint32_t connect_timeout_ms;
	uint32_t retry_min_ms;
	uint32_t retry_max_ms;
	uint32_t snapshot_ms;
	reconcile_fn *on_state;
	loop_fn *on_session; /* nanoctrl can be asked, again */
	reconcile_region_fn *on_region;
	reconcile_end_fn *on_peer_end;
	loop_fn *on_left; /* after reconcile_leave(): links are closed, the lease is given back */
	void *arg;
};

struct reconcile {
	struct ctrl *ctrl;
	struct publisher publisher;
	struct regions regions;
	struct links links;
	struct snapshots snapshots;
	struct slime_topology *have; /* what was accepted last */
	enum slime_agent_state state;
	int cause;
	char text[256];
	bool registered;
	bool was_ready;
	bool leaving;
	bool said_goodbye;
	bool left;
	reconcile_fn *on_state;
	loop_fn *on_session;
	reconcile_region_fn *on_region;
	reconcile_end_fn *on_peer_end;
	loop_fn *on_left;
	void *arg;
};

/* What attr points to outlives it, but for attr.ctrl. -ENOMEM, -EINVAL as ctrl_create(). */
int reconcile_init(struct reconcile *r, const struct reconcile_attr *attr);

/* The session and the links end; their endpoints are still on their way through the helper. */
void reconcile_close(struct reconcile *r);
/* After the helper has ended. */
void reconcile_fini(struct reconcile *r);

void reconcile_start(struct reconcile *r);

/* want is checked. -ENOMEM; what was carried out until then stays. -EEXIST for the name of a region
 * of the caller's, -ESHUTDOWN when the agent leaves: nothing changed. */
int reconcile_apply(struct reconcile *r, const struct slime_topology *want);

/* -EEXIST, -ENOMEM; -ENOENT. Beside the topology: for slime_agent_link_add() and _remove(). */
int reconcile_add_link(struct reconcile *r, const struct slime_agent_link *link);
int reconcile_remove_link(struct reconcile *r, const struct slime_agent_link *link);

void reconcile_leave(struct reconcile *r);

#endif
