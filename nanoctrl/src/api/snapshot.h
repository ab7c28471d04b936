/* SPDX-License-Identifier: Apache-2.0 */
/* The snapshots of agents: docs/http-api.md 6. */
#ifndef NANOCTRL_API_SNAPSHOT_H
#define NANOCTRL_API_SNAPSHOT_H

#include "http/route.h"

route_fn api_snapshot_put;
route_fn api_snapshot_list;

#endif
