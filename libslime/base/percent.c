/* SPDX-License-Identifier: Apache-2.0 */
#include "base/percent.h"

#include <base/utf8.h>
#include "base/hex.h"

bool percent_decode(const char *text, size_t len, bool query, char *out)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		char c = text[i];

		if (c == '%') {
			int hi = len - i > 2 ? hex_digit(text[i + 1]) : -1;
			int lo = hi >= 0 ? hex_digit(text[i + 2]) : -1;

			if (lo < 0 && query)
				return false;
			if (lo >= 0) {
				c = (char)(hi << 4 | lo);
				i += 2;
			}
		} else if (c == '+' && query) {
			c = ' ';
		}
		if (!c)
			return false;
		out[n++] = c;
	}
	out[n] = '\0';
	return sl_utf8_valid(out, n);
}
