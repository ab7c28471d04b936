/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

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

/* Whether it is short and can be typed between single quotes. */
static bool is_typeable(const char *text)
{
	if (strlen(text) > CLI_QUOTE_MAX - 3)
		return false;
	while (*text) {
		size_t len = cli_utf8_len(text);

		if (!len || *text == '\'' || sl_utf8_is_control(text, len))
			return false;
		text += len;
	}
	return true;
}

char *cli_quote_word(char out[static CLI_QUOTE_MAX], const char *text)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
				    "_@%+=:,./-";

	if (!is_typeable(text))
		return cli_quote(out, text);
	snprintf(out, CLI_QUOTE_MAX, *text && strspn(text, plain) == strlen(text) ? "%s" : "'%s'",
		 text);
	return out;
}
