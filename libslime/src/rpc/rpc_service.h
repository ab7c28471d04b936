/* SPDX-License-Identifier: Apache-2.0 */
/* A service: the table of the methods that endpoints offer to their peers. */
#ifndef SL_RPC_SERVICE_H
#define SL_RPC_SERVICE_H

#include <pthread.h>
#include <stdint.h>

#include "src/progress/context.h"
#include <slime/rpc.h>

struct sl_rpc;

struct sl_method {
	uint64_t id; /* 0: a free place of the table */
	char *name;
	struct slime_rpc_method_attr attr;
};

struct slime_rpc_service {
	struct slime_context *ctx;
	struct sl_rpc *rpc;
	pthread_mutex_t lock; /* of changes; a service in use does not change */
	uint32_t n_endpoints;
	uint32_t n_methods;
	uint32_t n_places; /* a power of two, at most half full */
	struct sl_method *table;
};

/* An endpoint begins and ends to use the service, which may be NULL. */
void sl_rpc_service_attach(struct slime_rpc_service *s);
void sl_rpc_service_detach(struct slime_rpc_service *s);

/* The method with that id, or NULL. The caller has attached. */
const struct sl_method *sl_rpc_service_find(const struct slime_rpc_service *s, uint64_t id);

#endif
