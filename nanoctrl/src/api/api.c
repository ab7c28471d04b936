/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "store/key.h"
#include "http/stream.h"

#define DEFAULT_SCOPE "default"
#define LEASE_HEADER  "Slime-Lease"

static void bad_request(struct request *rq, const char *code, const char *field, const char *what)
{
	struct reply_error e = { .status = 400, .code = code, .field = field };

	reply_error(rq, &e, "%s", what);
}

void api_bad_query(struct request *rq, const char *name, const char *expected)
{
	struct reply_error e = { .status = 400, .code = "bad_query", .field = name };

	reply_error(rq, &e, "%s is not %s", name, expected);
}

const char *api_scope_of(const struct request *rq)
{
	const char *scope = request_query(rq, "scope");

	return scope ? scope : DEFAULT_SCOPE;
}

const char *api_scope(struct request *rq)
{
	const char *scope = api_scope_of(rq);

	if (key_scope_valid(scope))
		return scope;
	bad_request(rq, "bad_name", "scope",
		    "a scope is 1 to 253 of [A-Za-z0-9._@-] and no reserved word");
	return NULL;
}

const char *api_name(struct request *rq, const char *param)
{
	const char *name = request_param(rq, param);

	if (key_name_valid(name))
		return name;
	bad_request(rq, "bad_name", param, "a name is 1 to 253 of [A-Za-z0-9._:@-]");
	return NULL;
}

bool api_has_lease(const struct request *rq)
{
	return request_has_header(rq, LEASE_HEADER);
}

/* "agent/id/secret" */
static bool parse_lease(const char *text, struct api_who *who)
{
	const char *id = strchr(text, '/');
	const char *secret = id ? strchr(id + 1, '/') : NULL;
	char *end;

	if (!secret || (size_t)(id - text) >= sizeof(who->agent) || secret - id > 17 ||
	    id[1] < '0' || id[1] > '9' || strlen(secret + 1) != STORE_SECRET_HEX)
		return false;
	memcpy(who->agent, text, (size_t)(id - text));
	who->agent[id - text] = '\0';
	who->lease.id = strtoull(id + 1, &end, 10);
	if (end != secret || !key_name_valid(who->agent))
		return false;
	if (digest_sha256(secret + 1, STORE_SECRET_HEX, who->secret_hash))
		return false;
	who->lease.agent = who->agent;
	who->lease.secret_hash = who->secret_hash;
	return true;
}

bool api_lease(struct request *rq, struct api_who *who)
{
	const char *text = request_header(rq, LEASE_HEADER);
	struct reply_error none = { .status = 401,
				    .code = "lease_required",
				    .field = LEASE_HEADER };

	if (!text) {
		reply_error(rq, &none, "the " LEASE_HEADER " header is missing, or there twice");
		return false;
	}
	if (parse_lease(text, who))
		return true;
	bad_request(rq, "bad_lease", LEASE_HEADER, "the " LEASE_HEADER " header is not a lease");
	return false;
}

bool api_owner(struct request *rq, struct api_who *who)
{
	const char *name = api_name(rq, "name");
	struct reply_error other = { .status = 403, .code = "forbidden", .field = LEASE_HEADER };

	if (!name || !api_lease(rq, who))
		return false;
	if (strcmp(name, who->agent) == 0)
		return true;
	reply_error(rq, &other, "the lease is that of %s", who->agent);
	return false;
}

bool api_query_number(struct request *rq, const char *name, uint64_t min, uint64_t max,
		      uint64_t def, uint64_t *out)
{
	const char *text = request_query(rq, name);
	char expected[80];
	size_t len;

	*out = def;
	if (!text)
		return true;
	len = strlen(text);
	if (len && len <= 16 && strspn(text, "0123456789") == len) {
		*out = strtoull(text, NULL, 10);
		if (*out >= min && *out <= max)
			return true;
	}
	snprintf(expected, sizeof(expected), "a number from %llu to %llu", (unsigned long long)min,
		 (unsigned long long)max);
	api_bad_query(rq, name, expected);
	return false;
}

bool api_order(struct request *rq, const char *name, uint64_t *out)
{
	if (request_query(rq, name))
		return api_query_number(rq, name, 1, API_ORDER_MAX, 0, out);
	api_bad_query(rq, name, "there: it says which of two requests is the newer one");
	return false;
}

bool api_selector(struct request *rq, const char **out)
{
	*out = request_query(rq, "selector");
	if (!*out || model_selector_valid(*out))
		return true;
	api_bad_query(
		rq, "selector",
		"a list of label=value, each label once and no blanks or quotes around a value");
	return false;
}

bool api_page(struct request *rq, struct api_page *out)
{
	uint64_t limit;

	out->after = request_query(rq, "after");
	if (!out->after)
		out->after = "";
	if (*out->after && !key_name_valid(out->after)) {
		api_bad_query(rq, "after", "a name");
		return false;
	}
	if (!api_selector(rq, &out->selector) ||
	    !api_query_number(rq, "limit", 1, 500, 100, &limit))
		return false;
	out->limit = (unsigned)limit;
	return true;
}

bool api_scan(struct request *rq, const char **out)
{
	const char *text = request_query(rq, "after");
	size_t len = text ? strlen(text) : 0;

	*out = text ? text : "0";
	if (!text || (len && len <= 20 && strspn(text, "0123456789") == len))
		return true;
	api_bad_query(rq, "after", "what a page said");
	return false;
}

bool api_cursor(struct request *rq, struct store_cursor *out, bool *given)
{
	const char *text = request_query(rq, "cursor");

	*out = (struct store_cursor){ 0 };
	*given = text != NULL;
	if (!text || model_parse_cursor(text, out))
		return true;
	bad_request(rq, "bad_cursor", "cursor", "a cursor is EPOCH:ID");
	return false;
}

