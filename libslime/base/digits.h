/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as text, for what is written with every request: printf takes ten times as long. */
#ifndef NANOCTRL_DIGITS_H
#define NANOCTRL_DIGITS_H

#include <stdint.h>
#include <string.h>

#define DIGITS_MAX 20 /* of any number, without a NUL */

/* Behind the decimal digits that it writes; no NUL. */
static inline char *digits_put(char *at, uint64_t n)
{
	char digits[DIGITS_MAX];
	size_t k = sizeof(digits);

	do
		digits[--k] = (char)('0' + n % 10);
	while (n /= 10);
	memcpy(at, digits + k, sizeof(digits) - k);
	return at + sizeof(digits) - k;
}

/* Behind the last n hexadecimal digits of value, which it writes; no NUL. */
static inline char *digits_put_hex(char *at, uint64_t value, unsigned n)
{
	for (unsigned i = n; i--; value >>= 4)
		at[i] = "0123456789abcdef"[value & 15];
	return at + n;
}

#endif
