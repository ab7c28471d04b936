/* SPDX-License-Identifier: Apache-2.0 */
/* Agents of the compatible routes, as entity.h has their entities. */
#ifndef NANOCTRL_COMPAT_PEER_H
#define NANOCTRL_COMPAT_PEER_H

#include "compat/entity.h"

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

/* A batch of a list. */
struct store_peer_list {
	size_t n;
	const struct store_peer *peers; /* values are as they are stored: anything */
	bool more;			/* another one follows */
};

typedef void store_peer_list_fn(void *arg, int result, const struct store_peer_list *found);

/* All of a scope, as entities are listed. */
void store_list_peers(struct store *store, struct store_text scope, store_peer_list_fn *fn,
		      void *arg);

/* Forget an agent and all it owns, and tell the agents that are connected to it. 0, also when there
 * is none. */
void store_cleanup_peer(struct store *store, struct store_text scope, struct store_text name,
			store_done_fn *fn, void *arg);

/* The connections that the agent wants, as spec says; it is told of each target, and if symmetric
 * each target is told of it. 0. */
void store_put_targets(struct store *store, struct store_text scope, struct store_text agent,
		       bool symmetric, struct store_text spec, const struct store_text *targets,
		       size_t n, store_done_fn *fn, void *arg);

void store_put_mr(struct store *store, struct store_text scope, struct store_text agent,
		  struct store_text name, struct store_text value, store_done_fn *fn, void *arg);

/* 0 and the value as it is stored, or STORE_NOT_FOUND. */
void store_get_mr(struct store *store, struct store_text scope, struct store_text agent,
		  struct store_text name, store_entities_fn *fn, void *arg);

#endif
