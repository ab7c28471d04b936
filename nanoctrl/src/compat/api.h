/* SPDX-License-Identifier: Apache-2.0 */
/* The routes that are compatible with DLSlime's NanoCtrl: docs/http-api.md 9. */
#ifndef NANOCTRL_API_COMPAT_H
#define NANOCTRL_API_COMPAT_H

#include <base/list.h>

#include "compat/later.h"
#include "compat/model.h"
#include "http/route.h"

/* A request that waits for the store, with what it said. */
struct compat_waiting {
	struct request *rq;
	struct compat_request r;
	struct sl_list node; /* of a list's waiting */
	struct store_later settled;
	void (*next)(struct compat_waiting *w); /* once its client can reach Redis */
};

/* The request as its form has it; NULL: replied. */
struct compat_waiting *compat_begin(struct request *rq, enum compat_form form);

/* After the reply. */
void compat_end(struct compat_waiting *w);

route_fn api_compat_heartbeat;
route_fn api_compat_register;
route_fn api_compat_unregister;
route_fn api_compat_get;
route_fn api_compat_list;
route_fn api_compat_start_peer;
route_fn api_compat_query;
route_fn api_compat_cleanup;
route_fn api_compat_topology;
route_fn api_compat_register_mr;
route_fn api_compat_get_mr;
route_fn api_compat_redis;

#endif
