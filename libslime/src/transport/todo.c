/* SPDX-License-Identifier: Apache-2.0 */
#include "src/transport/todo.h"

void sl_todo_init(struct sl_todo *t)
{
	pthread_mutex_init(&t->lock, NULL);
	sl_list_init(&t->entries);
	atomic_init(&t->n, 0);
}

void sl_todo_fini(struct sl_todo *t)
{
	pthread_mutex_destroy(&t->lock);
}

void sl_todo_entry_init(struct sl_todo_entry *e)
{
	sl_list_init(&e->link);
	e->queued = false;
}

void sl_todo_put(struct sl_todo *t, struct sl_todo_entry *e)
{
	pthread_mutex_lock(&t->lock);
	if (!e->queued) {
		e->queued = true;
		sl_list_append(&t->entries, &e->link);
		atomic_fetch_add(&t->n, 1);
	}
	pthread_mutex_unlock(&t->lock);
}

/* Under lock. */
static void take_out(struct sl_todo *t, struct sl_todo_entry *e)
{
	sl_list_remove(&e->link);
	e->queued = false;
	atomic_fetch_sub(&t->n, 1);
}

struct sl_todo_entry *sl_todo_take(struct sl_todo *t)
{
	struct sl_todo_entry *e = NULL;

	pthread_mutex_lock(&t->lock);
	if (!sl_list_empty(&t->entries)) {
		e = SL_CONTAINER_OF(t->entries.next, struct sl_todo_entry, link);
		take_out(t, e);
	}
	pthread_mutex_unlock(&t->lock);
	return e;
}

void sl_todo_forget(struct sl_todo *t, struct sl_todo_entry *e)
{
	pthread_mutex_lock(&t->lock);
	if (e->queued)
		take_out(t, e);
	pthread_mutex_unlock(&t->lock);
}
