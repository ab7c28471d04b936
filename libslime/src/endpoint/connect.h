/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How an endpoint gets its connection. The end with the lower id initiates: it tries its transports
 * in its own order, one after the other. The other end waits on all that both allow, and the first
 * that is ready is it. [token] for all of it.
 */
#ifndef SL_CONNECT_H
#define SL_CONNECT_H

#include "src/endpoint/endpoint.h"

/* Begin, or go on after an attempt failed; connections tell events. */
void sl_connect_step(struct slime_endpoint *ep, const struct sl_conn_events *events);

/* This one is ready: it is the endpoint's, and the others are closed. */
void sl_connect_succeeded(struct slime_endpoint *ep, struct sl_attempt *a);

/* This one ended before it was ready; sl_connect_step() decides what follows. */
void sl_connect_attempt_failed(struct slime_endpoint *ep, const struct sl_attempt *a, int cause,
			       const char *why);

/* No attempt is left, or the endpoint was closed meanwhile. */
void sl_connect_failed(struct slime_endpoint *ep, int cause, const char *why);

/* Of a connected endpoint, whose lock is held: the reasons why the transports before its own were
 * not used. */
void sl_connect_passed_over(const struct slime_endpoint *ep, char out[SLIME_CAUSE_TEXT_MAX]);

/* Once the transports were asked for their offers: why none can be had here; "" when one can. */
void sl_connect_no_transport(const struct slime_endpoint *ep, char out[SLIME_CAUSE_TEXT_MAX]);

/* Whether a connection is left that was not destroyed. */
bool sl_connect_has_attempt(const struct slime_endpoint *ep);

void sl_connect_destroy_broken(struct slime_endpoint *ep);

/* Of a context, with *out zeroed. */
sl_expect_fn sl_connect_expect;

/* Drop the offers that no connection has taken. */
void sl_connect_drop_offers(struct slime_endpoint *ep);

#endif
