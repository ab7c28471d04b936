/* SPDX-License-Identifier: Apache-2.0 */
/* One scope that has topologies, and its expansion. Everything is on the loop of its store. */
#ifndef NANOCTRL_CLUSTER_SCOPE_H
#define NANOCTRL_CLUSTER_SCOPE_H

#include <base/list.h>

struct loop;
struct scope;
struct store;

/* Where it lives: expansions are made by the worker, everything else happens on the loop. */
struct scope_place {
	struct store *store;
	struct loop *loop, *worker;
};

typedef void scope_end_fn(void *arg);

/* In the list that it is given; expands at once. ended comes when it has nothing to do any more,
 * or was closed, and is gone. -ENOMEM. */
int scope_create(const struct scope_place *place, const char *name, struct sl_list *list,
		 scope_end_fn *ended, void *arg);

const char *scope_name(struct sl_list *node);

/* It ends, now or with the answer that it waits for. */
void scope_close(struct sl_list *node);

#endif
