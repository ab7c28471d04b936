/* SPDX-License-Identifier: Apache-2.0 */
/* The routes that are compatible with DLSlime's NanoCtrl: docs/http-api.md 9. */
#ifndef NANOCTRL_API_COMPAT_H
#define NANOCTRL_API_COMPAT_H

#include "route.h"

route_fn api_compat_heartbeat;
route_fn api_compat_register;
route_fn api_compat_unregister;
route_fn api_compat_get;
route_fn api_compat_list;

#endif
