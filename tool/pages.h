/* SPDX-License-Identifier: Apache-2.0 */
/* slime pages: what a store of pages is made of, and why a get of a key hits or misses. */
#ifndef TOOL_PAGES_H
#define TOOL_PAGES_H

#include <stdio.h>

#include "tool/options.h"

/* key NULL: its owners alone. Returns the exit status: failure when no owner can be reached, or
 * when a get of the key misses. */
int pages_explain(const struct options *o, const char *key, FILE *to);

#endif
