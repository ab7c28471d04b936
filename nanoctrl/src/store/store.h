/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the control plane remembers: agents and their leases, what they own, and what happened. It
 * is asynchronous: a call returns at once, and its callback comes later, on the store's loop,
 * exactly once, never from inside the call but for -ENOMEM. Whatever a call is given is copied;
 * whatever a callback is given is the store's and valid until it returns.
 *
 * There is one store per loop, used on that loop only. What they share is the hub: what to connect
 * to, the counters, and on the first loop the notifications and the reaper.
 *
 * Every callback gets a result: 0, a positive outcome of that call, or
 *   -EBUSY      too many calls are in flight; nothing was done
 *   -ENOTCONN   there is no store to talk to at the moment; nothing was done
 *   -EAGAIN     the store is there and refuses (loading, read-only, full, ...); nothing was done
 *   -EIO        the connection broke before the answer: the change may have been made or not
 *   -EPROTO     the answer makes no sense; what was asked may have been done
 *   -ENOMEM     nothing was done
 */
#ifndef NANOCTRL_STORE_H
#define NANOCTRL_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <base/list.h>

struct evbuffer;
struct feed;
struct loop;
struct store;
struct store_compat;
struct store_hub;

struct store_config {
	const char *url;	    /* redis_url.h */
	const char *advertise;	    /* HOST:PORT of Redis for others; NULL: as the URL says */
	const char *public_address; /* of a Redis that only this host reaches, for others */
	uint32_t ttl_ms;	    /* of a lease without a beat */
	uint32_t beat_ms;	    /* how often agents are asked to beat */
	uint32_t grace_ms;	    /* what is left of a lease after its session broke */
	uint32_t reap_ms;	    /* how often overdue leases are looked for */
	uint32_t timeout_ms;	    /* an answer that takes longer breaks the connection */
	uint32_t check_ms;	    /* how often it is seen whether Redis is still one to use */
	uint32_t max_inflight;	    /* calls of one loop */
	uint32_t max_objects;	    /* of one agent */
	uint32_t keep_events;	    /* of one scope */
	uint32_t keep_ms;	    /* how long events are kept */
	uint32_t compat_hold_ms;    /* no agent of DLSlime's ends for so long after an outage */
	uint64_t max_list;	    /* bytes of one list of entities or peers */
	const struct store_compat *compat; /* store/compat.h; NULL: none */
};

#define STORE_CONFIG_INIT                                                               \
	{                                                                               \
		.url = "redis://127.0.0.1:6379", .ttl_ms = 15000, .beat_ms = 5000,      \
		.grace_ms = 2000, .reap_ms = 500, .timeout_ms = 5000, .check_ms = 3000, \
		.max_inflight = 10000, .max_objects = 4096, .keep_events = 1000,        \
		.keep_ms = 600000, .compat_hold_ms = 30000, .max_list = 32 << 20        \
	}

/* -EINVAL for a URL that is none (logged), -ENOMEM. The hub outlives its stores. */
int store_hub_create(const struct store_config *config, struct store_hub **out);
void store_hub_destroy(struct store_hub *hub);

/* Append Prometheus text; from any thread. */
void store_hub_metrics(struct store_hub *hub, struct evbuffer *out);

/* Connects in the background, again and again. Called before the loop runs or on its thread. */
int store_create(struct store_hub *hub, struct loop *loop, struct store **out);

/* Calls back all calls in flight (-EIO) or waiting (-ENOTCONN). Followers are removed before. */
void store_destroy(struct store *store);

/* NULL while this store and those of the other loops serve, else the reason why not. */
const char *store_trouble(const struct store *store);

/* The URL of its Redis, without the password. */
const char *store_place(const struct store *store);

/* Append the warnings, for people: work that fails although the store serves, a line each. */
void store_warnings(const struct store *store, struct evbuffer *out);

/* Whether its Redis has more than three quarters of its maxmemory in use, as of the last look. */
bool store_is_crowded(const struct store *store);

/* Whether it is in a Redis Cluster: no other control plane and no agents of one share it. */
bool store_is_cluster(const struct store *store);

const struct store_config *store_config(const struct store *store);

/* Leases of all agents in Redis, whichever server they speak to, as the last look at all scopes
 * found them. */
uint64_t store_leases(const struct store *store);

