/* SPDX-License-Identifier: Apache-2.0 */
/* Offers, each of one agent for another. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "store/call.h"
#include "store/redis_store.h"
#include "store/reply.h"
#include "base/text_heap.h"
#include "base/text_set.h"

/* An offer and the strings of its header line, which stand apart from the reply. */
struct parsed_offer {
	char incarnation[STORE_NAME_MAX + 1];
	char to_incarnation[STORE_NAME_MAX + 1];
};

/* "connection_epoch generation incarnation to_generation to_incarnation\n" blob */
static bool read_header(struct store_text v, struct store_offer *o, struct parsed_offer *p)
{
	const char *line = memchr(v.at, '\n', v.len);
	char head[2 * STORE_NAME_MAX + 80];
	unsigned long long attempt;
	unsigned long long from;
	unsigned long long to;
	size_t len = line ? (size_t)(line - v.at) : sizeof(head);

	if (len >= sizeof(head))
		return false;
	memcpy(head, v.at, len);
	head[len] = '\0';
	if (sscanf(head, "%20llu %20llu %253s %20llu %253s", &attempt, &from, p->incarnation, &to,
		   p->to_incarnation) != 5)
		return false;
	o->connection_epoch = attempt;
	o->generation = from;
	o->to_generation = to;
	o->incarnation = p->incarnation;
	o->to_incarnation = p->to_incarnation;
	o->blob = (struct store_text){ line + 1, v.len - len - 1 };
	return true;
}

/* {from, to, profile, value} */
static bool read_offer(const redisReply *row, struct store_offer *o, struct parsed_offer *p)
{
	struct store_text value;

	*o = (struct store_offer){ .from = store_string(row, 0, NULL),
				   .to = store_string(row, 1, NULL),
				   .profile = store_string(row, 2, NULL) };
	value.at = store_string(row, 3, &value.len);
	return *o->from && *o->to && *o->profile && read_header(value, o, p);
}

/* {outcome, epoch, cursor id, rows} */
static void finish_offers(struct store_call *call, int result, const redisReply *reply)
{
	const redisReply *rows = store_item(reply, 3, REDIS_REPLY_ARRAY);
	struct store_cursor cursor = { 0 };
	struct store_offer *offers = NULL;
	struct parsed_offer *parsed = NULL;
	size_t n = 0;

	if (result == STORE_OK &&
	    !(store_u64(reply, 1, &cursor.epoch) && store_u64(reply, 2, &cursor.id) && rows))
		result = -EPROTO;
	if (result == STORE_OK && rows->elements) {
		offers = calloc(rows->elements, sizeof(*offers));
		parsed = calloc(rows->elements, sizeof(*parsed));
		if (!offers || !parsed)
			result = -ENOMEM;
	}
	for (size_t i = 0; result == STORE_OK && i < rows->elements; i++) {
		if (read_offer(rows->element[i], &offers[n], &parsed[n]))
			n++;
		else
			atomic_fetch_add(&call->store->hub->n_skipped, 1);
	}
	call->fn.offers(call->arg, result, &cursor, offers, n);
	free(offers);
	free(parsed);
}

void store_put_offer(struct store *store, const char *scope, const struct store_lease *lease,
		     const struct store_offer *offer, store_offers_fn *fn, void *arg)
{
	struct store_args a = { .n = 0 };

	store_arg_lease(&a, lease);
	store_arg(&a, offer->to);
	store_arg(&a, offer->profile);
	store_arg_number(&a, offer->connection_epoch);
	store_arg(&a, offer->to_incarnation);
	store_arg_text(&a, offer->blob);
	store_arg_number(&a, store->hub->config.max_objects);
	store_arg_number(&a, STORE_INBOX_MAX);
	store_send(store, scope, &scripts[SCRIPT_OFFER_PUT], &a, finish_offers,
		   (union store_answer){ .offers = fn }, arg);
}

void store_delete_offer(struct store *store, const char *scope, const struct store_lease *lease,
			const char *to, const char *profile, uint64_t connection_epoch,
			store_done_fn *fn, void *arg)
{
	struct store_args a = { .n = 0 };

	store_arg_lease(&a, lease);
	store_arg(&a, to);
	store_arg(&a, profile);
	store_arg_number(&a, connection_epoch);
	store_arg_number(&a, store->hub->config.max_objects);
	store_send(store, scope, &scripts[SCRIPT_OFFER_DELETE], &a, store_finish_done,
		   (union store_answer){ .done = fn }, arg);
}

/* An offer that is junk, or was not found, is none. */
static void finish_one_offer(struct store_call *call, int result, const redisReply *reply)
{
	struct store_offer o;
	struct parsed_offer p;
	const redisReply *rows = store_item(reply, 3, REDIS_REPLY_ARRAY);

	if (result == STORE_OK && rows && rows->elements && !read_offer(rows->element[0], &o, &p))
		result = STORE_NOT_FOUND;
	finish_offers(call, result, reply);
}

