/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of entities and of agents. While a list is read, further requests for it on this loop wait
 * for the next read, which then answers all of them at once: each answer has what existed after its
 * request, and a list for many clients costs Redis and us about as much as for one.
 */
#include "compat/api.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <base/list.h>

#include "api/api.h"

struct shared_list {
	struct sl_list node; /* of the store */
	struct store_later later;
	struct store *store;
	enum compat_form form;
	struct store_text scope, type, kind; /* with their bytes behind the struct */
	struct out text;		     /* of the reading that is out, so far */
	struct sl_list answered;	     /* requests that it answers */
	struct sl_list waiting;		     /* those that came after it began */
};

static bool is_same(struct store_text a, struct store_text b)
{
	return !a.at == !b.at && a.len == b.len && (!a.len || !memcmp(a.at, b.at, a.len));
}

static struct store_text keep(struct store_text text, char **bytes)
{
	struct store_text kept = { text.at ? *bytes : NULL, text.len };

	if (text.len)
		memcpy(*bytes, text.at, text.len);
	*bytes += text.len;
	return kept;
}

static struct shared_list *find(struct sl_list *all, enum compat_form form,
				const struct compat_request *r)
{
	for (struct sl_list *e = all->next; e != all; e = e->next) {
		struct shared_list *l = SL_CONTAINER_OF(e, struct shared_list, node);

		if (l->form == form && is_same(l->scope, r->scope) && is_same(l->type, r->type) &&
		    is_same(l->kind, r->kind))
			return l;
	}
	return NULL;
}

static void begin_later(struct shared_list *l);

static struct shared_list *create(struct store *store, enum compat_form form,
				  const struct compat_request *r)
{
	struct shared_list *l = malloc(sizeof(*l) + r->scope.len + r->type.len + r->kind.len + 1);
	char *bytes = (char *)(l + 1);

	if (!l)
		return NULL;
	l->store = store;
	l->form = form;
	l->text = (struct out){ .at = NULL };
	l->scope = keep(r->scope, &bytes);
	l->type = keep(r->type, &bytes);
	l->kind = keep(r->kind, &bytes);
	sl_list_init(&l->answered);
	sl_list_init(&l->waiting);
	sl_list_append(store_lists(store), &l->node);
	return l;
}

static void too_large(const struct compat_waiting *w, enum compat_form form)
{
	const char *field = "scope", *narrow = "spread agents over scopes";
	struct reply_error e = { .status = 413, .code = "too_large" };

	if (form == COMPAT_LIST_ENTITIES) {
		field = w->r.type.at ? "kind" : "entity_type";
		narrow = "name an entity_type and a kind, or spread entities over scopes";
	}
	e.field = field;
	reply_error(w->rq, &e, "the answer is longer than server.max_list, %llu bytes: %s",
		    (unsigned long long)store_config(request_store(w->rq))->max_list, narrow);
}

static void answer(struct shared_list *l, int result)
{
	size_t len = l->text.len;
	char *text = out_finish(&l->text);
	struct sl_list *e;

	l->text = (struct out){ .at = NULL };
	while ((e = sl_list_pop(&l->answered))) {
		struct compat_waiting *w = SL_CONTAINER_OF(e, struct compat_waiting, node);

		if (result == STORE_TOO_LARGE)
			too_large(w, l->form);
		else if (result || !text)
			api_fail(w->rq, result ? result : -ENOMEM);
		else
			reply_json(w->rq, 200, text, len);
		compat_end(w);
	}
	free(text);
	if (!sl_list_empty(&l->waiting)) {
		begin_later(l);
		return;
	}
	sl_list_remove(&l->node);
	free(l);
}

static void listed(void *arg, int result, const struct store_entities *found)
{
	struct shared_list *l = arg;

	if (!result)
		compat_listed(&l->text, found);
	if (result || !found->more)
		answer(l, result);
}

static void queried(void *arg, int result, const struct store_peer_list *found)
{
	struct shared_list *l = arg;

	if (!result)
		compat_peers(&l->text, found);
	if (result || !found->more)
		answer(l, result);
}

static void read_list(struct store_later *later)
{
	struct shared_list *l = SL_CONTAINER_OF(later, struct shared_list, later);

	if (l->form == COMPAT_QUERY)
		store_list_peers(l->store, l->scope, queried, l);
	else
		store_list_entities(l->store, l->scope, l->type, l->kind, listed, l);
}

/* Those that come from here on may mean what was written since. */
static void begin_list(struct store_later *later)
{
	struct shared_list *l = SL_CONTAINER_OF(later, struct shared_list, later);

	sl_list_splice(&l->answered, &l->waiting);
	l->later.fn = read_list;
	store_wait_for_index(l->store, &l->later);
}

static void begin_later(struct shared_list *l)
{
	l->later.fn = begin_list;
	store_do_later(l->store, &l->later);
}

static void wait_for_list(struct request *rq, enum compat_form form)
{
	struct compat_waiting *w = compat_begin(rq, form);
	struct shared_list *l;
	bool is_new;

	if (!w)
		return;
	l = find(store_lists(request_store(rq)), form, &w->r);
	is_new = !l;
	if (!l)
		l = create(request_store(rq), form, &w->r);
	if (!l) {
		api_fail(rq, -ENOMEM);
		compat_end(w);
		return;
	}
	sl_list_append(&l->waiting, &w->node);
	if (is_new)
		begin_later(l);
}

void api_compat_list(struct request *rq)
{
	wait_for_list(rq, COMPAT_LIST_ENTITIES);
}

void api_compat_query(struct request *rq)
{
	wait_for_list(rq, COMPAT_QUERY);
}
