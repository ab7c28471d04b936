/* SPDX-License-Identifier: Apache-2.0 */
/* Reading offers that other agents made to this one. */
#ifndef AGENT_CTRL_OFFERS_H
#define AGENT_CTRL_OFFERS_H

struct ctrl;
struct nc_error;
struct nc_offer;
struct nc_page;

/* Report the offers that the page names. */
void ctrl_read_offers(struct ctrl *ctrl, const struct nc_page *page);
/* The answer to nc_get_offer(): report the offer. */
void ctrl_on_offer(void *arg, const struct nc_error *error, const struct nc_offer *offer);
/* The calls that read offers were cancelled. */
void ctrl_drop_offers(struct ctrl *ctrl);

#endif
