/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entities and agents of the compatible routes, in keys that DLSlime's NanoCtrl reads and writes as
 * well: docs/redis-keys.md. Names are any bytes. As in store.h, whatever a call is given is copied,
 * and a callback comes later and once.
 */
#ifndef NANOCTRL_STORE_ENTITY_H
#define NANOCTRL_STORE_ENTITY_H

#include <base/list.h>

#include "store/store.h"

#define STORE_COMPAT_TTL_MS 60000

struct store_entity_id {
	struct store_text scope; /* "" is none */
	struct store_text type;
	struct store_text id;
};

struct store_entity {
	struct store_text kind;
	struct store_text endpoint; /* JSON, "" for none; as the others */
	struct store_text metadata;
	struct store_text resource;
	struct store_text info;	 /* all of it */
	struct store_text event; /* of its registration, up to info in it */
};

/* 0, or STORE_NAME_TAKEN: a key that is no entity has the name. */
void store_put_entity(struct store *store, const struct store_entity_id *name,
		      const struct store_entity *entity, store_done_fn *fn, void *arg);

/* 0, or STORE_NOT_FOUND. Agents of the compatible routes beat the same way. */
void store_beat_entity(struct store *store, const struct store_entity_id *name, store_done_fn *fn,
		       void *arg);

/* 0, also when there is none. */
void store_delete_entity(struct store *store, const struct store_entity_id *name, store_done_fn *fn,
			 void *arg);

struct store_entities {
	size_t n;
	const struct store_text *info; /* as they are stored: anything */
	bool more;		       /* another portion of the list follows */
};

typedef void store_entities_fn(void *arg, int result, const struct store_entities *found);

/* 0, or STORE_NOT_FOUND. */
void store_get_entity(struct store *store, const struct store_entity_id *name,
		      store_entities_fn *fn, void *arg);

/*
 * Those of a scope, of this type and this kind when they are given (at != NULL). A list comes in
 * portions, since others are to have the store between two: fn is called for each, and last for the
 * one behind which there is no more, or with an error. Whoever is there all the time is in the
 * list, who comes or goes meanwhile may be, and nobody is twice. STORE_TOO_LARGE when they have
 * more than max_list bytes.
 */
void store_list_entities(struct store *store, struct store_text scope, struct store_text type,
			 struct store_text kind, store_entities_fn *fn, void *arg);

/* ---- agents ---- */

struct store_peer {
	struct store_text name;
	struct store_text address;
	struct store_text device; /* "" is none, here and below */
	struct store_text port;	  /* digits */
	struct store_text link_type;
	struct store_text resource;    /* JSON */
	struct store_text topology;    /* JSON: the resource again, as the agent changed it */
	struct store_text memory_keys; /* JSON */
};

typedef void store_peers_fn(void *arg, int result, const struct store_peer *peers, size_t n);

/*
 * name at == NULL: one that begins with prefix is made up. 0 and a peer that has a name only, or
 * STORE_NAME_TAKEN.
 */
void store_put_peer(struct store *store, struct store_text scope, const struct store_peer *peer,
		    struct store_text prefix, store_peers_fn *fn, void *arg);

/* A portion of a list. */
struct store_peer_list {
	size_t n;
	const struct store_peer *peers; /* values are as they are stored: anything */
	bool more;			/* another one follows */
};

typedef void store_peer_list_fn(void *arg, int result, const struct store_peer_list *found);

/* All of a scope, as entities are listed. */
void store_list_peers(struct store *store, struct store_text scope, store_peer_list_fn *fn,
		      void *arg);

/* For whoever shares lists between requests: what it has under way with this store. It is empty
 * when all calls have been called back for the last time. */
struct sl_list *store_lists(struct store *store);

/* Something to do when all that has come in this turn of the loop is taken, or when the store goes;
 * once. */
struct store_later {
	struct sl_list node;
	void (*fn)(struct store_later *later);
};
void store_do_later(struct store *store, struct store_later *later);

/* Call it when everything that others wrote to Redis before is in the indexes, so that lists and
 * cleanup find it; where Redis does not tell what they write, at the end of this turn. */
void store_settle(struct store *store, struct store_later *later);

/* Forget an agent and all it owns, and tell those who have to do with it. 0, also when there is
 * none. */
void store_cleanup_peer(struct store *store, struct store_text scope, struct store_text name,
			store_done_fn *fn, void *arg);

/* What the agent wants to be connected to, as spec says; it is told of each target, and symmetric:
 * each target of it. 0. */
void store_put_targets(struct store *store, struct store_text scope, struct store_text agent,
		       bool symmetric, struct store_text spec, const struct store_text *targets,
		       size_t n, store_done_fn *fn, void *arg);

void store_put_mr(struct store *store, struct store_text scope, struct store_text agent,
		  struct store_text name, struct store_text value, store_done_fn *fn, void *arg);

/* 0 and the value as it is stored, or STORE_NOT_FOUND. */
void store_get_mr(struct store *store, struct store_text scope, struct store_text agent,
		  struct store_text name, store_entities_fn *fn, void *arg);

/* ---- snapshots: what agents say of what they do ---- */

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

/* ---- for clients of Redis ---- */

/*
 * Where clients that speak to Redis themselves, without a password, reach it: "host:port" for one
 * that says that its address is client; a text that is NULL: it says nothing. local: it is on this
 * host.
 *   -ENOTSUP  they cannot; the reason is in out
 *   -EAGAIN   store_open_tcp() first
 *   -ENOTCONN nobody has told yet where it is
 */
#define STORE_REDIS_ADDRESS_MAX 320
int store_redis_address(const struct store *store, struct store_text client, bool local,
			char out[STORE_REDIS_ADDRESS_MAX]);

/*
 * Whether clients that say that their address is client reach Redis at an address that
 * store_redis_address() told: somebody connects to it and says PING, without a password. fn may
 * come at once.
 *   0         they do; they are elsewhere, and what cannot be reached from here may be so from
 *             there; or Redis is away, as what comes next finds
 *   -ENOTSUP  they do not: why says it
 *   -ENOMEM
 */
typedef void store_reach_fn(void *arg, int result, const char *why);
void store_reach(struct store *store, const char *address, struct store_text client,
		 store_reach_fn *fn, void *arg);

/* Have the private Redis listen on a port of this host, which it keeps for ever. fn may come at
 * once: 0, -ENOTSUP when it cannot now (logged), or as in store.h. */
void store_open_tcp(struct store *store, store_done_fn *fn, void *arg);

#endif
