/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's struct: what is set before it starts, and what hangs on its loop. */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include "peeragent/lib/agent/identity.h"
#include "peeragent/lib/agent/nics.h"
#include "peeragent/lib/agent/reconcile.h"
#include "peeragent/lib/agent/settings.h"

#define AGENT_MAX_SERVICES 64

struct slime_agent {
	struct settings settings;
	struct identity identity;
	struct slime_context *ctx;
	struct slime_rpc_service *service;
	struct loop *loop;
	struct helper *helper;
	struct nics nics; /* none, unless links may use rdma */
	char *services[AGENT_MAX_SERVICES];
	size_t n_services;
	bool started;		      /* reconcile is there; written on the loop */
	bool left;		      /* as loop_signal() */
	struct reconcile reconcile;   /* on the loop, as what follows */
	struct sl_list ready_waiters; /* threads in slime_agent_wait_ready() */
	struct sl_list lookups;	      /* of regions, that wait for nanoctrl */
	struct sl_list targets;	      /* that were not put back */
	struct sl_list watches;	      /* that were not destroyed */
	struct sl_list questions;     /* of targets, also of those that are gone */
};

/* On the loop: 0 once it was started, also when it has ended since; -ENOTCONN before, -ESHUTDOWN
 * when it never will be. */
int agent_started(const struct slime_agent *agent);

/* The state changed: threads that wait for it check again. */
void agent_look_at_waiters(struct slime_agent *agent);

/* There is a session, or none will come: lookups that wait for one ask, or end. */
void agent_look_up_again(struct slime_agent *agent);

/* The agent's state changed: threads that wait for a target check again. */
void agent_look_at_targets(struct slime_agent *agent);

/* Tell all watchers. */
void agent_peer_ended(struct slime_agent *agent, const struct slime_peer_end *end);

/* There is a session: targets that are not resolved ask again. */
void agent_resolve_targets(struct slime_agent *agent);

/* The peer put this region into the directory, or changed it: its targets ask for it. */
void agent_region_changed(struct slime_agent *agent, const char *peer, const char *region);

/* The session has ended, and all targets were put: no question is answered any more. */
void agent_drop_questions(struct slime_agent *agent);

/* The session has ended: no lookup is answered any more. */
void agent_drop_lookups(struct slime_agent *agent);

#endif
