/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 as RFC 3629 has it: no surrogates, nothing overlong, nothing above U+10FFFF. */
#ifndef SL_BASE_UTF8_H
#define SL_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* The length of the character at text, of which len bytes (at least one) are there; 0 when it is
 * none. */
size_t sl_utf8_char(const char *text, size_t len);

bool sl_utf8_valid(const char *text, size_t len);

/* Whether the character of so many bytes drives whoever shows it: one of C0, DEL, or one of C1,
 * U+0080 to U+009F, which terminals take as well; an end of a line or paragraph, U+2028 and U+2029;
 * or a mark that turns the text around it, U+061C, U+200E, U+200F, U+202A to U+202E and U+2066 to
 * U+2069. */
bool sl_utf8_is_control(const char *text, size_t len);

/* Puts '?' for every byte that is no character, or is of a control character: what is left drives
 * no terminal and forges no line. */
void sl_utf8_make_printable(char *text);

#endif