/* application/json, or application/ANYTHING+json, with or without parameters. */
static bool is_json_type(const char *type)
{
	static const char application[] = "application/";
	size_t len;

	if (!type || strncasecmp(type, application, sizeof(application) - 1) != 0)
		return false;
	type += sizeof(application) - 1;
	len = strcspn(type, "; \t");
	return (len == 4 && !strncasecmp(type, "json", 4)) ||
	       (len > 5 && !strncasecmp(type + len - 5, "+json", 5));
}

bool api_is_json(struct request *rq)
{
	struct reply_error e = { .status = 415,
				 .code = "unsupported_media_type",
				 .field = "Content-Type" };

	if (is_json_type(request_header(rq, "Content-Type")))
		return true;
	reply_error(rq, &e, "the body is not declared as application/json");
	return false;
}

struct refusal {
	int result;
	int status;
	const char *code;
	enum reply_outcome outcome;
	const char *message;
};

static const struct refusal refusals[] = {
	{ STORE_NOT_FOUND, 404, "not_found", OUTCOME_NOT_EXECUTED, "there is no such thing" },
	{ STORE_NAME_TAKEN, 409, "name_taken", OUTCOME_NOT_EXECUTED,
	  "another owner holds the name until its lease ends" },
	{ STORE_SUPERSEDED, 409, "superseded", OUTCOME_NOT_EXECUTED,
	  "a newer process of the same owner holds the name" },
	{ STORE_LEASE_GONE, 410, "lease_gone", OUTCOME_NOT_EXECUTED, "the lease has ended" },
	{ STORE_REPLACED, 409, "superseded", OUTCOME_NOT_EXECUTED, "the session was replaced" },
	{ STORE_STALE, 409, "stale", OUTCOME_NOT_EXECUTED, "a newer one was executed before" },
	{ STORE_PEER_NOT_FOUND, 404, "peer_not_found", OUTCOME_NOT_EXECUTED,
	  "the peer is not registered" },
	{ STORE_PEER_CHANGED, 409, "peer_changed", OUTCOME_NOT_EXECUTED,
	  "the peer is another incarnation" },
	{ STORE_TOO_MANY, 429, "too_many_objects", OUTCOME_NOT_EXECUTED,
	  "the agent owns too many objects" },
	{ STORE_INBOX_FULL, 429, "inbox_full", OUTCOME_NOT_EXECUTED,
	  "the peer has too many offers" },
	{ STORE_TOO_LARGE, 413, "too_large", OUTCOME_NOT_EXECUTED,
	  "one agent has more than a list holds" },
	{ -EBUSY, 503, "busy", OUTCOME_NOT_EXECUTED, "too many requests are in flight" },
	{ -ENOTCONN, 503, "unavailable", OUTCOME_NOT_EXECUTED, "Redis cannot be reached" },
	{ -EAGAIN, 503, "unavailable", OUTCOME_NOT_EXECUTED, "Redis refuses at the moment" },
	{ -EIO, 503, "unavailable", OUTCOME_UNKNOWN, "Redis broke off before its answer" },
	{ -EPROTO, 500, "internal", OUTCOME_UNKNOWN, "the answer of Redis makes no sense" },
	{ -ENOMEM, 500, "internal", OUTCOME_NOT_EXECUTED, "out of memory" },
};

static void fail(struct request *rq, int result, const char *holder, uint64_t order)
{
	struct reply_error e = { .status = 500, .code = "internal", .outcome = OUTCOME_UNKNOWN };
	const char *message = "an unexpected outcome of the store";

	e.holder = holder;
	e.order = order;
	for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++) {
		if (refusals[i].result != result)
			continue;
		e.status = refusals[i].status;
		e.code = refusals[i].code;
		e.outcome = refusals[i].outcome;
		message = refusals[i].message;
		e.retry_after_s = e.status == 503 || e.status == 429 ? 1 : 0;
	}
	reply_error(rq, &e, "%s", message);
}

void api_fail(struct request *rq, int result)
{
	fail(rq, result, NULL, 0);
}

void api_fail_stale(struct request *rq, uint64_t order)
{
	fail(rq, STORE_STALE, NULL, order);
}

void api_fail_taken(struct request *rq, char *holder)
{
	fail(rq, STORE_NAME_TAKEN, holder, 0);
	free(holder);
}

void api_refuse(struct request *rq, const struct model_error *err)
{
	struct reply_error e = { .status = err->status,
				 .code = err->code,
				 .field = *err->field ? err->field : NULL };

	reply_error(rq, &e, "%s", err->message);
}

void api_reply(struct request *rq, int status, char *text)
{
	if (text)
		reply_json(rq, status, text, strlen(text));
	else
		api_fail(rq, -ENOMEM);
	free(text);
}

bool api_tell_reset(struct stream *stream, const struct store_cursor *at)
{
	char cursor[MODEL_CURSOR_MAX];
	char line[MODEL_CURSOR_MAX + 64];
	size_t len;

	model_format_cursor(cursor, at);
	len = (size_t)snprintf(line, sizeof(line), "{\"type\":\"reset\",\"cursor\":\"%s\"}",
			       cursor);
	return stream_send(stream, line, len) != -ENOBUFS ||
	       stream_send(stream, line, len) != -ENOBUFS;
}

void api_done(void *arg, int result)
{
	static const char ok[] = "{\"status\":\"ok\"}";

	if (result)
		api_fail(arg, result);
	else
		reply_json(arg, 200, ok, sizeof(ok) - 1);
}
