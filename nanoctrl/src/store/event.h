/* SPDX-License-Identifier: Apache-2.0 */
/* Looking for new events of the scopes that are followed. */
#ifndef NANOCTRL_STORE_EVENT_H
#define NANOCTRL_STORE_EVENT_H

struct store;

/* Look for new events of a scope, or of all that are followed and meet in a bucket;
 * or of all scopes that are followed, and all followers look whether their places still are ones.
 */
void store_wake(struct store *store, const char *scope);
void store_wake_bucket(struct store *store, unsigned bucket);
void store_wake_all(struct store *store);

#endif
