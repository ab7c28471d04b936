/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events of a scope behind a cursor, then those that come: each once, in order, without a gap,
 * or a reset. On the store's loop.
 */
#ifndef NANOCTRL_TAIL_H
#define NANOCTRL_TAIL_H

#include <stdbool.h>
#include "store/store.h"

struct tail;

/*
 * Events that follow the last ones, or a reset, after which the tail goes on behind events->last.
 * The tail may be closed from inside. Never called from inside tail_open().
 */
typedef void tail_fn(void *arg, const struct store_events *events);

/* from == NULL: what happens from now on. -ENOMEM. */
int tail_open(struct store *store, const char *scope, const struct store_cursor *from, tail_fn *fn,
	      void *arg, struct tail **out);

/* No call comes after this. NULL does nothing. */
void tail_close(struct tail *t);

/* How far fn was told; epoch 0 while that is not known. */
struct store_cursor tail_at(const struct tail *t);

/* False when nothing is being read. Else idle is called, with the tail's arg, when that has ended
 * and told what there was; the tail may be closed from inside. */
bool tail_await(struct tail *t, void (*idle)(void *arg));

/* Whether the last read had no answer: there may be events that nobody was told of. */
bool tail_failed(const struct tail *t);

/* Now and then: takes up a read that failed. */
void tail_poke(struct tail *t);

#endif
