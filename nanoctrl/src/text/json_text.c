/* SPDX-License-Identifier: Apache-2.0 */
#include "text/json_text.h"

#include <stdio.h>
#include <string.h>
#include <base/utf8.h>

#define ESCAPE_MAX 6

size_t json_text(char *out, size_t room, const char *text)
{
	size_t at = 0, left = strlen(text);

	out[at++] = '"';
	while (left && at + ESCAPE_MAX + 2 <= room) {
		size_t n = sl_utf8_char(text, left);
		unsigned char c = (unsigned char)*text;

		if (!n)
			at += (size_t)sprintf(out + at, "\\ufffd");
		else if (c < 0x20 || c == 0x7f)
			at += (size_t)sprintf(out + at, "\\u%04x", c);
		else
			at += (size_t)sprintf(out + at, "%s%.*s", c == '"' || c == '\\' ? "\\" : "",
					      (int)n, text);
		n = n ? n : 1;
		text += n;
		left -= n;
	}
	out[at++] = '"';
	out[at] = '\0';
	return at;
}
