/* SPDX-License-Identifier: Apache-2.0 */
#include "mooncake/routes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>

#include "api/api.h"
#include "mooncake/directory.h"
#include "mooncake/probe.h"
#include "mooncake/sweep.h"

/* The query's key, or false: replied. */
static bool read_key(struct request *rq, struct mooncake_key *out)
{
	const char *text = request_query(rq, "key");

	if (text && mooncake_key_parse(text, out))
		return true;
	api_bad_query(
		rq, "key",
		"mooncake/[CLUSTER/]rpc_meta/NAME or mooncake/[CLUSTER/]ram/NAME, of at most 512 "
		"printable characters");
	return false;
}

static void refuse_body(struct request *rq, const char *what)
{
	struct reply_error e = { .status = 400, .code = "bad_json", .field = "body" };

	reply_error(rq, &e, "the body %s", what);
}

/* Whether the body is JSON, as its readers expect; of rpc_meta the owner's port. Else replied. */
static bool read_body(struct request *rq, enum mooncake_field field, uint16_t *port)
{
	size_t len;
	const char *body = request_body(rq, &len);
	json_t *value = json_loadb(body, len, JSON_REJECT_DUPLICATES, NULL);
	json_t *number = json_object_get(value, "rpc_port");
	json_int_t n = json_is_integer(number) ? json_integer_value(number) : 0;
	const char *wrong = NULL;

	if (!value)
		wrong = "is not JSON";
	else if (field == MOONCAKE_RPC_META && (n < 1 || n > UINT16_MAX))
		wrong = "has no rpc_port from 1 to 65535";
	json_decref(value);
	if (wrong)
		refuse_body(rq, wrong);
	*port = (uint16_t)n;
	return !wrong;
}

/* ---- PUT ---- */

#define ID_BYTES 8

/* A put that waits for the store, or for a probe. */
struct put {
	struct request *rq;
	struct mooncake_key key;
	struct mooncake_kept_owner self;  /* of rpc_meta: the publisher */
	struct mooncake_kept_owner other; /* the holder of the name, if there is one */
	struct probe *probe;
	bool again; /* the other was found dead */
};

static void end_put(struct put *put, int result)
{
	struct request *rq = put->rq;

	free(put);
	api_done(rq, result);
}

static void refuse_put(struct put *put, const char *why)
{
	struct reply_error e = { .status = 409, .code = "name_taken", .field = "key" };

	reply_error(put->rq, &e,
		    "an owner at %s port %u published %s before and has not removed it: %s",
		    put->other.address, put->other.owner.port, put->key.engine, why);
	free(put);
}

/* The client has gone, or the server drains: nothing was stored. */
static void on_end(void *arg, struct request *rq, enum request_end why)
{
	struct put *put = arg;

	(void)rq;
	(void)why;
	if (!put->probe)
		return;
	probe_cancel(put->probe);
	end_put(put, -ENOTCONN);
}

static void store_it(struct put *put);

static void on_other_noted(void *arg, int result, bool removed)
{
	struct put *put = arg;

	if (result && result != STORE_NOT_FOUND) {
		end_put(put, result);
		return;
	}
	if (!result && !removed) {
		refuse_put(
			put,
			"nothing listens there, and nothing was seen to listen before, so it may "
			"be elsewhere; DELETE the key if it is dead");
		return;
	}
	if (removed)
		mooncake_note_death(&put->other.owner);
	put->again = true;
	store_it(put);
}

static void on_other_probed(void *arg, enum probe_outcome outcome)
{
	struct put *put = arg;

	put->probe = NULL;
	/* Where the new life is, the old one would be as well. */
	put->other.owner.seen =
		put->other.owner.is_here && !strcmp(put->other.address, put->self.address);
	if (outcome == PROBE_REFUSED)
		directory_probed(request_store(put->rq), &put->other.owner, false, on_other_noted,
				 put);
	else
		refuse_put(put,
			   outcome == PROBE_ALIVE
				   ? "it lives"
				   : "it does not answer, and may live; DELETE the key if not");
}

static void begin_probe(struct put *put)
{
	put->probe = probe_begin(request_base(put->rq), put->other.address, put->other.owner.port,
				 on_other_probed, put);
	if (!put->probe) {
		refuse_put(put,
			   "it cannot be probed now; try again, or DELETE the key if it is dead");
		return;
	}
	mooncake_note_probe();
	request_on_end(put->rq, on_end, put);
}

/* It may be dead, and no sweep has found that yet. */
static void probe_other(struct put *put, const struct mooncake_owner *other)
{
	struct mooncake_owner named = *other;

	named.engine = put->key.engine;
	mooncake_keep_owner(&put->other, &named);
	if (put->again)
		refuse_put(put, "it came at the same time");
	else if (!other->may_probe)
		refuse_put(put, "it was probed less than 5 s ago; try again");
	else
		begin_probe(put);
}

static void on_stored(void *arg, int result, const struct mooncake_owner *other)
{
	struct put *put = arg;

	if (result == STORE_NAME_TAKEN)
		probe_other(put, other);
	else
		end_put(put, result);
}

static void store_it(struct put *put)
{
	struct store_text value;

	value.at = request_body(put->rq, &value.len);
	directory_put(request_store(put->rq), &put->key, value, &put->self.owner, on_stored, put);
}

static void put_value(struct request *rq)
{
	char id[2 * ID_BYTES + 1];
	struct mooncake_key key;
	uint16_t port = 0;
	struct put *put;

	if (!read_key(rq, &key) || !read_body(rq, key.field, &port))
		return;
	put = digest_random(id, ID_BYTES) ? NULL : calloc(1, sizeof(*put));
	if (!put) {
		api_fail(rq, -ENOMEM);
		return;
	}
	put->rq = rq;
	put->key = key;
	mooncake_keep_owner(&put->self, &(struct mooncake_owner){ .engine = put->key.engine,
								  .address = request_peer(rq),
								  .port = port,
								  .id = id });
	store_it(put);
}

/* ---- GET, DELETE ---- */

static void on_value(void *arg, int result, struct store_text value)
{
	if (result)
		api_fail(arg, result);
	else
		reply_json(arg, 200, value.at, value.len);
}

static void get_value(struct request *rq)
{
	struct mooncake_key key;

	if (read_key(rq, &key))
		directory_get(request_store(rq), &key, on_value, rq);
}

static void delete_value(struct request *rq)
{
	struct mooncake_key key;

	if (read_key(rq, &key))
		directory_delete(request_store(rq), &key, api_done, rq);
}

const struct route mooncake_routes[] = {
	{ HTTP_GET, "/metadata", get_value },
	{ HTTP_PUT, "/metadata", put_value },
	{ HTTP_DELETE, "/metadata", delete_value },
};
const size_t mooncake_n_routes = sizeof(mooncake_routes) / sizeof(mooncake_routes[0]);
