/* SPDX-License-Identifier: Apache-2.0 */
/* JSON strings, for the few lines of JSON that are written without a model. */
#ifndef NANOCTRL_JSON_TEXT_H
#define NANOCTRL_JSON_TEXT_H

#include <stddef.h>

/*
 * Writes text as a JSON string with its quotes and a NUL, cut to fit into room (at least 3) bytes;
 * what is not UTF-8 becomes U+FFFD. Returns its length.
 */
size_t json_text(char *out, size_t room, const char *text);

#endif
