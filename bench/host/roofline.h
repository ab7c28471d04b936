/* SPDX-License-Identifier: Apache-2.0 */
/* What no measurement can be above: a figure that is was measured wrongly. */
#ifndef BENCH_ROOFLINE_H
#define BENCH_ROOFLINE_H

#include <stddef.h>

#include <stdint.h>

/* CPUs that this process may use. */
uint32_t roofline_cpus(void);

/* GB/s of memcpy of a block that stays in the caches, on one CPU: the best of some; takes 50 ms.
 * 0 without memory. */
double roofline_copy_gb_s(size_t block);

/* GB/s that these RDMA devices' ports that can be used have together (with commas between the
 * names; NULL or "all": each one's); 0: there are none, or they do not tell. */
double roofline_line_gb_s(const char *devices);

#endif
