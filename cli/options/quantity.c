/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/options/quantity.h"

/* Six digits of a fraction of a day in ns still fit 64 bits. */
#define MAX_FRACTION_DIGITS 6

struct unit {
	const char *name; /* NULL ends them */
	int64_t factor;
};

/* From the smallest up. */
static const struct unit durations[] = {
	{ "ns", 1 },
	{ "us", SL_NS_PER_US },
	{ "ms", SL_NS_PER_MS },
	{ "s", SL_NS_PER_S },
	{ "m", 60 * SL_NS_PER_S },
	{ "h", 3600 * SL_NS_PER_S },
	{ "d", 86400 * SL_NS_PER_S },
	{ NULL, 0 },
};

static const struct unit sizes[] = {
	{ "B", 1 },
	{ "KiB", INT64_C(1) << 10 },
	{ "MiB", INT64_C(1) << 20 },
	{ "GiB", INT64_C(1) << 30 },
	{ "TiB", INT64_C(1) << 40 },
	{ NULL, 0 },
};

int cli_integer_parse(const char *text, int64_t *out)
{
	long long v;
	char *end;

	if (!isdigit((unsigned char)text[text[0] == '-']))
		return -EINVAL;
	errno = 0;
	v = strtoll(text, &end, 10);
	if (errno || *end)
		return -EINVAL;
	*out = v;
	return 0;
}

static int64_t factor_of(const struct unit *units, const char *name, int64_t bare)
{
	if (!*name)
		return bare;
	for (; units->name; units++)
		if (!strcmp(units->name, name))
			return units->factor;
	return 0;
}

/* Reads digits; false when there are none or too many. */
static bool read_digits(const char **text, int64_t *value, int *n)
{
	for (*n = 0; isdigit((unsigned char)**text); (*text)++, (*n)++)
		if (__builtin_mul_overflow(*value, 10, value) ||
		    __builtin_add_overflow(*value, **text - '0', value))
			return false;
	return *n > 0;
}

static int parse(const struct unit *units, int64_t bare, const char *text, int64_t *out)
{
	int64_t whole = 0, fraction = 0, scale = 1, factor, v;
	int n;

	if (!read_digits(&text, &whole, &n))
		return -EINVAL;
	if (*text == '.') {
		text++;
		if (!read_digits(&text, &fraction, &n) || n > MAX_FRACTION_DIGITS)
			return -EINVAL;
		while (n--)
			scale *= 10;
	}
	factor = factor_of(units, text, bare);
	if (!factor || __builtin_mul_overflow(fraction, factor, &fraction) || fraction % scale)
		return -EINVAL;
	if (__builtin_mul_overflow(whole, factor, &v) ||
	    __builtin_add_overflow(v, fraction / scale, &v))
		return -EINVAL;
	*out = v;
	return 0;
}

int cli_duration_parse(const char *text, int64_t *out_ns)
{
	return parse(durations, SL_NS_PER_S, text, out_ns);
}

int cli_size_parse(const char *text, int64_t *out_bytes)
{
	return parse(sizes, 1, text, out_bytes);
}

static char *format(const struct unit *units, char *out, size_t len, int64_t v)
{
	const struct unit *best = units;

	for (const struct unit *u = units; v && u->name; u++)
		if (v % u->factor == 0)
			best = u;
	snprintf(out, len, "%" PRId64 "%s", v / best->factor, best->name);
	return out;
}

char *cli_duration_format(char *out, size_t len, int64_t ns)
{
	return format(durations, out, len, ns);
}

char *cli_size_format(char *out, size_t len, int64_t bytes)
{
	return format(sizes, out, len, bytes);
}
