/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The peers and links of one agent: takes what nanoctrl, the peers and the transports say to the
 * links' state machines (link.h), and carries out what these decide.
 */
#ifndef AGENT_LINKS_H
#define AGENT_LINKS_H

#include <stdbool.h>
#include <slime/agent.h>

#include "peeragent/lib/links/connection.h"
#include "peeragent/lib/control/ctrl.h"
#include "peeragent/lib/control/publish.h"
#include "peeragent/lib/links/traffic.h"

/* The origin of a wish for a link. The file's and the caller's wish goes before that of the
 * cluster. */
enum link_source {
	LINK_OF_FILE,	 /* the agent's topology: slime_agent_apply() */
	LINK_OF_CALLER,	 /* slime_agent_link_add() */
	LINK_OF_CLUSTER, /* a topology of nanoctrl */
};

struct peer;

struct links {
	const char *name; /* the agent's */
	struct event_base *base;
	struct ctrl *ctrl;
	struct publisher *publisher;
	struct connections connections;
	enum slime_transport transports[SLIME_TRANSPORT_MAX]; /* for links that name none */
	uint32_t connect_timeout_ms;
	uint32_t retry_min_ms;
	uint32_t retry_max_ms;
	struct sl_list wanted;	/* by the agent itself */
	struct sl_list dropped; /* no longer, and nanoctrl does not know yet */
	struct sl_list peers;
	struct sl_list waiters;
	struct sl_list watchers;
	struct traffic traffic;
	struct slime_endpoint_stats past;	 /* of connections that are gone, of all links */
	uint64_t n_connects;			 /* of all links that there ever were */
	uint64_t number;			 /* last one given to an attempt or a post */
	bool closing;				 /* no new links */
	uint32_t silent_ms[SLIME_TRANSPORT_MAX]; /* a peer that says nothing for so long is dead */
	/* Of links_init(). A connection to the peer ended, and its link has been told: one that
	 * outlived the peer's registration was the last of it. The peer may be gone afterwards. */
	void (*on_lost)(struct links *set, struct peer *peer);
	void (*on_change)(void *arg); /* the state of a link changed */
	void (*on_peer_end)(void *arg, const struct slime_peer_end *end);
	void *arg;
};

void links_init(struct links *set);

/* Closes all; their endpoints go by the helper. The session has ended. */
void links_fini(struct links *set);

/* ---- from nanoctrl ---- */

void links_peer(struct links *set, const struct ctrl_peer *peer);
void links_peer_gone(struct links *set, const char *name, uint64_t epoch, uint64_t generation,
		     bool left);
/* A list begins, and has ended: peers that it did not name have gone. */
void links_list_begin(struct links *set);
void links_list_end(struct links *set);
void links_offer(struct links *set, const struct ctrl_offer *offer);
void links_offer_gone(struct links *set, const char *from, const char *profile, uint64_t number);

/* ---- links_end.c ---- */

/* Report that the peer ended; its last sign of life is at most silent_ms old. */
void links_tell_end(const struct links *set, const struct peer *peer,
		    enum slime_peer_end_reason reason, uint32_t silent_ms, const char *text);

/* ---- from the agent's own side ---- */

/* Want a link; a selector takes effect with the next list
 * (ctrl_list()). -ENOMEM. */
int links_open(struct links *set, const struct slime_agent_link *link, enum link_source source);

/* Want it no more as what it was wanted; whether it was. */
bool links_close(struct links *set, const struct slime_agent_link *link, enum link_source source);

/* The wishes of the cluster from now on, in place of the former ones. A link to a peer of which
 * nanoctrl does not know stays while it is connected. */
void links_set_cluster(struct links *set, const struct ctrl_wanted *links, size_t n);

/* Whether the file or the caller does. */
bool links_wants(const struct links *set, const struct slime_agent_link *link);

/* Close all and open no more: the agent leaves. Threads that wait for one are told. */
void links_close_all(struct links *set);

/* A thread that waits for a link to be connected. */
struct link_waiter {
	struct sl_list node;
	const char *peer;
	const char *profile;
	void (*done)(struct link_waiter *w, struct slime_endpoint *ep);
};

/* The connected endpoint, held; NULL, and *known whether there is such a link. */
struct slime_endpoint *links_hold(struct links *set, const char *peer, const char *profile,
				  bool *known);
int links_release(struct links *set, struct slime_endpoint *ep);

/* done comes when the link is connected, with its endpoint held; or when all are closed, with NULL.
 * Not once they are. */
void links_wait(struct links *set, struct link_waiter *w);
void links_stop_waiting(struct link_waiter *w);

/* A follower of the connections of a link, for any time, whether there is a link or not. */
struct link_watcher {
	struct sl_list node;
	const char *peer;
	const char *profile;
	/* The link is connected by c; NULL: it is not any more, and each user of its endpoint gives
	 * it back. */
	void (*changed)(struct link_watcher *w, struct connection *c);
};

/* changed comes at once when the link is connected. */
void links_watch(struct links *set, struct link_watcher *w);
void links_stop_watching(struct link_watcher *w);

/* The work of all of them, also of those that are gone. */
void links_stats(const struct links *set, struct slime_agent_stats *out);

/* Fills at most n, returns how many there are. */
int links_info(const struct links *set, struct slime_agent_link_info *out, size_t n);

#endif
