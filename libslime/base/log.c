/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/utf8.h"

static struct {
	_Atomic(slime_log_fn *) fn;
	_Atomic(void *) arg;
	_Atomic int level;
} sink = { .level = SLIME_LOG_WARN };

static _Thread_local const char *request;

static const char *const level_names[] = { "error", "warn", "info", "debug" };

void slime_log_set(slime_log_fn *fn, void *arg, enum slime_log_level level)
{
	atomic_store_explicit(&sink.arg, arg, memory_order_relaxed);
	atomic_store_explicit(&sink.fn, fn, memory_order_release);
	atomic_store_explicit(&sink.level, (int)level, memory_order_relaxed);
}

enum slime_log_level slime_log_level(void)
{
	return (enum slime_log_level)atomic_load_explicit(&sink.level, memory_order_relaxed);
}

void sl_log_set_request(const char *id)
{
	request = id;
}

const char *sl_log_request(void)
{
	return request;
}

static void write_to_stderr(enum slime_log_level level, const char *part, const char *line)
{
	char out[SL_LOG_LINE_MAX + 64];
	int n = snprintf(out, sizeof(out), "%s %s: %s\n", level_names[level], part, line);
	ssize_t written;

	if (n < 0)
		return;
	/* One write, so that lines of threads and processes do not mix. */
	written = write(STDERR_FILENO, out, (size_t)n < sizeof(out) ? (size_t)n : sizeof(out) - 1);
	(void)written;
}

void sl_log(enum slime_log_level level, const char *part, const char *fmt, ...)
{
	char line[SL_LOG_LINE_MAX];
	slime_log_fn *fn;
	va_list args;

	if (level > slime_log_level())
		return;

	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	sl_utf8_make_printable(line);

	fn = atomic_load_explicit(&sink.fn, memory_order_acquire);
	if (fn)
		fn(atomic_load_explicit(&sink.arg, memory_order_relaxed), level, part, line);
	else
		write_to_stderr(level, part, line);
}

bool sl_log_allow(struct sl_log_limit *limit, uint32_t *held_back)
{
	uint64_t now = sl_clock_ns();
	uint64_t next = atomic_load_explicit(&limit->next_ns, memory_order_relaxed);

	*held_back = 0;
	if (now >= next &&
	    atomic_compare_exchange_strong(&limit->next_ns, &next,
					   now + (uint64_t)limit->interval_ms * SL_NS_PER_MS)) {
		*held_back = atomic_exchange(&limit->held_back, 0);
		atomic_store(&limit->used, 1);
		return true;
	}
	if (atomic_fetch_add(&limit->used, 1) < limit->burst)
		return true;
	atomic_fetch_add(&limit->held_back, 1);
	return false;
}