enum store_outcome {
	STORE_OK,
	STORE_NOT_FOUND,      /* no such agent or object */
	STORE_NAME_TAKEN,     /* another owner holds the name */
	STORE_SUPERSEDED,     /* a newer process of the same owner holds it */
	STORE_LEASE_GONE,     /* the lease is not there any more */
	STORE_REPLACED,	      /* a newer session of the agent is there */
	STORE_STALE,	      /* a newer revision is stored */
	STORE_PEER_NOT_FOUND, /* the other agent is not registered */
	STORE_PEER_CHANGED,   /* it is another incarnation */
	STORE_TOO_MANY,	      /* the agent owns max_objects already */
	STORE_INBOX_FULL,     /* the other agent has STORE_INBOX_MAX offers already */
	STORE_TOO_LARGE,      /* the list is longer than one may be */
};

struct store_text {
	const char *at;
	size_t len;
};

#define STORE_NAME_MAX	 253 /* bytes of any name */
#define STORE_SECRET_HEX 32  /* digits of a lease's secret */

/* Proof that one speaks for an agent. */
struct store_lease {
	const char *agent;
	uint64_t id;
	const char *secret_hash; /* SHA-256 of the secret, in hexadecimal */
};

/* A place in a scope's events: behind event id of epoch. */
struct store_cursor {
	uint64_t epoch; /* 0: the scope has none yet */
	uint64_t id;
};

typedef void store_done_fn(void *arg, int result);

/* ---- agents ---- */

/* The description of an agent by itself; each is JSON text that the caller has checked, at == NULL:
 * not given. */
struct store_profile {
	struct store_text address; /* plain text */
	struct store_text labels;
	struct store_text services;
	struct store_text attributes;
};

struct store_registration {
	const char *name;
	const char *incarnation;
	const char *owner_hash;	 /* SHA-256 of the owner key, in hexadecimal */
	const char *secret_hash; /* of the lease that this hands out */
	bool again;		 /* this incarnation was registered before: it takes nothing over */
	uint64_t order;		 /* greater than that of each registration by this owner before */
	struct store_profile profile;
};

struct store_grant {
	struct store_cursor cursor; /* before the registration's own event */
	uint64_t generation;
	uint64_t lease_id;
	bool resumed; /* the same incarnation held the name; what it owns is still there */
	const struct store_holder *holder; /* of STORE_NAME_TAKEN, with nothing else; may be NULL */
	uint64_t order; /* of STORE_STALE, with nothing else: the one that is known */
};

/* 0, STORE_NAME_TAKEN, STORE_SUPERSEDED, STORE_STALE: a later registration by this owner was
 * executed before; grant is NULL when it has nothing to say. */
typedef void store_grant_fn(void *arg, int result, const struct store_grant *grant);
void store_register(struct store *store, const char *scope, const struct store_registration *r,
		    store_grant_fn *fn, void *arg);

/*
 * Extend a lease, and acknowledge events up to acked (id 0: none; of another epoch than the
 * scope's: none, either). session: the session that beats, or NULL. The beats of one turn of the
 * loop go out together. 0, STORE_LEASE_GONE, STORE_SUPERSEDED, STORE_REPLACED; epoch is the scope's
 * now.
 */
typedef void store_beat_fn(void *arg, int result, uint64_t epoch);
void store_beat(struct store *store, const char *scope, const struct store_lease *lease,
		const char *session, const struct store_cursor *acked, store_beat_fn *fn,
		void *arg);

/* Members that are given in profile replace the stored ones. 0 (also for this revision again),
 * STORE_LEASE_GONE, STORE_SUPERSEDED, STORE_STALE. */
void store_update(struct store *store, const char *scope, const struct store_lease *lease,
		  uint64_t revision, const struct store_profile *profile, store_done_fn *fn,
		  void *arg);

/* End the lease and all the agent owns. 0, STORE_LEASE_GONE, STORE_SUPERSEDED. */
void store_leave(struct store *store, const char *scope, const struct store_lease *lease,
		 store_done_fn *fn, void *arg);

struct store_agent {
	const char *name;
	uint64_t epoch;
	uint64_t generation;
	const char *incarnation;
	struct store_profile profile;
	uint64_t revision;
	uint64_t registered_at_ms;
	int64_t lease_left_ms;
	const char *session; /* the one that is attached, or "" */
};

/* The holder of a name that another owner asked for. */
struct store_holder {
	struct store_agent agent;
	uint64_t now_ms;  /* the store's clock when it was looked at */
	uint64_t wait_ms; /* until its lease may end if it never beats again */
	uint64_t ttl_ms;  /* that its lease has after a beat */
};

/* A page of agents or of objects. */
struct store_page {
	struct store_cursor cursor; /* before what the page says */
	const char *next;	    /* go on behind this agent; NULL at the end */
	uint64_t now_ms;	    /* the store's clock */
	size_t n_agents;
	const struct store_agent *agents;
	size_t n_objects;
	const struct store_object *objects;
	/* The owners of the objects, in the same order, with nothing but names and labels; where
	 * they were asked for. */
	size_t n_owners;
	const struct store_agent *owners;
};

