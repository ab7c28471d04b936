/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registrations and heartbeats of entities come by the thousand, and a script call for each costs
 * Redis several times what the change does. So one call of such a script is under way at a time,
 * and what comes meanwhile for the same scope and type goes together in the next one. Each member
 * gets its own answer. An error was an error for all of them and nothing was done, since Redis
 * refuses the first write of a script or none. (An ACL that separates keys of one type may end a
 * script in its middle: what was done then is unknown.)
 */
#ifndef NANOCTRL_COMPAT_GROUP_H
#define NANOCTRL_COMPAT_GROUP_H

#include "compat/entity.h"
#include "store/call.h"
#include "store/redis_store.h"

enum store_group_id { STORE_GROUP_BEAT, STORE_GROUP_PUT, STORE_GROUPS };

struct store_group {
	struct sl_list waiting;
	struct sl_list sent; /* in the one call that is under way */
	size_t n_sent;
};

/* One more call of this group, of an entity; fn is called as store.h says. args: its id, and what
 * else the script wants. */
void store_group_add(struct store *store, enum store_group_id id,
		     const struct store_entity_id *name, const struct store_args *args,
		     store_done_fn *fn, void *arg);
void store_flush_groups(struct store *store);
bool store_groups_empty(const struct store *store);

#endif
