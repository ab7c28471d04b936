/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers of what agents own: regions, links and the exchange: docs/http-api.md 4 to 6. */
#ifndef NANOCTRL_API_OBJECT_H
#define NANOCTRL_API_OBJECT_H

#include "http/route.h"

route_fn api_region_publish;
route_fn api_region_withdraw;
route_fn api_region_get;
route_fn api_region_list_of;
route_fn api_region_list;
route_fn api_link_report;
route_fn api_link_forget;
route_fn api_link_list_of;
route_fn api_link_list;
route_fn api_offer_post;
route_fn api_offer_get;
route_fn api_offer_list;
route_fn api_offer_withdraw;

#endif
