/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/lib/cause.h"

#include <stdio.h>
#include <string.h>

#define BETWEEN	    "; "
#define BETWEEN_LEN (sizeof(BETWEEN) - 1)

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Of the reason that text begins with. */
static size_t reason_len(const char *text)
{
	const char *end = strstr(text, BETWEEN);

	return end ? (size_t)(end - text) : strlen(text);
}

/* The next one; NULL: it was the last. */
static const char *next_reason(const char *text)
{
	const char *end = strstr(text, BETWEEN);

	return end ? end + BETWEEN_LEN : NULL;
}

static size_t len_with(const char *text, size_t share)
{
	size_t len = 0;

	for (const char *at = text; at; at = next_reason(at))
		len += smaller(reason_len(at), share) + (at == text ? 0 : BETWEEN_LEN);
	return len;
}

size_t cause_fit(const char *text, char *out, size_t cap)
{
	size_t share = cap, len = 0;

	while (share && len_with(text, share) >= cap)
		share--;
	/* So many that none has room. */
	if (!share)
		return (size_t)snprintf(out, cap, "%.*s", (int)cap - 1, text);
	for (const char *at = text; at; at = next_reason(at))
		len += (size_t)snprintf(out + len, cap - len, "%s%.*s", at == text ? "" : BETWEEN,
					(int)smaller(reason_len(at), share), at);
	return len;
}
