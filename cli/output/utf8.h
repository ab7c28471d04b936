/* SPDX-License-Identifier: Apache-2.0 */
/* Characters in bytes that may be anything. */
#ifndef CLI_UTF8_H
#define CLI_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The length in bytes of the character at text, which ends with NUL: 0 when it is not one (overlong
 * forms, surrogates and cut ones are none) or text is at its end.
 */
size_t cli_utf8_len(const char *text);

bool cli_utf8_valid(const char *text);

#endif