void store_get_offer(struct store *store, const char *scope, const struct store_lease *lease,
		     const char *from, const char *to, const char *profile, store_offers_fn *fn,
		     void *arg)
{
	struct store_args a = { .n = 0 };

	store_arg_lease(&a, lease);
	store_arg(&a, from);
	store_arg(&a, to);
	store_arg(&a, profile);
	store_send(store, scope, &scripts[SCRIPT_OFFER_GET], &a, finish_one_offer,
		   (union store_answer){ .offers = fn }, arg);
}

/* ---- lists ---- */

#define PLACE 3 /* argument of offer_list */

/* All that is there for an agent may be much: it is read in batches, each a script of its own. */
struct offer_list {
	store_offers_fn *fn;
	void *arg;
	struct store_cursor cursor; /* before the first batch */
	struct store_offer *offers;
	size_t n;
	struct text_set names; /* "from/profile" of each: a scan may come to one twice */
	struct text_heap heap;
};

static void end_list(struct offer_list *l, int result)
{
	l->fn(l->arg, result, &l->cursor, l->offers, result ? 0 : l->n);
	text_heap_fini(&l->heap);
	text_set_fini(&l->names);
	free(l->offers);
	free(l);
}

static const char *keep(struct offer_list *l, const char *text)
{
	return text_heap_keep(&l->heap, text, strlen(text));
}

static int add_offer(struct offer_list *l, const struct store_offer *from)
{
	struct store_offer *to = &l->offers[l->n];
	char name[2 * STORE_NAME_MAX + 2];
	int len = snprintf(name, sizeof(name), "%s/%s", from->from, from->profile);
	int is_new = len < (int)sizeof(name) ? text_set_add(&l->names, name, (size_t)len) : 0;

	if (is_new <= 0)
		return is_new;
	*to = *from;
	to->from = keep(l, from->from);
	to->to = keep(l, from->to);
	to->profile = keep(l, from->profile);
	to->incarnation = keep(l, from->incarnation);
	to->to_incarnation = keep(l, from->to_incarnation);
	to->blob = (struct store_text){ NULL, 0 };
	l->n++;
	return l->heap.failed ? -ENOMEM : 0;
}

/* {outcome, epoch, cursor id, rows, the place to go on from} */
static int add_batch(struct offer_list *l, const struct store_call *call, const redisReply *reply)
{
	const redisReply *rows = store_item(reply, 3, REDIS_REPLY_ARRAY);
	struct store_cursor cursor;
	struct store_offer *bigger;
	int result = 0;

	if (!rows || !store_u64(reply, 1, &cursor.epoch) || !store_u64(reply, 2, &cursor.id))
		return -EPROTO;
	if (!l->offers)
		l->cursor = cursor;
	bigger = realloc(l->offers, (l->n + rows->elements + 1) * sizeof(*bigger));
	if (!bigger)
		return -ENOMEM;
	l->offers = bigger;
	for (size_t i = 0; !result && i < rows->elements; i++) {
		struct store_offer offer;
		struct parsed_offer parsed;

		if (read_offer(rows->element[i], &offer, &parsed))
			result = add_offer(l, &offer);
		else
			atomic_fetch_add(&call->store->hub->n_skipped, 1);
	}
	return result;
}

static void finish_list(struct store_call *call, int result, const redisReply *reply)
{
	struct store_text place = store_text_at(reply, 4), *args = NULL;
	struct offer_list *l = call->arg;
	size_t n;

	if (result == STORE_OK)
		result = add_batch(l, call, reply);
	if (result == STORE_OK && place.len) {
		args = store_call_args(call, 0, &n);
		result = args ? 0 : -ENOMEM;
	}
	if (!args) {
		end_list(l, result);
		return;
	}
	args[PLACE] = place;
	store_scan_on(call, n, args);
}

void store_list_offers(struct store *store, const char *scope, const struct store_lease *lease,
		       store_offers_fn *fn, void *arg)
{
	struct offer_list *l = calloc(1, sizeof(*l));
	struct store_args a = { .n = 0 };

	if (!l) {
		fn(arg, -ENOMEM, &(struct store_cursor){ 0 }, NULL, 0);
		return;
	}
	l->fn = fn;
	l->arg = arg;
	l->names.seed = store->hub->seed;
	store_arg_lease(&a, lease);
	store_arg(&a, "");
	store_send(store, scope, &scripts[SCRIPT_OFFER_LIST], &a, finish_list,
		   (union store_answer){ .offers = fn }, l);
}
