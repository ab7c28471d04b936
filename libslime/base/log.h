/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines. The function that decides that something is an error logs it, once, with the facts;
 * all above returns. A line is at most SL_LOG_LINE_MAX bytes; control characters in it, and bytes
 * that are no UTF-8, are replaced, so that foreign bytes can neither forge a line nor drive a
 * terminal.
 */
#ifndef SL_BASE_LOG_H
#define SL_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <slime/log.h>

#define SL_LOG_LINE_MAX 1024

/* The program's, also in a plugin that has this file in itself: one place for the lines of both. */
SLIME_API void sl_log(enum slime_log_level level, const char *part, const char *fmt, ...)
	SLIME_PRINTF(3, 4);

#define sl_error(part, ...) sl_log(SLIME_LOG_ERROR, part, __VA_ARGS__)
#define sl_warn(part, ...)  sl_log(SLIME_LOG_WARN, part, __VA_ARGS__)
#define sl_info(part, ...)  sl_log(SLIME_LOG_INFO, part, __VA_ARGS__)
/* Arguments are not evaluated below debug level. */
#define sl_debug(part, ...)                                         \
	do {                                                        \
		if (slime_log_level() >= SLIME_LOG_DEBUG)           \
			sl_log(SLIME_LOG_DEBUG, part, __VA_ARGS__); \
	} while (0)

/*
 * The request that lines of this thread are about, until the next call; NULL for none. A sink may
 * have a place of its own for it.
 */
void sl_log_set_request(const char *id);
const char *sl_log_request(void);

/*
 * A line that a stranger can provoke as often as he likes goes through one of these: at most burst
 * lines in each interval_ms, which begins with its first; that one says how many were held back
 * before. Threads may share one.
 */
struct sl_log_limit {
	uint32_t burst;
	uint32_t interval_ms;
	_Atomic uint64_t next_ns;
	_Atomic uint32_t used;
	_Atomic uint32_t held_back;
};

#define SL_LOG_LIMIT_INIT(n, ms)                  \
	{                                         \
		.burst = (n), .interval_ms = (ms) \
	}

/* Whether a line may be written now; *held_back is the number of lines suppressed before it. */
bool sl_log_allow(struct sl_log_limit *limit, uint32_t *held_back);

#endif
