/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the library's log lines go. The sink is the only global state of the library.
 */
#ifndef SLIME_LOG_H
#define SLIME_LOG_H

#include <slime/export.h>

SLIME_BEGIN_DECLS

enum slime_log_level {
	SLIME_LOG_ERROR,
	SLIME_LOG_WARN,
	SLIME_LOG_INFO,
	SLIME_LOG_DEBUG,
};

/*
 * Takes one line, without its newline, with the name of the part that says it ("shm", "tcp",
 * "http"). Called from any thread, also several at once; it must not call back into the library.
 */
typedef void slime_log_fn(void *arg, enum slime_log_level level, const char *part,
			  const char *line);

/*
 * Send lines of this level and graver ones to fn; NULL means standard error, the default, at level
 * SLIME_LOG_WARN. Set it before other threads use the library.
 */
SLIME_API void slime_log_set(slime_log_fn *fn, void *arg, enum slime_log_level level);

SLIME_API enum slime_log_level slime_log_level(void);

SLIME_END_DECLS

#endif
