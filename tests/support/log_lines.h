/* SPDX-License-Identifier: Apache-2.0 */
/* What the library logs, kept for a test to look at. */
#ifndef TESTS_SUPPORT_LOG_LINES_H
#define TESTS_SUPPORT_LOG_LINES_H

#include <slime/log.h>

/* From now on warnings and errors are kept, and those of before are forgotten. */
void log_lines_keep(void);
/* The same of lines of that level and graver ones. */
void log_lines_keep_from(enum slime_log_level level);

/* As it was in the beginning: to stderr. */
void log_lines_release(void);

/* How many of them contain text; "" is in each. */
unsigned log_lines_with(const char *text);

#endif
