/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of work for the holder of the token: any thread puts entries in, the holder takes them
 * out in order. An entry is embedded in the object that it stands for, so that putting never
 * fails; it is in the list once, however often it is put.
 */
#ifndef SL_TODO_H
#define SL_TODO_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/list.h"

struct sl_todo {
	pthread_mutex_t lock;
	struct sl_list entries;
	_Atomic unsigned n;
};

struct sl_todo_entry {
	struct sl_list link;
	bool queued; /* both under the todo's lock */
};

void sl_todo_init(struct sl_todo *t);
void sl_todo_fini(struct sl_todo *t);
void sl_todo_entry_init(struct sl_todo_entry *e);

/* No thread is woken. Any thread, under any lock. */
void sl_todo_put(struct sl_todo *t, struct sl_todo_entry *e);
/* The next one, which can be put again from here on; NULL: there is none. */
struct sl_todo_entry *sl_todo_take(struct sl_todo *t);
/* Remove it for good: the caller makes sure that it is not put again. Its memory can go. */
void sl_todo_forget(struct sl_todo *t, struct sl_todo_entry *e);

/* How many there are, without the lock. */
static inline unsigned sl_todo_count(const struct sl_todo *t)
{
	return atomic_load_explicit(&t->n, memory_order_acquire);
}

#endif
