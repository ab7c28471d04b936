/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of snapshots. */
#ifndef NANOCTRL_STORE_SNAPSHOT_H
#define NANOCTRL_STORE_SNAPSHOT_H

#include "store/store.h"

/* The scope in the keys of the snapshots of a scope's agents. */
struct store_text store_snapshot_scope(const char *scope);

/* One sweep: remove entries of snapshots that have expired. */
void store_sweep_snapshots(struct store *store);

#endif
