/* SPDX-License-Identifier: Apache-2.0 */
/* What agents own: regions, links, and offers to each other. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "store_redis.h"

/* Of a list, beyond which there is none: far more than max_objects of one agent take, as it is set
 * by default, and the page that they stand in. */
#define LIST_BYTES_MAX (80u * 1024 * 1024)

#define NUMBER_MAX (UINT64_C(1) << 53) /* of what an agent or the clock counts */

static const char *const kinds[] = { [STORE_REGION] = "region", [STORE_LINK] = "link" };

/* {outcome, created} */
static void finish_put(struct store_call *call, int result, const redisReply *reply)
{
	uint64_t created = 0;

	if (result == STORE_OK && !store_u64(reply, 1, &created))
		result = -EPROTO;
	call->fn.put(call->arg, result, created != 0);
}

void store_put(struct store *store, const char *scope, const struct store_lease *lease,
	       enum store_kind kind, const struct store_object *object, store_put_fn *fn, void *arg)
{
	struct store_args a = { .n = 0 };

	store_arg_lease(&a, lease);
	store_arg(&a, kinds[kind]);
	store_arg(&a, object->name);
	store_arg_number(&a, object->revision);
	store_arg_text(&a, object->doc);
	store_arg_text(&a, object->blob);
	store_arg_number(&a, store->hub->config.max_objects);
	store_send(store, scope, SCRIPT_PUT, &a, finish_put, (union store_answer){ .put = fn },
		   arg);
}

void store_delete(struct store *store, const char *scope, const struct store_lease *lease,
		  enum store_kind kind, const char *name, store_done_fn *fn, void *arg)
{
	struct store_args a = { .n = 0 };

	store_arg_lease(&a, lease);
	store_arg(&a, kinds[kind]);
	store_arg(&a, name);
	store_send(store, scope, SCRIPT_DELETE, &a, store_finish_done,
		   (union store_answer){ .done = fn }, arg);
}

/* "revision stored_at doc_length\n" doc blob */
static bool read_value(struct store_text v, struct store_object *o)
{
	const char *line = memchr(v.at, '\n', v.len);
	uint64_t part[3] = { 0 };
	unsigned n = 0;

	if (!line || line == v.at || line - v.at > 64)
		return false;
	for (const char *p = v.at; p < line; p++) {
		if (*p == ' ') {
			if (++n > 2)
				return false;
		} else if (*p < '0' || *p > '9' || part[n] > UINT64_MAX / 10 - 1) {
			return false;
		} else {
			part[n] = part[n] * 10 + (uint64_t)(*p - '0');
		}
	}
	v.len -= (size_t)(line + 1 - v.at);
	v.at = line + 1;
	if (n != 2 || part[0] >= NUMBER_MAX || part[1] >= NUMBER_MAX || part[2] > v.len)
		return false;
	o->revision = part[0];
	o->stored_at_ms = part[1];
	o->doc = (struct store_text){ v.at, part[2] };
	o->blob = (struct store_text){ v.at + part[2], v.len - part[2] };
	return true;
}

/* {agent, generation, incarnation, name, value} */
bool store_read_object(const redisReply *row, void *out)
{
	struct store_object *o = out;
	struct store_text value;

	*o = (struct store_object){ .agent = store_string(row, 0, NULL),
				    .incarnation = store_string(row, 2, NULL),
				    .name = store_string(row, 3, NULL) };
	value.at = store_string(row, 4, &value.len);
	return *o->agent && *o->incarnation && *o->name && store_u64(row, 1, &o->generation) &&
	       read_value(value, o);
}

/* {name, labels} */
static int read_owners(const redisReply *from, struct store_page *page, struct store_agent **out)
{
	struct store_agent *owners;

	if (!from || !from->elements)
		return 0;
	owners = calloc(from->elements, sizeof(*owners));
	if (!owners)
		return -ENOMEM;
	for (size_t i = 0; i < from->elements; i++) {
		owners[i].name = store_string(from->element[i], 0, NULL);
		owners[i].profile.labels = store_text_at(from->element[i], 1);
	}
	page->owners = owners;
	page->n_owners = from->elements;
	*out = owners;
	return 0;
}

static void finish_objects(struct store_call *call, int result, const redisReply *reply)
{
	struct store_page page = { .n_objects = 0 };
	struct store_agent *owners = NULL;
	struct store_rows rows = { .size = sizeof(struct store_object),
				   .read = store_read_object,
				   .one = call->script == SCRIPT_OBJECT };

	result = store_read_page(call, result, reply, &rows, &page);
	if (!result)
		result = read_owners(store_item(reply, 7, REDIS_REPLY_ARRAY), &page, &owners);
	page.objects = rows.at;
	page.n_objects = rows.n;
	if (!result && store_has_rest(reply))
		store_gather(call, reply, &page, LIST_BYTES_MAX);
	else
		call->fn.page(call->arg, result, result ? NULL : &page);
	free(owners);
	free(rows.at);
}

void store_get(struct store *store, const char *scope, const char *agent, enum store_kind kind,
	       const char *name, store_page_fn *fn, void *arg)
{
	struct store_args a = { .n = 0 };

	store_arg(&a, agent);
	store_arg(&a, kinds[kind]);
	store_arg(&a, name);
	store_send(store, scope, SCRIPT_OBJECT, &a, finish_objects,
		   (union store_answer){ .page = fn }, arg);
}

static void list(struct store *store, const char *scope, enum store_kind kind, const char *agent,
		 const char *after, unsigned limit, bool owners, store_page_fn *fn, void *arg)
{
	struct store_args a = { .n = 0 };

	store_arg(&a, kinds[kind]);
	store_arg(&a, agent);
	store_arg(&a, after);
	store_arg_number(&a, limit);
	store_arg_number(&a, LIST_BYTES_MAX);
	store_arg(&a, owners ? "1" : "");
	store_arg(&a, "");
	store_arg(&a, "");
	store_send(store, scope, SCRIPT_OBJECTS, &a, finish_objects,
		   (union store_answer){ .page = fn }, arg);
}

void store_list_of(struct store *store, const char *scope, const char *agent, enum store_kind kind,
		   store_page_fn *fn, void *arg)
{
	list(store, scope, kind, agent, "", 1, false, fn, arg);
}

void store_list(struct store *store, const char *scope, enum store_kind kind, const char *after,
		unsigned limit, bool owners, store_page_fn *fn, void *arg)
{
	list(store, scope, kind, "", after, limit, owners, fn, arg);
}

/* ---- offers ---- */

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
	store_send(store, scope, SCRIPT_OFFER_PUT, &a, finish_offers,
		   (union store_answer){ .offers = fn }, arg);
}

void store_delete_offer(struct store *store, const char *scope, const struct store_lease *lease,
			const char *to, const char *profile, store_done_fn *fn, void *arg)
{
	struct store_args a = { .n = 0 };

	store_arg_lease(&a, lease);
	store_arg(&a, to);
	store_arg(&a, profile);
	store_send(store, scope, SCRIPT_OFFER_DELETE, &a, store_finish_done,
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
	store_send(store, scope, SCRIPT_OFFER_GET, &a, finish_one_offer,
		   (union store_answer){ .offers = fn }, arg);
}

void store_list_offers(struct store *store, const char *scope, const struct store_lease *lease,
		       store_offers_fn *fn, void *arg)
{
	struct store_args a = { .n = 0 };

	store_arg_lease(&a, lease);
	store_send(store, scope, SCRIPT_OFFER_LIST, &a, finish_offers,
		   (union store_answer){ .offers = fn }, arg);
}
