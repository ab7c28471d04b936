/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "base/utf8.h"
#include "cli/output/quote.h"
#include "cli/output/utf8.h"

char *cli_quote(char out[static CLI_QUOTE_MAX], const char *text)
{
	const size_t room = CLI_QUOTE_MAX - sizeof("...\"");
	size_t n = 0;

	out[n++] = '"';
	while (*text) {
		size_t len = cli_utf8_len(text);

		if (n + (len ? len : 1) > room) {
			for (int i = 0; i < 3; i++)
				out[n++] = '.';
			break;
		}
		if (!len || sl_utf8_is_control(text, len)) {
			out[n++] = '?';
			text += len ? len : 1;
			continue;
		}
		while (len--)
			out[n++] = *text++;
	}
	out[n++] = '"';
	out[n] = '\0';
	return out;
}
