/* SPDX-License-Identifier: Apache-2.0 */
#include "compat/api.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "api/api.h"
#include "compat/foreign_key.h"

void compat_end(struct compat_waiting *w)
{
	compat_request_fini(&w->r);
	free(w);
}

static struct store_entity_id name_of(const struct compat_request *r)
{
	return (struct store_entity_id){ r->scope, r->type, r->id };
}

static const char *empty_of(const struct compat_request *r, enum compat_form form)
{
	switch (form) {
	case COMPAT_REGISTER:
		return !r->type.len ? "entity_type" : !r->id.len ? "entity_id" : NULL;
	case COMPAT_START_PEER:
		return r->name.at && !r->name.len ? "alias" : NULL;
	case COMPAT_REGISTER_MR:
		return !r->name.len ? "agent_name" : !r->mr.len ? "mr_name" : NULL;
	case COMPAT_TOPOLOGY:
		for (size_t i = 0; i < r->n_targets; i++)
			if (!r->targets[i].len)
				return "target_peers";
		return NULL;
	default:
		return NULL;
	}
}

/* The type begins the key where there is no scope. */
static bool is_type_refused(const struct compat_request *r, enum compat_form form)
{
	return form == COMPAT_REGISTER ? foreign_key_reserved(r->type.at, r->type.len)
				       : foreign_key_is_ours(r->type.at, r->type.len);
}

/* A name that would reach into keys of another kind is refused; so is an empty name. */
static bool check_words(struct request *rq, const struct compat_request *r, enum compat_form form)
{
	struct reply_error e = { .status = 422, .code = "bad_value" };
	const char *what = "is a reserved word";

	if (foreign_key_reserved(r->scope.at, r->scope.len)) {
		e.field = "scope";
	} else if (is_type_refused(r, form)) {
		e.field = "entity_type";
	} else {
		e.field = empty_of(r, form);
		what = "is empty";
	}
	if (!e.field)
		return true;
	reply_error(rq, &e, "%s %s", e.field, what);
	return false;
}

/* Clients of these routes speak to Redis as well, and to one that is no cluster. */
static bool is_in_cluster(struct request *rq)
{
	struct reply_error e = { .status = 501, .code = "not_in_cluster" };

	if (!store_is_cluster(request_store(rq)))
		return false;
	reply_error(rq, &e,
		    "this route needs a Redis that its clients can use as well; this "
		    "server's is a Redis Cluster");
	return true;
}

/* Requests that add keys: the last quarter of Redis is for agents of /v1. */
static bool is_over_quota(struct request *rq, enum compat_form form)
{
	struct reply_error e = { .status = 429, .code = "quota" };

	if ((form != COMPAT_REGISTER && form != COMPAT_START_PEER && form != COMPAT_TOPOLOGY &&
	     form != COMPAT_REGISTER_MR) ||
	    !store_is_crowded(request_store(rq)))
		return false;
	reply_error(rq, &e,
		    "Redis has used three quarters of its maxmemory, of the private one "
		    "redis.max_memory, and this route gets no more");
	return true;
}

struct compat_waiting *compat_begin(struct request *rq, enum compat_form form)
{
	size_t len;
	const char *body = request_body(rq, &len);
	struct model_error err;
	struct compat_waiting *w;

	if (is_in_cluster(rq) || is_over_quota(rq, form) || !api_is_json(rq))
		return NULL;
	w = malloc(sizeof(*w));
	if (!w) {
		api_fail(rq, -ENOMEM);
		return NULL;
	}
	*w = (struct compat_waiting){ .rq = rq };
	if (compat_parse(form, body, len, &w->r, &err)) {
		api_refuse(rq, &err);
		free(w);
		return NULL;
	}
	if (check_words(rq, &w->r, form))
		return w;
	compat_end(w);
	return NULL;
}

/* ---- heartbeat ---- */

static void beaten(void *arg, int result)
{
	struct compat_waiting *w = arg;

	if (result == STORE_OK)
		api_reply(w->rq, 200,
			  compat_message("ok", "Heartbeat successful for ", w->r.type, " ", w->r.id,
					 ""));
	else if (result == STORE_NOT_FOUND)
		api_reply(w->rq, 200,
			  compat_message("not_found", "", w->r.type, " ", w->r.id,
					 " not found. Please register first."));
	else
		api_fail(w->rq, result);
	compat_end(w);
}

void api_compat_heartbeat(struct request *rq)
{
	struct compat_waiting *w = compat_begin(rq, COMPAT_HEARTBEAT);
	struct store_entity_id name;

	if (!w)
		return;
	name = name_of(&w->r);
	store_beat_entity(request_store(rq), &name, beaten, w);
}

/* ---- register, unregister ---- */

static void registered(void *arg, int result)
{
	struct compat_waiting *w = arg;
	struct reply_error taken = { .status = 409, .code = "name_taken", .field = "entity_id" };

	if (result == STORE_OK)
		api_reply(w->rq, 200,
			  compat_message("ok", "Entity ", w->r.type, ":", w->r.id,
					 " registered successfully"));
	else if (result == STORE_NAME_TAKEN)
		reply_error(w->rq, &taken, "something that is no entity has this name");
	else
		api_fail(w->rq, result);
	compat_end(w);
}

void api_compat_register(struct request *rq)
{
	struct compat_waiting *w = compat_begin(rq, COMPAT_REGISTER);
	struct store_entity_id name;
	struct store_entity e;
	char *info, *event;

	if (!w)
		return;
	info = compat_entity(&w->r);
	event = info ? compat_event(&w->r) : NULL;
	if (event) {
		name = name_of(&w->r);
		e = (struct store_entity){ .kind = w->r.kind,
					   .endpoint = w->r.endpoint,
					   .metadata = w->r.metadata,
					   .resource = w->r.resource,
					   .info = { info, strlen(info) },
					   .event = { event, strlen(event) } };
		store_put_entity(request_store(rq), &name, &e, registered, w);
	} else {
		registered(w, -ENOMEM);
	}
	free(event);
	free(info);
}

static void unregistered(void *arg, int result)
{
	struct compat_waiting *w = arg;

	if (result)
		api_fail(w->rq, result);
	else
		api_reply(w->rq, 200,
			  compat_message("ok", "Entity ", w->r.type, ":", w->r.id,
					 " unregistered successfully"));
	compat_end(w);
}

void api_compat_unregister(struct request *rq)
{
	struct compat_waiting *w = compat_begin(rq, COMPAT_UNREGISTER);
	struct store_entity_id name;

	if (!w)
		return;
	name = name_of(&w->r);
	store_delete_entity(request_store(rq), &name, unregistered, w);
}

/* ---- reading ---- */

static void got(void *arg, int result, const struct store_entities *found)
{
	struct compat_waiting *w = arg;

	if (result && result != STORE_NOT_FOUND)
		api_fail(w->rq, result);
	else
		api_reply(w->rq, 200, compat_found(found));
	compat_end(w);
}

void api_compat_get(struct request *rq)
{
	struct compat_waiting *w = compat_begin(rq, COMPAT_GET_ENTITY);
	struct store_entity_id name;

	if (!w)
		return;
	name = name_of(&w->r);
	store_get_entity(request_store(rq), &name, got, w);
}
