/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On the first loop of every replica: finds keys that others write to Redis, and adds them to the
 * indexes. Redis reports such keys by keyspace events. What was written while no one listened, and
 * everything where Redis does not report, is found by a scan of all keys, in batches. The script
 * that indexes looks at each key, and leaves alone what is not DLSlime's.
 */
#ifndef NANOCTRL_COMPAT_KEY_INDEXER_H
#define NANOCTRL_COMPAT_KEY_INDEXER_H

struct key_indexer;
struct store;

/* -ENOMEM. */
int key_indexer_create(struct store *store, struct key_indexer **out);
void key_indexer_destroy(struct key_indexer *indexer);

/* The first loop's connection serves, or is lost. */
void key_indexer_up(struct key_indexer *indexer);
void key_indexer_down(struct key_indexer *indexer);

/* Call index_wait_end() for the store in this slot once the indexes have every key that others
 * wrote before. */
void key_indexer_wait(struct key_indexer *indexer, unsigned slot);

#endif
