/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events of a scope behind a cursor, then those that come: each once, in order, without a gap,
 * or a reset. On the store's loop.
 */
#ifndef NANOCTRL_EVENT_CURSOR_H
#define NANOCTRL_EVENT_CURSOR_H

#include <stdbool.h>
#include "store/store.h"

struct event_cursor;

/*
 * Events that follow the last ones, or a reset, after which the cursor goes on behind events->last.
 * The tail may be closed from inside. Never called from inside event_cursor_open().
 */
typedef void event_cursor_fn(void *arg, const struct store_events *events);

/* from == NULL: what happens from now on. -ENOMEM. */
int event_cursor_open(struct store *store, const char *scope, const struct store_cursor *from,
		      event_cursor_fn *fn, void *arg, struct event_cursor **out);

/* No call comes after this. NULL does nothing. */
void event_cursor_close(struct event_cursor *t);

/* How far fn was told; epoch 0 while that is not known. */
struct store_cursor event_cursor_at(const struct event_cursor *t);

/* False when nothing is being read. Else idle is called, with the cursor's arg, when that has ended
 * and told what there was; the cursor may be closed from inside. */
bool event_cursor_await(struct event_cursor *t, void (*idle)(void *arg));

/* Whether the last read had no answer: there may be events that were not reported. */
bool event_cursor_failed(const struct event_cursor *t);

/* Now and then: takes up a read that failed. */
void event_cursor_poke(struct event_cursor *t);

#endif
