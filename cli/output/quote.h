/* SPDX-License-Identifier: Apache-2.0 */
/* Foreign text inside an error line. */
#ifndef CLI_QUOTE_H
#define CLI_QUOTE_H

#define CLI_QUOTE_MAX 96

/* text in double quotes, control characters and bad UTF-8 as '?', cut with "..." where it is long.
 * Returns out. */
char *cli_quote(char out[static CLI_QUOTE_MAX], const char *text);

/* The same for a word of a command that people are to type: as it stands where a shell takes it so,
 * and in single quotes else. What cannot be typed makes it a text as above. Returns out. */
char *cli_quote_word(char out[static CLI_QUOTE_MAX], const char *text);

#endif