typedef void store_page_fn(void *arg, int result, const struct store_page *page);

/* 0 or STORE_NOT_FOUND. */
void store_get_agent(struct store *store, const char *scope, const char *name, store_page_fn *fn,
		     void *arg);

/* The agent that has this lease: 0, STORE_LEASE_GONE, STORE_SUPERSEDED. */
void store_get_holder(struct store *store, const char *scope, const struct store_lease *lease,
		      store_page_fn *fn, void *arg);

/* Up to limit agents behind the name `after` ("": from the first), in the order of names. */
void store_list_agents(struct store *store, const char *scope, const char *after, unsigned limit,
		       store_page_fn *fn, void *arg);

/* ---- what an agent owns ---- */

enum store_kind {
	STORE_REGION, /* named by itself */
	STORE_LINK,   /* named "peer/profile" */
};

struct store_object {
	const char *agent; /* the owner */
	uint64_t generation;
	const char *incarnation; /* of the owner */
	const char *name;
	uint64_t revision;
	uint64_t stored_at_ms;
	struct store_text doc;	/* JSON text, checked before it was stored */
	struct store_text blob; /* only for agents that may have it; empty in lists */
};

/* Says also whether the object is new. */
typedef void store_put_fn(void *arg, int result, bool created);

/* 0 (also for this revision again), STORE_LEASE_GONE, STORE_SUPERSEDED, STORE_STALE: a greater
 * revision was written, or this one was withdrawn, in this generation; STORE_TOO_MANY. */
void store_put(struct store *store, const char *scope, const struct store_lease *lease,
	       enum store_kind kind, const struct store_object *object, store_put_fn *fn,
	       void *arg);

/* Withdraw what was published with this revision or before. 0 (also when there is none),
 * STORE_LEASE_GONE, STORE_SUPERSEDED, STORE_STALE: a greater revision was written. */
void store_delete(struct store *store, const char *scope, const struct store_lease *lease,
		  enum store_kind kind, const char *name, uint64_t revision, store_done_fn *fn,
		  void *arg);

/* One object, with its blob: 0 or STORE_NOT_FOUND. */
void store_get(struct store *store, const char *scope, const char *agent, enum store_kind kind,
	       const char *name, store_page_fn *fn, void *arg);

/* All objects of one agent: 0, STORE_NOT_FOUND when it is not registered, STORE_TOO_LARGE when they
 * are more than an answer holds. */
void store_list_of(struct store *store, const char *scope, const char *agent, enum store_kind kind,
		   store_page_fn *fn, void *arg);

/* Objects of up to limit agents behind `after`, of fewer when they have many; an agent is never
 * cut. owners: with the agents that own them. 0, STORE_TOO_LARGE as above. */
void store_list(struct store *store, const char *scope, enum store_kind kind, const char *after,
		unsigned limit, bool owners, store_page_fn *fn, void *arg);

/* ---- exchange ---- */

/* The most offers for one agent: more than links are wanted with it, and than an answer holds. */
#define STORE_INBOX_MAX 16384

/* An offer of one agent for another. */
struct store_offer {
	const char *from;
	const char *to;
	const char *profile;
	uint64_t connection_epoch;
	const char *to_incarnation; /* the incarnation for which it is; in a put NULL for any */
	uint64_t generation;	    /* of from */
	const char *incarnation;    /* of from */
	uint64_t to_generation;
	struct store_text blob; /* empty in lists */
};

typedef void store_offers_fn(void *arg, int result, const struct store_cursor *cursor,
			     const struct store_offer *offers, size_t n);

/* 0 with the offer as stored, STORE_LEASE_GONE, STORE_SUPERSEDED, STORE_PEER_NOT_FOUND,
 * STORE_PEER_CHANGED, STORE_STALE, STORE_TOO_MANY, STORE_INBOX_FULL. */
void store_put_offer(struct store *store, const char *scope, const struct store_lease *lease,
		     const struct store_offer *offer, store_offers_fn *fn, void *arg);

/* Withdraw what was posted with this connection epoch or before. 0 (also when there is none),
 * STORE_LEASE_GONE, STORE_SUPERSEDED, STORE_STALE: a greater one was written. */
void store_delete_offer(struct store *store, const char *scope, const struct store_lease *lease,
			const char *to, const char *profile, uint64_t connection_epoch,
			store_done_fn *fn, void *arg);

