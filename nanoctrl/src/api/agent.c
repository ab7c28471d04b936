/* SPDX-License-Identifier: Apache-2.0 */
#include "api/agent.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "api/api.h"

/* ---- register ---- */

struct registering {
	struct request *rq;
	const char *scope;
	struct model_agent body;
	char owner_hash[DIGEST_HEX];
	char secret[STORE_SECRET_HEX + 1];
	char secret_hash[DIGEST_HEX];
	struct store_registration r;
};

static void registered(void *arg, int result, const struct store_grant *grant)
{
	struct registering *g = arg;
	char lease[STORE_NAME_MAX + STORE_SECRET_HEX + 32];

	if (result == STORE_STALE && grant) {
		api_fail_stale(g->rq, grant->order);
	} else if (result == STORE_NAME_TAKEN && grant) {
		api_fail_taken(g->rq, model_holder(grant->holder));
	} else if (result) {
		api_fail(g->rq, result);
	} else {
		snprintf(lease, sizeof(lease), "%s/%" PRIu64 "/%s", g->r.name, grant->lease_id,
			 g->secret);
		api_reply(g->rq, grant->resumed ? 200 : 201,
			  model_grant(g->scope, &g->r, grant, lease,
				      store_config(request_store(g->rq))));
	}
	model_agent_fini(&g->body);
	free(g);
}

/* Hashes of what only the agent knows; the case of the key's digits does not matter. */
static int make_secrets(struct registering *g)
{
	char key[DIGEST_HEX];
	int ret;

	for (size_t i = 0; i < sizeof(key); i++) {
		char c = g->body.owner_key[i];

		key[i] = (char)(c >= 'A' && c <= 'F' ? c + 'a' - 'A' : c);
	}
	ret = digest_sha256(key, sizeof(key) - 1, g->owner_hash);
	if (!ret)
		ret = digest_random(g->secret, STORE_SECRET_HEX / 2);
	return ret ? ret : digest_sha256(g->secret, STORE_SECRET_HEX, g->secret_hash);
}

static void start_registering(struct registering *g, const char *name, uint64_t order)
{
	g->r = (struct store_registration){
		.name = name,
		.incarnation = g->body.incarnation,
		.owner_hash = g->owner_hash,
		.secret_hash = g->secret_hash,
		.again = g->body.again,
		.order = order,
		.profile = g->body.profile,
	};
	store_register(request_store(g->rq), g->scope, &g->r, registered, g);
}

void api_agent_register(struct request *rq)
{
	size_t len;
	const char *body = request_body(rq, &len);
	const char *scope = api_scope(rq);
	const char *name = scope ? api_name(rq, "name") : NULL;
	struct registering *g;
	struct model_error err;
	uint64_t order;

	if (!name || !api_order(rq, "order", &order) || !api_is_json(rq))
		return;
	g = calloc(1, sizeof(*g));
	if (!g) {
		api_fail(rq, -ENOMEM);
		return;
	}
	g->rq = rq;
	g->scope = scope;
	if (model_parse_registration(body, len, &g->body, &err)) {
		api_refuse(rq, &err);
		free(g);
		return;
	}
	if (make_secrets(g)) {
		api_fail(rq, -ENOMEM);
		model_agent_fini(&g->body);
		free(g);
		return;
	}
	start_registering(g, name, order);
}

/* ---- heartbeat, update, leave ---- */

static void beaten(void *arg, int result, uint64_t epoch)
{
	struct request *rq = arg;
	char text[96];
	int len;

	if (result) {
		api_fail(rq, result);
		return;
	}
	len = snprintf(text, sizeof(text),
		       "{\"status\":\"ok\",\"epoch\":%" PRIu64 ",\"ttl_ms\":%u}", epoch,
		       store_config(request_store(rq))->ttl_ms);
	reply_json(rq, 200, text, (size_t)len);
}

void api_agent_heartbeat(struct request *rq)
{
	size_t len;
	const char *body = request_body(rq, &len);
	const char *scope = api_scope(rq);
	struct store_cursor cursor;
	struct model_error err;
	struct api_who who;

	if (!scope || !api_owner(rq, &who) || (len && !api_is_json(rq)))
		return;
	if (model_parse_heartbeat(body, len, &cursor, &err)) {
		api_refuse(rq, &err);
		return;
	}
	store_beat(request_store(rq), scope, &who.lease, NULL, &cursor, beaten, rq);
}

struct updating {
	struct request *rq;
	uint64_t revision;
};

static void updated(void *arg, int result)
{
	struct updating *u = arg;
	char text[64];
	int len = snprintf(text, sizeof(text), "{\"status\":\"ok\",\"revision\":%" PRIu64 "}",
			   u->revision);

	if (result)
		api_fail(u->rq, result);
	else
		reply_json(u->rq, 200, text, (size_t)len);
	free(u);
}

void api_agent_update(struct request *rq)
{
	size_t len;
	const char *body = request_body(rq, &len);
	const char *scope = api_scope(rq);
	struct model_error err;
	struct model_agent m;
	struct updating *u;
	struct api_who who;

	if (!scope || !api_owner(rq, &who) || !api_is_json(rq))
		return;
	if (model_parse_update(body, len, &m, &err)) {
		api_refuse(rq, &err);
		return;
	}
	u = malloc(sizeof(*u));
	if (u) {
		*u = (struct updating){ rq, m.revision };
		store_update(request_store(rq), scope, &who.lease, m.revision, &m.profile, updated,
			     u);
	} else {
		api_fail(rq, -ENOMEM);
	}
	model_agent_fini(&m);
}

static void left(void *arg, int result)
{
	static const char now[] = "{\"status\":\"ok\",\"left\":true}";
	static const char before[] = "{\"status\":\"ok\",\"left\":false}";

	if (result == STORE_OK)
		reply_json(arg, 200, now, sizeof(now) - 1);
	else if (result == STORE_LEASE_GONE)
		reply_json(arg, 200, before, sizeof(before) - 1);
	else
		api_fail(arg, result);
}

void api_agent_leave(struct request *rq)
{
	const char *scope = api_scope(rq);
	struct api_who who;

	if (scope && api_owner(rq, &who))
		store_leave(request_store(rq), scope, &who.lease, left, rq);
}

/* ---- reading ---- */

static void got(void *arg, int result, const struct store_page *page)
{
	if (result)
		api_fail(arg, result);
	else
		api_reply(arg, 200, model_agent(api_scope_of(arg), page));
}

void api_agent_get(struct request *rq)
{
	const char *scope = api_scope(rq);
	const char *name = scope ? api_name(rq, "name") : NULL;

	if (name)
		store_get_agent(request_store(rq), scope, name, got, rq);
}

static void listed(void *arg, int result, const struct store_page *page)
{
	if (result)
		api_fail(arg, result);
	else
		api_reply(arg, 200,
			  model_agents(api_scope_of(arg), page, request_query(arg, "selector")));
}

void api_agent_list(struct request *rq)
{
	const char *scope = api_scope(rq);
	struct api_page p;

	if (scope && api_page(rq, &p))
		store_list_agents(request_store(rq), scope, p.after, p.limit, listed, rq);
}

static void services_listed(void *arg, int result, const struct store_page *page)
{
	if (result)
		api_fail(arg, result);
	else
		api_reply(arg, 200,
			  model_services(page, request_query(arg, "name"),
					 request_query(arg, "selector")));
}

void api_service_list(struct request *rq)
{
	const char *scope = api_scope(rq);
	struct api_page p;

	if (scope && api_page(rq, &p))
		store_list_agents(request_store(rq), scope, p.after, p.limit, services_listed, rq);
}
