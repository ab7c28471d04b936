/* SPDX-License-Identifier: Apache-2.0 */
#include "api/object.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "api/api.h"
#include "store/key.h"

#define LINK_NAME_MAX (2 * STORE_NAME_MAX + 2)

/* ---- putting ---- */

struct putting {
	struct request *rq;
	enum store_kind kind;
	uint64_t revision;
};

static void put(void *arg, int result, bool created)
{
	struct putting *p = arg;
	char text[64];
	int len = snprintf(text, sizeof(text), "{\"status\":\"ok\",\"revision\":%" PRIu64 "}",
			   p->revision);

	if (result)
		api_fail(p->rq, result);
	else
		reply_json(p->rq, created && p->kind == STORE_REGION ? 201 : 200, text,
			   (size_t)len);
	free(p);
}

typedef int parse_fn(const char *body, size_t len, struct model_object *out,
		     struct model_error *err);

static void put_object(struct request *rq, enum store_kind kind, const char *scope,
		       const struct store_lease *lease, const char *name, parse_fn *parse)
{
	size_t len;
	const char *body = request_body(rq, &len);
	struct model_error err;
	struct model_object m;
	struct store_object o;
	struct putting *p;

	if (!api_is_json(rq))
		return;
	if (parse(body, len, &m, &err)) {
		api_refuse(rq, &err);
		return;
	}
	p = malloc(sizeof(*p));
	if (p) {
		*p = (struct putting){ rq, kind, m.revision };
		o = (struct store_object){
			.name = name, .revision = m.revision, .doc = m.doc, .blob = m.blob
		};
		store_put(request_store(rq), scope, lease, kind, &o, put, p);
	} else {
		api_fail(rq, -ENOMEM);
	}
	model_object_fini(&m);
}

/* ---- regions ---- */

void api_region_publish(struct request *rq)
{
	const char *scope = api_scope(rq);
	const char *region = scope ? api_name(rq, "region") : NULL;
	struct api_who who;

	if (region && api_owner(rq, &who))
		put_object(rq, STORE_REGION, scope, &who.lease, region, model_parse_region);
}

void api_region_withdraw(struct request *rq)
{
	const char *scope = api_scope(rq);
	const char *region = scope ? api_name(rq, "region") : NULL;
	uint64_t revision;
	struct api_who who;

	if (region && api_owner(rq, &who) && api_order(rq, "revision", &revision))
		store_delete(request_store(rq), scope, &who.lease, STORE_REGION, region, revision,
			     api_done, rq);
}

/* A request for a region, kept until the region is read. */
struct reading {
	struct request *rq;
	bool known; /* agent below is the sender */
	char name[STORE_NAME_MAX + 1];
	char *labels;
};

static void free_reading(struct reading *r)
{
	free(r->labels);
	free(r);
}

static bool may_have_blob(const struct reading *r, const struct store_object *region)
{
	struct store_agent asker = { .name = r->name };

	asker.profile.labels = (struct store_text){ r->labels, r->labels ? strlen(r->labels) : 0 };
	return r->known &&
	       (strcmp(region->agent, r->name) == 0 || model_region_allows(region, &asker));
}

static void region_read(void *arg, int result, const struct store_page *page)
{
	struct reading *r = arg;
	char *text = NULL;

	if (!result && !page->n_objects)
		result = STORE_NOT_FOUND;
	if (!result)
		result =
			model_region(&page->objects[0], may_have_blob(r, &page->objects[0]), &text);
	if (result)
		api_fail(r->rq, result);
	else
		api_reply(r->rq, 200, text);
	free_reading(r);
}

static void read_region(struct reading *r)
{
	struct request *rq = r->rq;

	store_get(request_store(rq), api_scope_of(rq), request_param(rq, "name"), STORE_REGION,
		  request_param(rq, "region"), region_read, r);
}

