/* SPDX-License-Identifier: Apache-2.0 */
/* The scopes that there are: docs/http-api.md. */
#ifndef NANOCTRL_API_SCOPE_H
#define NANOCTRL_API_SCOPE_H

#include "http/route.h"

route_fn api_scope_list;

#endif
