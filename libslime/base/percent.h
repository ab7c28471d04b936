/* SPDX-License-Identifier: Apache-2.0 */
/* Percent-encoding in paths and queries. */
#ifndef NANOCTRL_PERCENT_H
#define NANOCTRL_PERCENT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Decodes len bytes into out, which has room for len + 1, and adds a NUL. In a query a '+' is a
 * space, and a '%' without two hex digits is refused; in a path it stands for itself, since some
 * clients do not encode names. False for that, and unless the result is UTF-8 without NUL.
 */
bool percent_decode(const char *text, size_t len, bool query, char *out);

#endif
