/* SPDX-License-Identifier: Apache-2.0 */
/* One-sided work of an endpoint, and immediates. */
#ifndef SL_XFER_H
#define SL_XFER_H

#include <stdbool.h>
#include <stddef.h>

#include "src/core/op.h"
#include "src/transport/transport.h"

struct slime_endpoint;

/*
 * One-sided work of the library's own, as slime_read/slime_write but for ops of sl_op_init(); also
 * counted against nothing.
 */
int sl_xfer_submit(struct slime_endpoint *ep, enum slime_op_kind kind,
		   const struct slime_xfer *xfers, size_t n, struct slime_op *op);

/* The checks of slime_read() and slime_write() for a caller that has entered the endpoint: 0 and
 * the bytes of the batch, or the error that they return. */
int sl_xfer_check(struct slime_endpoint *ep, struct sl_conn *conn, enum slime_op_kind kind,
		  const struct slime_xfer *xfers, size_t n, uint64_t *bytes);

/* xfer's part of the messages and of the end. */
bool sl_xfer_on_imm(struct slime_endpoint *ep, const struct sl_msg *m);
void sl_xfer_down(struct slime_endpoint *ep, int cause);

#endif
