/* SPDX-License-Identifier: Apache-2.0 */
#include "api/snapshot.h"

#include <string.h>
#include "api/api.h"
#include "store/store.h"

#define AFTER_MAX 4096

void api_snapshot_put(struct request *rq)
{
	size_t len;
	const char *body = request_body(rq, &len);
	const char *scope = api_scope(rq);
	struct model_snapshot m;
	struct model_error err;
	struct api_who who;

	if (!scope || !api_owner(rq, &who) || !api_is_json(rq))
		return;
	if (model_parse_snapshot(body, len, who.agent, &m, &err)) {
		api_refuse(rq, &err);
		return;
	}
	store_put_snapshot(request_store(rq), scope, &who.lease, m.doc, m.ttl_ms, api_done, rq);
	model_snapshot_fini(&m);
}

static void listed(void *arg, int result, const struct store_snapshots *page)
{
	if (result)
		api_fail(arg, result);
	else
		api_reply(arg, 200, model_snapshots(page, request_query(arg, "selector")));
}

/* The scope is one of either kind of agents: any text. */
void api_snapshot_list(struct request *rq)
{
	const char *scope = request_query(rq, "scope");
	const char *after = request_query(rq, "after");
	const char *selector;
	uint64_t limit;

	if (!scope)
		scope = "";
	if (!after)
		after = "";
	if (strlen(scope) > STORE_NAME_MAX) {
		api_bad_query(rq, "scope", "a scope");
		return;
	}
	if (strlen(after) > AFTER_MAX) {
		api_bad_query(rq, "after", "what a page said");
		return;
	}
	if (api_selector(rq, &selector) && api_query_number(rq, "limit", 1, 500, 100, &limit))
		store_list_snapshots(request_store(rq), (struct store_text){ scope, strlen(scope) },
				     (struct store_text){ after, strlen(after) }, (unsigned)limit,
				     selector, listed, rq);
}
