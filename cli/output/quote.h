/* SPDX-License-Identifier: Apache-2.0 */
/* Foreign text inside an error line. */
#ifndef CLI_QUOTE_H
#define CLI_QUOTE_H

#define CLI_QUOTE_MAX 96

/* text in double quotes, control characters and bad UTF-8 as '?', cut with "..." where it is long.
 * Returns out. */
char *cli_quote(char out[static CLI_QUOTE_MAX], const char *text);

#endif
