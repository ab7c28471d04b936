/* SPDX-License-Identifier: Apache-2.0 */
/* A cap of bandwidth. It tells when the next bytes may be sent, and does not wait itself. [token]
 */
#ifndef SL_RATE_H
#define SL_RATE_H

#include <stdint.h>

#include "base/clock.h"

/* A caller that comes late may send as much as it missed in this time. */
#define SL_RATE_SLACK_NS (50 * SL_NS_PER_MS)

struct sl_rate {
	uint64_t bits_s;  /* 0: no cap */
	uint64_t next_ns; /* the bytes that were sent take until then */
};

/* When bytes may be sent: now, if that is past. */
static inline uint64_t sl_rate_next(const struct sl_rate *r)
{
	return r->next_ns;
}

/* Bytes are sent, at most SL_RATE_BYTES_MAX. */
#define SL_RATE_BYTES_MAX (UINT64_C(4) << 20)
static inline void sl_rate_take(struct sl_rate *r, uint64_t bytes, uint64_t now_ns)
{
	uint64_t from =
		r->next_ns + SL_RATE_SLACK_NS < now_ns ? now_ns - SL_RATE_SLACK_NS : r->next_ns;

	if (r->bits_s)
		r->next_ns = from + bytes * 8 * SL_NS_PER_S / r->bits_s;
}

#endif