static void asker_known(void *arg, int result, const struct store_page *page)
{
	struct reading *r = arg;
	const struct store_agent *a;

	if (!result) {
		a = &page->agents[0];
		r->labels = strndup(a->profile.labels.len ? a->profile.labels.at : "",
				    a->profile.labels.len);
		snprintf(r->name, sizeof(r->name), "%s", a->name);
		r->known = true;
		result = r->labels ? 0 : -ENOMEM;
	}
	/* A lease that another one took the place of has ended as well. */
	if (result == STORE_SUPERSEDED)
		result = STORE_LEASE_GONE;
	if (result) {
		api_fail(r->rq, result);
		free_reading(r);
		return;
	}
	read_region(r);
}

void api_region_get(struct request *rq)
{
	const char *scope = api_scope(rq);
	struct api_who who;
	struct reading *r;

	if (!scope || !api_name(rq, "name") || !api_name(rq, "region"))
		return;
	if (api_has_lease(rq) && !api_lease(rq, &who))
		return;
	r = calloc(1, sizeof(*r));
	if (!r) {
		api_fail(rq, -ENOMEM);
		return;
	}
	r->rq = rq;
	if (api_has_lease(rq))
		store_get_holder(request_store(rq), scope, &who.lease, asker_known, r);
	else
		read_region(r);
}

static void reply_regions(struct request *rq, int result, const struct store_page *page,
			  const char *selector)
{
	if (result)
		api_fail(rq, result);
	else
		api_reply(rq, 200, model_regions(page, selector));
}

static void regions_listed(void *arg, int result, const struct store_page *page)
{
	reply_regions(arg, result, page, request_query(arg, "selector"));
}

static void regions_of_listed(void *arg, int result, const struct store_page *page)
{
	reply_regions(arg, result, page, NULL);
}

static void list_of(struct request *rq, enum store_kind kind, store_page_fn *fn)
{
	const char *scope = api_scope(rq);
	const char *name = scope ? api_name(rq, "name") : NULL;

	if (name)
		store_list_of(request_store(rq), scope, name, kind, fn, rq);
}

static void list(struct request *rq, enum store_kind kind, store_page_fn *fn)
{
	const char *scope = api_scope(rq);
	struct api_page p;

	if (scope && api_page(rq, &p))
		store_list(request_store(rq), scope, kind, p.after, p.limit, p.selector, fn, rq);
}

void api_region_list_of(struct request *rq)
{
	list_of(rq, STORE_REGION, regions_of_listed);
}

void api_region_list(struct request *rq)
{
	list(rq, STORE_REGION, regions_listed);
}

/* ---- links ---- */

/* A link may be wanted with all agents that match, and with none yet. */
static const char *peer_or_selector(struct request *rq)
{
	const char *peer = request_param(rq, "peer");
	struct reply_error e = { .status = 400, .code = "bad_name", .field = "peer" };

	if (key_name_valid(peer) || (strlen(peer) <= STORE_NAME_MAX && model_selector_valid(peer)))
		return peer;
	reply_error(rq, &e, "a peer is a name, or a list of label=value of at most 253 bytes");
	return NULL;
}

/* "peer/profile" of the path, and the sender. */
static const char *link_of(struct request *rq, struct api_who *who, char name[LINK_NAME_MAX])
{
	const char *scope = api_scope(rq);
	const char *peer = scope ? peer_or_selector(rq) : NULL;
	const char *profile = peer ? api_name(rq, "profile") : NULL;

	if (!profile || !api_owner(rq, who))
		return NULL;
	snprintf(name, LINK_NAME_MAX, "%s/%s", peer, profile);
	return scope;
}

void api_link_report(struct request *rq)
{
	char name[LINK_NAME_MAX];
	struct api_who who;
	const char *scope = link_of(rq, &who, name);

	if (scope)
		put_object(rq, STORE_LINK, scope, &who.lease, name, model_parse_link);
}

void api_link_forget(struct request *rq)
{
	char name[LINK_NAME_MAX];
	uint64_t revision;
	struct api_who who;
	const char *scope = link_of(rq, &who, name);

	if (scope && api_order(rq, "revision", &revision))
		store_delete(request_store(rq), scope, &who.lease, STORE_LINK, name, revision,
			     api_done, rq);
}

static void reply_links(struct request *rq, int result, const struct store_page *page,
			const char *selector)
{
	if (result)
		api_fail(rq, result);
	else
		api_reply(rq, 200, model_links(page, selector));
}

