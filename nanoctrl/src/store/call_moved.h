/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that wait until their slot of a Redis Cluster has moved. */
#ifndef NANOCTRL_STORE_CALL_MOVED_H
#define NANOCTRL_STORE_CALL_MOVED_H

#include <stdbool.h>
#include <hiredis/hiredis.h>

struct store;
struct store_call;

int store_moved_init(struct store *store);
void store_moved_fini(struct store *store);
/* Whether the error says that the slot is, or goes, elsewhere. */
bool store_is_redirect(const redisReply *reply);
/* No node has done the call: send it again a little later; false: it has waited long enough. */
bool store_wait_for_cluster(struct store_call *call);
/* The connection serves: send at once what waits. */
void store_moved_up(struct store *store);

#endif
