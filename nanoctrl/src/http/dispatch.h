/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a request to its handler: whether the host and the origin may ask, the route, its decoded
 * parameters and query. A request that fails here is answered with an error and reaches no handler.
 */
#ifndef NANOCTRL_DISPATCH_H
#define NANOCTRL_DISPATCH_H

struct conn_ops;

/* Of all connections of a server. */
extern const struct conn_ops dispatch_ops;

#endif
