/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On the first loop of every replica: owners of Mooncake's engines send no sign of life, so each is
 * probed every MOONCAKE_PERIOD_MS by one of the replicas. One that was alive and refuses is dead,
 * and what it published is removed. One that does not answer may be alive behind a network that is
 * not, and keeps all.
 */
#ifndef NANOCTRL_MOONCAKE_SWEEP_H
#define NANOCTRL_MOONCAKE_SWEEP_H

#include <stdbool.h>

struct evbuffer;
struct loop;
struct mooncake_owner;
struct mooncake_sweep;
struct store;

/* Before the loop runs. -ENOMEM. */
int mooncake_sweep_create(struct store *store, struct loop *loop, struct mooncake_sweep **out);

/* Before the store is destroyed, which ends the rest of it. */
void mooncake_sweep_destroy(struct mooncake_sweep *sweep);

/* An owner was found dead by whichever probe, and removed: count it, log it. */
void mooncake_note_death(const struct mooncake_owner *owner);

/* A probe begins. */
void mooncake_note_probe(void);

/* Append Prometheus text; from any thread. */
void mooncake_metrics(struct evbuffer *out);

#endif
