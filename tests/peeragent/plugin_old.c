/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin of an ABI that the program does not know. */
#include <slime/plugin.h>

const struct slime_plugin slime_plugin = { .abi = 0, .size = 16, .name = "old" };
