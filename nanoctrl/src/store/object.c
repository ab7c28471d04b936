/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of agents: regions and links. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "store/call.h"
#include "store/gather.h"
#include "store/redis_store.h"
#include "store/reply.h"

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
	store_send(store, scope, &scripts[SCRIPT_PUT], &a, finish_put,
		   (union store_answer){ .put = fn }, arg);
}

void store_delete(struct store *store, const char *scope, const struct store_lease *lease,
		  enum store_kind kind, const char *name, uint64_t revision, store_done_fn *fn,
		  void *arg)
{
	struct store_args a = { .n = 0 };

	store_arg_lease(&a, lease);
	store_arg(&a, kinds[kind]);
	store_arg(&a, name);
	store_arg_number(&a, revision);
	store_arg_number(&a, store->hub->config.max_objects);
	store_send(store, scope, &scripts[SCRIPT_DELETE], &a, store_finish_done,
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
static bool read_object(const redisReply *row, void *out)
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
				   .read = read_object,
				   .one = call->script == &scripts[SCRIPT_OBJECT] };

	result = store_read_page(call, result, reply, &rows, &page);
	if (!result)
		result = read_owners(store_item(reply, 7, REDIS_REPLY_ARRAY), &page, &owners);
	page.objects = rows.at;
	page.n_objects = rows.n;
	if (!result && store_has_rest(reply))
		store_gather(call, reply, &page, read_object, LIST_BYTES_MAX);
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
	store_send(store, scope, &scripts[SCRIPT_OBJECT], &a, finish_objects,
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
	store_send(store, scope, &scripts[SCRIPT_OBJECTS], &a, finish_objects,
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
