/* SPDX-License-Identifier: Apache-2.0 */
/* Percent-encoding in paths and queries. */
#ifndef NANOCTRL_PERCENT_H
#define NANOCTRL_PERCENT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Decodes len bytes into out, which has room for len + 1, and adds a NUL. With plus a '+' is a
 * space. False unless every '%' has two hex digits and the result is UTF-8 without NUL.
 */
bool percent_decode(const char *text, size_t len, bool plus, char *out);

#endif
