/* SPDX-License-Identifier: Apache-2.0 */
/* A doubly linked list whose links lie in the elements. The owner of the head locks it. */
#ifndef SL_BASE_LIST_H
#define SL_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct sl_list {
	struct sl_list *next;
	struct sl_list *prev;
};

#define SL_CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void sl_list_init(struct sl_list *l)
{
	l->next = l;
	l->prev = l;
}

static inline bool sl_list_empty(const struct sl_list *l)
{
	return l->next == l;
}

static inline void sl_list_append(struct sl_list *head, struct sl_list *e)
{
	e->prev = head->prev;
	e->next = head;
	head->prev->next = e;
	head->prev = e;
}

/* Takes e out and leaves it a list of one, so that removing it twice is harmless. */
static inline void sl_list_remove(struct sl_list *e)
{
	e->prev->next = e->next;
	e->next->prev = e->prev;
	sl_list_init(e);
}

/* The first element, taken out; NULL when there is none. */
static inline struct sl_list *sl_list_pop(struct sl_list *head)
{
	struct sl_list *e = head->next;

	if (e == head)
		return NULL;
	sl_list_remove(e);
	return e;
}

/* Everything of from goes to the end of to. */
static inline void sl_list_splice(struct sl_list *to, struct sl_list *from)
{
	if (sl_list_empty(from))
		return;
	from->next->prev = to->prev;
	to->prev->next = from->next;
	from->prev->next = to;
	to->prev = from->prev;
	sl_list_init(from);
}

#define sl_list_for_each(e, head) for ((e) = (head)->next; (e) != (head); (e) = (e)->next)

/* The body of the loop may remove e. */
#define sl_list_for_each_safe(e, tmp, head) \
	for ((e) = (head)->next, (tmp) = (e)->next; (e) != (head); (e) = (tmp), (tmp) = (e)->next)

#endif
