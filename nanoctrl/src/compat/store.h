/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a hub and of a store that is for programs of DLSlime. */
#ifndef NANOCTRL_COMPAT_STORE_H
#define NANOCTRL_COMPAT_STORE_H

#include "compat/group.h"
#include "compat/index_wait.h"
#include "compat/key_indexer.h"
#include "compat/later.h"
#include "compat/private_port.h"
#include "compat/reach.h"
#include "compat/redis_address.h"
#include "compat/script.h"
#include "compat/written.h"
#include "store/compat.h"
#include "store/ended.h"
#include "store/call.h"
#include "store/redis_store.h"

/* Counters are of /metrics; every loop adds to them. */
struct compat_hub {
	struct reach_known reach[REACH_MAX]; /* under the hub's lock */
	struct private_port port;
	_Atomic uint64_t n_peers_ended, n_entities_ended;
	_Atomic uint64_t n_heard; /* keys of others that Redis reported */
	_Atomic bool told;	  /* it reports, and the indexer hears it */
	_Atomic bool untold;	  /* it refuses to be told to */
	_Atomic bool scanning;	  /* a scan of all keys is under way */
	struct written written;
};

struct compat_store {
	struct sl_list later; /* of store_do_later() */
	struct index_wait wait;
	struct store_group groups[STORE_GROUPS];
	struct sl_list lists;			  /* of store_lists() */
	struct key_indexer *indexer;		  /* on the first loop, not in a cluster */
	struct sl_list probes;			  /* of reach.c, */
	struct nc_resolver *resolver;		  /* and what finds their names */
	struct event *reach_timer;		  /* on the first loop */
	struct ended peers_ended, entities_ended; /* in the sweep that is under way */
	bool sweeping_peers, sweeping_entities;
};

extern const struct store_compat compat_store;

/* End entities and agents that have expired, of all scopes. */
void store_sweep_compat(struct store *store);

#endif
