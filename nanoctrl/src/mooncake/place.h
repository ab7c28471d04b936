/* SPDX-License-Identifier: Apache-2.0 */
/* Where this process is: a loopback address of another place is of another owner. */
#ifndef NANOCTRL_MOONCAKE_PLACE_H
#define NANOCTRL_MOONCAKE_PLACE_H

/* The boot of this host and the network namespace. Where the kernel does not say, a word that no
 * other process has. */
const char *mooncake_place(void);

#endif
