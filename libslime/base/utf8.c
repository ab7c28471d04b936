/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

size_t sl_utf8_char(const char *text, size_t len)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *s = (const unsigned char *)text;
	size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	uint32_t c;

	if (n < 2)
		return n;
	if (s[0] > 0xf4 || n > len)
		return 0;
	c = s[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0;
	return n;
}

bool sl_utf8_valid(const char *text, size_t len)
{
	size_t at = 0;

	while (at < len) {
		size_t n = sl_utf8_char(text + at, len - at);

		if (!n)
			return false;
		at += n;
	}
	return true;
}

/* Of the characters U+2000 to U+207F, E2 80 80 to E2 81 BF. */
static bool is_mark(unsigned c)
{
	return c == 0x0e || c == 0x0f || (c >= 0x28 && c <= 0x2e) || (c >= 0x66 && c <= 0x69);
}

bool sl_utf8_is_control(const char *at, size_t len)
{
	const unsigned char *c = (const unsigned char *)at;

	if (len == 2)
		return (c[0] == 0xc2 && c[1] < 0xa0) || (c[0] == 0xd8 && c[1] == 0x9c);
	if (len == 3)
		return c[0] == 0xe2 && c[1] <= 0x81 && is_mark((c[1] & 1u) << 6 | (c[2] & 0x3f));
	return c[0] < 0x20 || c[0] == 0x7f;
}

void sl_utf8_make_printable(char *text)
{
	size_t left = strlen(text), len;

	for (; left; text += len, left -= len) {
		len = sl_utf8_char(text, left);
		if (len && !sl_utf8_is_control(text, len))
			continue;
		len = len ? len : 1;
		memset(text, '?', len);
	}
}
