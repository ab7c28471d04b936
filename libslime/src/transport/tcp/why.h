/* SPDX-License-Identifier: Apache-2.0 */
/* Why there is no link over tcp, for people: at which address, what happened there, and what to do
 * about it. */
#ifndef SL_TCP_WHY_H
#define SL_TCP_WHY_H

#include "src/transport/tcp/tcp.h"

/* We dialled the peer's address; status says how that ended, -ENOENT that the link is not expected
 * there. */
void tcp_why_unreached(const struct sockaddr_storage *to, int status, struct sl_why *out);

/* We waited at the address that we advertise. */
void tcp_why_not_met(const struct sockaddr_storage *advertised, struct sl_why *out);

#endif
