/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/output/progress.h"
#include "cli/output/utf8.h"

#define INTERVAL_NS (100 * SL_NS_PER_MS)

void cli_progress_init(struct cli_progress *p, FILE *to)
{
	*p = (struct cli_progress){ .to = to, .terminal = isatty(fileno(to)) == 1 };
}

static size_t terminal_width(FILE *to)
{
	struct winsize size;

	if (ioctl(fileno(to), TIOCGWINSZ, &size) || !size.ws_col)
		return 80;
	return size.ws_col;
}

/* The bytes of at most width characters: a line that wraps could not be rewritten. */
static int cut(const char *text, size_t width)
{
	const char *at = text;

	while (*at && width--) {
		size_t len = cli_utf8_len(at);

		at += len ? len : 1;
	}
	return (int)(at - text);
}

void cli_progress_say(struct cli_progress *p, const char *fmt, ...)
{
	uint64_t now = sl_clock_ns();
	char line[512];
	va_list args;

	if (!p->terminal || now < p->next_ns)
		return;
	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	fprintf(p->to, "\r\033[K%.*s", cut(line, terminal_width(p->to) - 1), line);
	fflush(p->to);
	p->shown = true;
	p->next_ns = now + INTERVAL_NS;
}

void cli_progress_clear(struct cli_progress *p)
{
	if (!p->shown)
		return;
	fputs("\r\033[K", p->to);
	fflush(p->to);
	p->shown = false;
	p->next_ns = 0;
}