static void links_listed(void *arg, int result, const struct store_page *page)
{
	reply_links(arg, result, page, request_query(arg, "selector"));
}

static void links_of_listed(void *arg, int result, const struct store_page *page)
{
	reply_links(arg, result, page, NULL);
}

void api_link_list_of(struct request *rq)
{
	list_of(rq, STORE_LINK, links_of_listed);
}

void api_link_list(struct request *rq)
{
	list(rq, STORE_LINK, links_listed);
}

/* ---- exchange ---- */

static void offer_posted(void *arg, int result, const struct store_cursor *cursor,
			 const struct store_offer *offers, size_t n)
{
	char text[STORE_NAME_MAX + 96];
	int len;

	(void)cursor;
	if (!result && n != 1)
		result = -EPROTO;
	if (result) {
		api_fail(arg, result);
		return;
	}
	/* An incarnation has no character that JSON escapes: it was checked when it registered. */
	len = snprintf(text, sizeof(text),
		       "{\"status\":\"ok\",\"peer_generation\":%" PRIu64
		       ",\"peer_incarnation\":\"%s\"}",
		       offers[0].to_generation, offers[0].to_incarnation);
	reply_json(arg, 200, text, (size_t)len);
}

void api_offer_post(struct request *rq)
{
	size_t len;
	const char *body = request_body(rq, &len);
	const char *scope = api_scope(rq);
	const char *peer = scope ? api_name(rq, "peer") : NULL;
	const char *profile = peer ? api_name(rq, "profile") : NULL;
	struct store_offer offer = { .to = peer, .profile = profile };
	struct model_error err;
	struct model_object m;
	struct api_who who;

	if (!profile || !api_owner(rq, &who) || !api_is_json(rq))
		return;
	if (model_parse_offer(body, len, &m, &err)) {
		api_refuse(rq, &err);
		return;
	}
	offer.connection_epoch = m.revision;
	offer.to_incarnation = m.peer_incarnation;
	offer.blob = m.blob;
	store_put_offer(request_store(rq), scope, &who.lease, &offer, offer_posted, rq);
	model_object_fini(&m);
}

static void offer_got(void *arg, int result, const struct store_cursor *cursor,
		      const struct store_offer *offers, size_t n)
{
	(void)cursor;
	if (!result && n != 1)
		result = STORE_NOT_FOUND;
	if (result)
		api_fail(arg, result);
	else
		api_reply(arg, 200, model_offer(&offers[0]));
}

void api_offer_get(struct request *rq)
{
	const char *scope = api_scope(rq);
	const char *from = scope ? api_name(rq, "name") : NULL;
	const char *to = from ? api_name(rq, "peer") : NULL;
	const char *profile = to ? api_name(rq, "profile") : NULL;
	struct reply_error other = { .status = 403, .code = "forbidden", .field = "Slime-Lease" };
	struct api_who who;

	if (!profile || !api_lease(rq, &who))
		return;
	if (strcmp(who.agent, from) != 0 && strcmp(who.agent, to) != 0) {
		reply_error(rq, &other, "only %s and %s can read that", from, to);
		return;
	}
	store_get_offer(request_store(rq), scope, &who.lease, from, to, profile, offer_got, rq);
}

static void offers_listed(void *arg, int result, const struct store_cursor *cursor,
			  const struct store_offer *offers, size_t n)
{
	if (result)
		api_fail(arg, result);
	else
		api_reply(arg, 200, model_offers(cursor, offers, n));
}

void api_offer_list(struct request *rq)
{
	const char *scope = api_scope(rq);
	struct api_who who;

	if (scope && api_owner(rq, &who))
		store_list_offers(request_store(rq), scope, &who.lease, offers_listed, rq);
}

void api_offer_withdraw(struct request *rq)
{
	const char *scope = api_scope(rq);
	const char *peer = scope ? api_name(rq, "peer") : NULL;
	const char *profile = peer ? api_name(rq, "profile") : NULL;
	uint64_t epoch;
	struct api_who who;

	if (profile && api_owner(rq, &who) && api_order(rq, "connection_epoch", &epoch))
		store_delete_offer(request_store(rq), scope, &who.lease, peer, profile, epoch,
				   api_done, rq);
}
