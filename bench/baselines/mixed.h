/* SPDX-License-Identifier: Apache-2.0 */
/* The bulk beside the calls of the mixed references: as slime-measure mixed has it. */
#ifndef BASELINES_MIXED_H
#define BASELINES_MIXED_H

#define MIXED_BLOCK    ((size_t)1 << 20)
#define MIXED_INFLIGHT 16

#endif
