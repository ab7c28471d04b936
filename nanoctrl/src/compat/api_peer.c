/* SPDX-License-Identifier: Apache-2.0 */
/* Agents of the compatible routes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <base/utf8.h>
#include "api/api.h"
#include "compat/api.h"
#include "compat/private_port.h"
#include "compat/reach.h"

/* ---- start, cleanup ---- */

static void say_unreachable(struct request *rq, const char *why)
{
	struct reply_error e = { .status = 409, .code = "redis_unreachable" };

	reply_error(rq, &e, "%s", why);
}

static int redis_address(const struct compat_waiting *w, char out[STORE_REDIS_ADDRESS_MAX])
{
	return store_redis_address(request_store(w->rq), w->r.address, request_local(w->rq), out);
}

static void started(void *arg, int result, const struct store_peer *peer, size_t n)
{
	struct compat_waiting *w = arg;
	struct reply_error taken = { .status = 409, .code = "name_taken", .field = "alias" };
	char redis[STORE_REDIS_ADDRESS_MAX];

	(void)n;
	if (result == STORE_OK &&
	    (redis_address(w, redis) || !sl_utf8_valid(peer->name.at, peer->name.len)))
		result = -EPROTO;
	if (result == STORE_OK)
		api_reply(w->rq, 200, compat_started(&w->r, peer->name, redis));
	else if (result == STORE_NAME_TAKEN)
		reply_error(w->rq, &taken, "Peer agent alias '%s' already exists in this scope",
			    w->r.name.at);
	else
		api_fail(w->rq, result);
	compat_end(w);
}

static void put_peer(struct compat_waiting *w)
{
	struct store_peer peer = { .name = w->r.name,
				   .address = w->r.address,
				   .device = w->r.device,
				   .port = w->r.port,
				   .link_type = w->r.link_type,
				   .resource = w->r.resource };

	store_put_peer(request_store(w->rq), w->r.scope, &peer, w->r.prefix, started, w);
}

static void reached(void *arg, int result, const char *why)
{
	struct compat_waiting *w = arg;

	if (!result) {
		w->next(w);
		return;
	}
	if (result == -ENOTSUP)
		say_unreachable(w->rq, why);
	else
		api_fail(w->rq, result);
	compat_end(w);
}

static void opened(void *arg, int result);

/* With w, once its client can reach Redis; else the client is told so. */
static void with_redis(struct compat_waiting *w, void (*next)(struct compat_waiting *w))
{
	char redis[STORE_REDIS_ADDRESS_MAX];
	int ret = redis_address(w, redis);

	w->next = next;
	if (ret == -EAGAIN) {
		private_port_open(request_store(w->rq), opened, w);
	} else if (ret == -ENOTCONN) {
		api_fail(w->rq, ret);
		compat_end(w);
	} else if (ret) {
		say_unreachable(w->rq, redis);
		compat_end(w);
	} else if (w->r.address.at) {
		store_reach(request_store(w->rq), redis, w->r.address, reached, w);
	} else {
		next(w);
	}
}

/* The private Redis listens, or does not. */
static void opened(void *arg, int result)
{
	struct compat_waiting *w = arg;

	if (!result) {
		with_redis(w, w->next);
		return;
	}
	if (result == -ENOTSUP)
		say_unreachable(w->rq, "the private Redis cannot listen for clients: see the log");
	else
		api_fail(w->rq, result);
	compat_end(w);
}

void api_compat_start_peer(struct request *rq)
{
	struct compat_waiting *w = compat_begin(rq, COMPAT_START_PEER);

	if (w)
		with_redis(w, put_peer);
}

static void cleaned(void *arg, int result)
{
	struct compat_waiting *w = arg;

	if (result)
		api_fail(w->rq, result);
	else
		api_reply(w->rq, 200,
			  compat_message("ok", "Cleaned up agent: ", w->r.name, "",
					 (struct store_text){ "", 0 }, ""));
	compat_end(w);
}

static void clean(struct store_later *later)
{
	struct compat_waiting *w = SL_CONTAINER_OF(later, struct compat_waiting, settled);

	store_cleanup_peer(request_store(w->rq), w->r.scope, w->r.name, cleaned, w);
}

void api_compat_cleanup(struct request *rq)
{
	struct compat_waiting *w = compat_begin(rq, COMPAT_CLEANUP);

	if (!w)
		return;
	w->settled.fn = clean;
	store_wait_for_index(request_store(rq), &w->settled);
}

/* ---- targets ---- */

static void done(void *arg, int result)
{
	struct compat_waiting *w = arg;

	api_done(w->rq, result);
	compat_end(w);
}

void api_compat_topology(struct request *rq)
{
	const char *agent = request_param(rq, "agent_id");
	struct compat_waiting *w;
	char *spec;

	if (strlen(agent) > COMPAT_NAME_MAX) {
		reply_error(rq,
			    &(struct reply_error){
				    .status = 422, .code = "bad_value", .field = "agent_id" },
			    "agent_id is longer than %d bytes", COMPAT_NAME_MAX);
		return;
	}
	w = compat_begin(rq, COMPAT_TOPOLOGY);
	if (!w)
		return;
	spec = compat_spec(&w->r);
	if (spec)
		store_put_targets(request_store(rq), w->r.scope,
				  (struct store_text){ agent, strlen(agent) },
				  w->r.symmetric.len == strlen("true"),
				  (struct store_text){ spec, strlen(spec) }, w->r.targets,
				  w->r.n_targets, done, w);
	else
		done(w, -ENOMEM);
	free(spec);
}

/* ---- memory regions ---- */

void api_compat_register_mr(struct request *rq)
{
	struct compat_waiting *w = compat_begin(rq, COMPAT_REGISTER_MR);
	char *value;

	if (!w)
		return;
	value = compat_mr(&w->r);
	if (value)
		store_put_mr(request_store(rq), w->r.scope, w->r.name, w->r.mr,
			     (struct store_text){ value, strlen(value) }, done, w);
	else
		done(w, -ENOMEM);
	free(value);
}

static void mr_got(void *arg, int result, const struct store_entities *found)
{
	struct compat_waiting *w = arg;

	if (result && result != STORE_NOT_FOUND)
		api_fail(w->rq, result);
	else
		api_reply(w->rq, 200, compat_mr_info(found));
	compat_end(w);
}

void api_compat_get_mr(struct request *rq)
{
	struct compat_waiting *w = compat_begin(rq, COMPAT_GET_MR);

	if (w)
		store_get_mr(request_store(rq), w->r.scope, w->r.name, w->r.mr, mr_got, w);
}

/* ---- Redis ---- */

static void tell_redis(struct compat_waiting *w)
{
	char redis[STORE_REDIS_ADDRESS_MAX];

	if (redis_address(w, redis))
		api_fail(w->rq, -EPROTO);
	else
		api_reply(w->rq, 200, compat_redis(redis));
	compat_end(w);
}

/* The client does not say where it is: it is told what one elsewhere is told, untried. */
void api_compat_redis(struct request *rq)
{
	struct compat_waiting *w = compat_begin(rq, COMPAT_NOTHING);

	if (w)
		with_redis(w, tell_redis);
}
