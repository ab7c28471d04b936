/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On the first loop of every replica: finds keys that other programs write to Redis, and adds them
 * to the indexes. Redis reports such keys by keyspace events. Keys that were written while no
 * connection was subscribed, and all keys where Redis sends no events, are found by a scan of all
 * keys, in batches. The script that indexes reads each key, and leaves alone keys that are not
 * DLSlime's.
 */
#ifndef NANOCTRL_COMPAT_KEY_INDEXER_H
#define NANOCTRL_COMPAT_KEY_INDEXER_H

struct key_indexer;
struct store;
struct store_hub;

/* The wait of the store in this slot is over. -ENOMEM: it could not be told; call again. */
typedef int key_indexer_fn(struct store_hub *hub, unsigned slot);

/* indexed ends the waits of key_indexer_wait(). -ENOMEM. */
int key_indexer_create(struct store *store, key_indexer_fn *indexed, struct key_indexer **out);
void key_indexer_destroy(struct key_indexer *indexer);

/* The first loop's connection serves, or is lost. */
void key_indexer_up(struct key_indexer *indexer);
void key_indexer_down(struct key_indexer *indexer);

/* Call indexed for the store in this slot once the indexes have every key that other programs wrote
 * before. */
void key_indexer_wait(struct key_indexer *indexer, unsigned slot);

#endif
