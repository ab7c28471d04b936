/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 as RFC 3629 has it: no surrogates, nothing overlong, nothing above U+10FFFF. */
#ifndef NANOCTRL_UTF8_H
#define NANOCTRL_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* The length of the character at text, of which len bytes (at least one) are there; 0 when it is
 * none. */
size_t utf8_char(const char *text, size_t len);

bool utf8_valid(const char *text, size_t len);

#endif
