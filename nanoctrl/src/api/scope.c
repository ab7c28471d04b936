/* SPDX-License-Identifier: Apache-2.0 */
#include "api/scope.h"

#include "api/api.h"

static void listed(void *arg, int result, const struct store_scope *scopes, size_t n,
		   const char *next)
{
	if (result)
		api_fail(arg, result);
	else
		api_reply(arg, 200, model_scopes(scopes, n, next));
}

void api_scope_list(struct request *rq)
{
	const char *after;
	uint64_t limit;

	if (api_scan(rq, &after) && api_query_number(rq, "limit", 1, 500, 100, &limit))
		store_list_scopes(request_store(rq), after, (unsigned)limit, listed, rq);
}
