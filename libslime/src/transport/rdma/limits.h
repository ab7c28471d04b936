/* SPDX-License-Identifier: Apache-2.0 */
/* The bounds of a connection, and of its queues. */
#ifndef SL_RDMA_LIMITS_H
#define SL_RDMA_LIMITS_H

#include "src/transport/rdma/wire.h"
#include "src/transport/transport.h"

/*
 * Beside the messages that the protocol's windows allow a peer has these on the way: credits for
 * immediates, and control frames; of rails, those of a life that ends and of the next. What answers
 * them leaves before their buffers are posted again, which is done for RDMA_POLL of them at once:
 * so many more are there, and no frame meets a queue without a receive.
 */
#define RDMA_CREDITS	 SL_WINDOW_IMM
#define RDMA_OPENS	 16 /* asked for and not answered */
#define RDMA_WITHDRAWS	 16 /* announced and not acknowledged */
#define RDMA_RAIL_FRAMES (2 * RDMA_RAILS_MAX * (RDMA_QPS_MAX + 2))
#define RDMA_CONTROLS	 (3 * RDMA_OPENS + 2 * RDMA_WITHDRAWS + RDMA_RAIL_FRAMES + 2)
#define RDMA_RECEIVES	 (SL_RING_ENTRIES + RDMA_CREDITS + RDMA_CONTROLS + RDMA_POLL)
/*
 * So many are posted for a rail that the peer does not lead over, which is each but the first of a
 * new link. Over one that it leads over from now on it sends at first how rails stopped, of two
 * lives each. All are posted when such a frame comes, and before the peer learns that we stopped
 * the rail it led over, for which its messages wait.
 */
#define RDMA_RECEIVES_IDLE (4 * RDMA_RAILS_MAX + RDMA_POLL)
#define RDMA_SENDS	   512u	      /* entries of a send queue: a power of two */
#define RDMA_INLINE	   128	      /* bytes that we ask for */
#define RDMA_SGES	   4	      /* same, of a request */
#define RDMA_PIECE_MAX	   (4u << 20) /* bytes of a request, where the device takes so many */
#define RDMA_BYTES	   (16u << 20) /* on the way on a queue pair: messages behind them wait so long */
#define RDMA_POLL	   16	       /* completions of one call */
#define RDMA_POLLS	   16	       /* calls of one pass */

#endif
