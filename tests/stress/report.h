/* SPDX-License-Identifier: Apache-2.0 */
/* How a process tells what is wrong, and that no wait lasts for ever. */
#ifndef STRESS_REPORT_H
#define STRESS_REPORT_H

#include <stdbool.h>
#include <stdint.h>

/* Say what is wrong, with the last lines of the library's log, and end the process. where: which
 * link and operation, in words. */
_Noreturn void fail(const char *where, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* What the library logs from here on is kept, and shown when something fails. failed is shared by
 * all processes: the first that fails speaks, the others wait for their end. */
void report_begin(const char *process, _Atomic bool *failed);

/*
 * Between these two the calling thread waits for the library: fail when that takes longer than
 * limit_ms. what is a literal. where must stay until the end.
 */
void watch_begin(const char *where, const char *what, int64_t limit_ms);
void watch_end(void);

/* Every wait that has no shorter limit. It holds a busy machine and sanitizers. */
#define WATCH_MS 60000

int64_t now_ms(void);

/* Between two looks at what other threads and processes do; and random delays. */
void pause_us(int64_t us);

#endif
