/* SPDX-License-Identifier: Apache-2.0 */
/* A bandwidth as users write it: "100Gbps". */
#ifndef SL_BANDWIDTH_H
#define SL_BANDWIDTH_H

#include <stdint.h>

#define SL_BANDWIDTH_MAX UINT64_C(1000000000000000) /* 1000 Tbps */

/* Bits per second of a number of bps, Kbps, Mbps, Gbps or Tbps, 1 bps to SL_BANDWIDTH_MAX.
 * -EINVAL. */
int sl_bandwidth_parse(const char *text, uint64_t *out);

#endif
