/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "cli/utf8.h"

/* The smallest code point that needs so many bytes. */
static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };

size_t cli_utf8_len(const char *text)
{
	const unsigned char *c = (const unsigned char *)text;
	uint32_t code;
	size_t len;

	if (c[0] < 0x80)
		return c[0] ? 1 : 0;
	if (c[0] < 0xc0 || c[0] >= 0xf8)
		return 0;
	len = c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;
	code = c[0] & (0x7fu >> len);
	/* The NUL is no continuation, so this stops there. */
	for (size_t i = 1; i < len; i++) {
		if ((c[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (c[i] & 0x3f);
	}
	if (code < smallest[len] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
		return 0;
	return len;
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