/* The lease is that of from or of to. 0, STORE_NOT_FOUND, STORE_LEASE_GONE, STORE_SUPERSEDED. */
void store_get_offer(struct store *store, const char *scope, const struct store_lease *lease,
		     const char *from, const char *to, const char *profile, store_offers_fn *fn,
		     void *arg);

/* All that is there for the lease's agent. 0, STORE_LEASE_GONE, STORE_SUPERSEDED. */
void store_list_offers(struct store *store, const char *scope, const struct store_lease *lease,
		       store_offers_fn *fn, void *arg);

/* ---- scopes ---- */

struct store_scope {
	const char *name;
	uint64_t n_agents, n_topologies; /* 0 where only their scopes are told */
};

/* next: where the next batch begins, "0" at the end. */
typedef void store_scopes_fn(void *arg, int result, const struct store_scope *scopes, size_t n,
			     const char *next);

/* About `limit` of the scopes that hold anything, from next of the batch before on, or "0". One
 * may come twice. 0. */
void store_list_scopes(struct store *store, const char *next, unsigned limit, store_scopes_fn *fn,
		       void *arg);

/* Up to STORE_SCOPES_MAX of the scopes that have topologies, or lists of some that went. 0. */
#define STORE_SCOPES_MAX 1000
void store_topology_scopes(struct store *store, store_scopes_fn *fn, void *arg);

/* ---- topologies ---- */

#define STORE_TOPOLOGIES_MAX	 128		    /* of a scope, */
#define STORE_TOPOLOGY_BYTES_MAX (16 * 1024 * 1024) /* and bytes of them */

struct store_topology {
	const char *name;
	uint64_t created;  /* revision of its first write */
	uint64_t revision; /* of its last one */
	uint64_t changed_at_ms;
	struct store_text doc;	  /* JSON text, checked before it was stored */
	struct store_text report; /* the same, of its last expansion; empty: there was none */
};

/* All of a scope, in the order of created and name. */
struct store_topologies {
	uint64_t revision; /* of the scope's topologies: 0 where there was none of late */
	uint64_t expanded; /* number of the last expansion */
	uint64_t now_ms;
	size_t n;
	const struct store_topology *list;
};

/* 0. */
typedef void store_topologies_fn(void *arg, int result, const struct store_topologies *t);
void store_list_topologies(struct store *store, const char *scope, bool reports,
			   store_topologies_fn *fn, void *arg);

/* A document to be written, or with doc.at == NULL a topology to be removed. */
struct store_topology_write {
	const char *name;
	struct store_text doc;
};

/*
 * All of these writes or none, if `revision` is that of the scope's topologies. 0 with the new
 * revision; STORE_STALE with the one that there is; STORE_TOO_MANY: a scope has at most
 * STORE_TOPOLOGIES_MAX and STORE_TOPOLOGY_BYTES_MAX.
 */
typedef void store_revision_fn(void *arg, int result, uint64_t revision);
void store_write_topologies(struct store *store, const char *scope, uint64_t revision,
			    const struct store_topology_write *writes, size_t n,
			    store_revision_fn *fn, void *arg);

/* The links that an agent is to have. */
struct store_wanted {
	const char *agent;
	uint64_t revision;	/* of this list: number of the expansion that changed it */
	struct store_text list; /* JSON text; empty: none */
	bool known;		/* whether it was expanded since the agent came */
};

typedef void store_wanted_fn(void *arg, int result, const struct store_wanted *lists, size_t n,
			     const char *next);

/* One agent's list, n is 1. 0. */
void store_get_wanted(struct store *store, const char *scope, const char *agent,
		      store_wanted_fn *fn, void *arg);

/* About `limit` of all lists, from next of the batch before on, or "0"; next is "0" at the end.
 * One may come twice. */
void store_list_wanted(struct store *store, const char *scope, const char *next, unsigned limit,
		       store_wanted_fn *fn, void *arg);

/* The result of a topology. */
struct store_topology_report {
	const char *name;
	struct store_text doc;
};

/*
 * Keep lists that changed (empty: the agent has none any more) and reports, if topologies and lists
 * are still those of `revision` and `expanded`, and the last expansion had not seen a later event
 * of agents than `seen`; each agent whose list changed gets an event. At most STORE_COMMIT_MAX of
 * both together. 0 with the number of the expansion, STORE_STALE.
 */
#define STORE_COMMIT_MAX 500
void store_commit_wanted(struct store *store, const char *scope, uint64_t revision,
			 uint64_t expanded, const struct store_cursor *seen,
			 const struct store_wanted *lists, size_t n,
			 const struct store_topology_report *reports, size_t n_reports,
			 store_revision_fn *fn, void *arg);

/* ---- snapshots: what agents say of their work ---- */

