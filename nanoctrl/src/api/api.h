/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the handlers of /v1 share: the scope of a request, its sender, and how a refusal of the
 * store is reported. Each function that returns false has replied.
 */
#ifndef NANOCTRL_API_H
#define NANOCTRL_API_H

#include <stdbool.h>
#include <stdint.h>
#include "api/digest.h"
#include "model/model.h"
#include "http/reply.h"
#include "http/request.h"
#include "http/route.h"
#include "store/store.h"

struct stream;

/* Of the numbers that order writes. */
#define API_ORDER_MAX ((UINT64_C(1) << 53) - 1)

/* The sender of a request: the lease of its Slime-Lease header. */
struct api_who {
	char agent[STORE_NAME_MAX + 1];
	char secret_hash[DIGEST_HEX];
	struct store_lease lease; /* points into this struct */
};

/* The scope, or NULL: replied. */
const char *api_scope(struct request *rq);

/* The same for a request whose scope was checked before. */
const char *api_scope_of(const struct request *rq);

/* The path's parameter as a name, or NULL: replied. */
const char *api_name(struct request *rq, const char *param);

/* The lease of the header. Without one: 401. */
bool api_lease(struct request *rq, struct api_who *who);

/* The lease, which must be that of the path's {name}. */
bool api_owner(struct request *rq, struct api_who *who);

bool api_has_lease(const struct request *rq);

/* A query parameter that is a number from min to max; absent is def. */
bool api_query_number(struct request *rq, const char *name, uint64_t min, uint64_t max,
		      uint64_t def, uint64_t *out);

/* The order of a write, from 1, by the query parameter that has to be there. */
bool api_order(struct request *rq, const char *name, uint64_t *out);

/* The selector of the query; NULL when there is none. */
bool api_selector(struct request *rq, const char **out);

/* limit, after, and selector (NULL when absent) of a list. */
struct api_page {
	unsigned limit;
	const char *after;
	const char *selector;
};
bool api_page(struct request *rq, struct api_page *out);

/* The cursor of the query; *given says whether there is one. */
bool api_cursor(struct request *rq, struct store_cursor *out, bool *given);

/* Whether the body may be read as JSON: 415 otherwise. */
bool api_is_json(struct request *rq);

/* Reply to a result of the store that is not 0. */
void api_fail(struct request *rq, int result);

/* The same for STORE_NAME_TAKEN, with a text of the model, which is freed; NULL is fine. */
void api_fail_taken(struct request *rq, char *holder);

/* The same for a registration that is STORE_STALE: with the order that is known. */
void api_fail_stale(struct request *rq, uint64_t order);

/* The same for a body that was refused. */
void api_refuse(struct request *rq, const struct model_error *err);

/* ?after= of a list that Redis scans: what the page before said, or "0". */
bool api_scan(struct request *rq, const char **out);
void api_bad_query(struct request *rq, const char *name, const char *expected);

/* Reply with a text of the model and free it; NULL is 500. */
void api_reply(struct request *rq, int status, char *text);

/* Tells a reader of events that some are missing, and the place from which it continues. If the
 * message does not fit, all queued messages are dropped: then there is room, if there is memory.
 * False: it has to be sent later. */
bool api_tell_reset(struct stream *stream, const struct store_cursor *at);

/* {"status":"ok"}; a store_done_fn whose argument is the request. */
store_done_fn api_done;

#endif
