/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One link of the agent, alive: the state machine (link.h), its connection, its timer, what it
 * posts for the peer and what it reports to nanoctrl.
 */
#ifndef AGENT_ENTRY_H
#define AGENT_ENTRY_H

#include "peeragent/lib/plan/link.h"
#include "peeragent/lib/links/links.h"
#include "peeragent/lib/plan/outage.h"
#include "peeragent/lib/links/peer.h"
#include "peeragent/lib/plan/post.h"
#include "peeragent/lib/links/wanted.h"

struct entry {
	struct sl_list node; /* of the peer's links */
	struct links *set;
	struct peer *peer;
	char profile[SLIME_AGENT_NAME_MAX + 1];
	const struct wanted *by; /* NULL: only the peer wants it */
	struct link link;
	struct connection *connection;
	struct event *timer;
	bool forgotten; /* stays only until nanoctrl knows */
	bool shown;	/* reported since its life began */
	bool refused;	/* in its last attempt this agent lacked what the link needs */
	uint64_t seen;	/* the peer's last post that was taken */
	struct publication post;
	uint8_t posted[POST_MAX];
	size_t posted_len; /* 0: nothing, or taken back */
	uint64_t post_number;
	struct publication report;
	char cause[SLIME_CAUSE_TEXT_MAX];
	char last_error[CTRL_TEXT_MAX + 1]; /* it broke with, or was lost for */
	struct outage outage;		    /* what the log has of it */
	uint64_t since_ns;		    /* connected, or not connected */
	uint32_t n_connects;
	struct slime_endpoint_stats stats; /* of connections that are gone */
	struct traffic_rate rate;	   /* as of the last snapshot */
	struct traffic_booked booked;	   /* of the connection */
};

/* The peer's link of that profile, also a forgotten one; NULL when there is none. */
struct entry *entry_find(const struct peer *peer, const char *profile);

/* A link in its beginning; a forgotten one comes back as new. NULL without memory. */
struct entry *entry_get(struct links *set, struct peer *peer, const char *profile);

/*
 * Something happened to the link, or its peer posted something. cause is what the user is told if
 * the link is not connected afterwards, NULL for nothing new. The entry may be gone afterwards.
 */
void entry_happen(struct entry *e, enum link_event event, const char *cause);
void entry_take(struct entry *e, const struct post *post);

/* Its wish is one that this agent cannot have. */
void entry_refuse(struct entry *e);

enum slime_link_state entry_state(const struct entry *e);

/* An offer has to be posted again: nanoctrl dropped it with the peer's registration. */
void entry_post_again(struct entry *e);

/* Those that it may use, in order of preference. */
const enum slime_transport *entry_transports(const struct entry *e);

/* At the agent's end: no callbacks. */
void entry_destroy(struct entry *e);

void entry_info(const struct entry *e, struct slime_agent_link_info *out);

#endif