/* A native agent's; doc is a JSON object of one member at least, without its version and its time.
 * 0, STORE_LEASE_GONE, STORE_SUPERSEDED. */
void store_put_snapshot(struct store *store, const char *scope, const struct store_lease *lease,
			struct store_text doc, uint32_t ttl_ms, store_done_fn *fn, void *arg);

enum store_registered {
	STORE_REGISTERED_UNKNOWN, /* it is not of a native agent */
	STORE_REGISTERED_YES,
	STORE_REGISTERED_NO,
};

struct store_snapshots {
	uint64_t now_ms;	/* the store's clock */
	struct store_text next; /* what to go on behind; empty at the end */
	size_t n;
	const struct store_text *docs;	  /* as they are stored: anything */
	const struct store_agent *owners; /* of each the name, and the labels when asked for */
	const enum store_registered *registered; /* whether its agent has a lease */
};

typedef void store_snapshots_fn(void *arg, int result, const struct store_snapshots *page);

/* Up to limit snapshots of a scope, of native agents and others, behind `after` ("": from the
 * first). The scope "default" is also that of agents that name none. labels: with those of the
 * agents; others than native ones have none. */
void store_list_snapshots(struct store *store, struct store_text scope, struct store_text after,
			  unsigned limit, bool labels, store_snapshots_fn *fn, void *arg);

/* ---- sessions and events ---- */

/* grant->cursor is where the agent goes on: what it acknowledged, or its registration. 0,
 * STORE_LEASE_GONE, STORE_SUPERSEDED. The session replaces an older one and extends the lease.
 * order: which of this lease's it is, as the agent counts, or 0 for an agent that does not say;
 * STORE_STALE when a later one was opened before it. */
void store_open_session(struct store *store, const char *scope, const struct store_lease *lease,
			const char *session, uint64_t order, store_grant_fn *fn, void *arg);

/* The session broke: the lease ends after grace, unless the session was replaced meanwhile. */
void store_lose_session(struct store *store, const char *scope, const struct store_lease *lease,
			const char *session);

struct store_event {
	uint64_t id;
	const char *type;  /* "registered", "left", ...: docs/http-api.md 7 */
	const char *agent; /* the agent of the event, or the sender */
	uint64_t generation;
	const char *incarnation; /* "" where the type has none */
	const char *object;	 /* region or profile, "" where the type has none */
	const char *to;		 /* the one agent that it is for, "" for all */
	uint64_t number;	 /* revision or connection epoch */
	uint64_t at_ms;		 /* the store's clock when it happened */
	/*
	 * Where a follower that needs the event as text keeps it, malloc()ed, for all other
	 * followers of the same batch; the store frees it. A thousand sessions get most events.
	 */
	char **text;
};

struct store_events {
	uint64_t epoch;
	bool reset;	 /* events behind the cursor asked for are lost; events is empty */
	uint64_t last;	 /* id of the last event there is in the scope */
	uint64_t now_ms; /* the store's clock; 0: it was not asked */
	size_t n;
	const struct store_event *events; /* with ids that follow each other without a gap */
};

/* Up to limit events behind the cursor; result 0. Epoch 0 asks for the place where events end. */
typedef void store_events_fn(void *arg, int result, const struct store_events *events);
void store_read_events(struct store *store, const char *scope, const struct store_cursor *behind,
		       unsigned limit, store_events_fn *fn, void *arg);

/* The last `limit` events that are kept; result 0. */
void store_read_last_events(struct store *store, const char *scope, unsigned limit,
			    store_events_fn *fn, void *arg);

/* The same for one of many callers that want much the same: at most STORE_SHARED_EVENTS, and the
 * answer may begin before the cursor and end before the last event. */
#define STORE_SHARED_EVENTS 256
void store_share_events(struct store *store, const char *scope, const struct store_cursor *behind,
			store_events_fn *fn, void *arg);

/*
 * Called with every batch of new events of a scope, in order; also with a reset, when batches were
 * missed or the epoch is new. Batches begin at an event of the store's choosing: a follower that
 * needs them without a gap compares ids and reads missing events. First, and after the store was
 * out of reach, there is a batch in any case, perhaps an empty one: a follower whose cursor is not
 * at its end reads.
 */
struct store_follower {
	void (*events)(void *arg, const struct store_events *events);
	void *arg;
	struct sl_list node; /* the store's, as the next */
	struct feed *feed;
};

/* -ENOMEM. The follower's memory is the store's until store_unfollow(). */
int store_follow(struct store *store, const char *scope, struct store_follower *f);
void store_unfollow(struct store *store, struct store_follower *f);

#endif
