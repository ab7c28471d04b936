/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_DESCRIPTORS_H
#define CLI_DESCRIPTORS_H

#include <stdint.h>

/* Take as many descriptors as this process may have: each socket is one. Returns how many that are;
 * UINT64_MAX when the kernel does not say. */
uint64_t cli_descriptors_raise(void);

#endif
