/* SPDX-License-Identifier: Apache-2.0 */
/* Time that only the test moves, for the library and for fakeverbs alike: clock_gettime() is
 * wrapped. So a bound holds or not, however busy the machine is. */
#ifndef TEST_RDMA_HELD_CLOCK_H
#define TEST_RDMA_HELD_CLOCK_H

#include <stdint.h>

void held_clock_begin(void);
void held_clock_step(uint64_t ns);
void held_clock_end(void);

#endif
