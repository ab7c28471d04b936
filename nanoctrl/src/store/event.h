/* SPDX-License-Identifier: Apache-2.0 */
/* Reading new events of the scopes that are followed. */
#ifndef NANOCTRL_STORE_EVENT_H
#define NANOCTRL_STORE_EVENT_H

struct store;

/* On the store's loop: read new events of a scope, if it is followed. */
void store_wake(struct store *store, const char *scope);

/* The same of all followed scopes; and check that each follower's place still exists. */
void store_wake_all(struct store *store);

/* The task of a store, a struct store, for which store_hub_wake() has noted scopes: read their new
 * events. */
void store_take_wakes(void *store);

#endif
