/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory a load may take: a machine that a benchmark drives into its limits measures
 * nothing, and may lose other processes. */
#ifndef LOAD_MEMORY_H
#define LOAD_MEMORY_H

#include <stdint.h>

/* What can be had without swapping: of the machine, and of the control group if it has a limit;
 * UINT64_MAX when the kernel does not say. */
uint64_t load_memory_available(void);

/* Half of it: a peer on the same machine takes about as much. */
uint64_t load_memory_budget(void);

#endif
