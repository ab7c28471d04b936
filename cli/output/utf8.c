/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"
#include "cli/output/utf8.h"

#define CHAR_MAX_BYTES 4 /* the NUL is no continuation, so a cut one ends before it */

size_t cli_utf8_len(const char *text)
{
	return *text ? sl_utf8_char(text, CHAR_MAX_BYTES) : 0;
}

bool cli_utf8_valid(const char *text)
{
	while (*text) {
		size_t len = cli_utf8_len(text);

		if (!len)
			return false;
		text += len;
	}
	return true;
}
