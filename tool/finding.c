/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/finding.h"

#include <stdarg.h>

#include "base/utf8.h"

#define LINE_MAX_LEN 2048

void report_add(struct report *r, enum finding_level level, const char *what, const char *fmt, ...)
{
	static const char *const words[] = { "ok  ", "note", "BAD " };
	char text[LINE_MAX_LEN];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	sl_utf8_make_printable(text);
	r->n_of[level]++;
	if (level != FINDING_OK || !r->quiet)
		fprintf(r->to, "%s  %-13s %s\n", words[level], what, text);
}
