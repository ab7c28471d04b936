/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library says of trouble, on standard error: a line that was among the last ones is not
 * said again, as a link that is tried for 15 s fails for the same reason each time.
 */
#ifndef BENCH_STDERR_LOG_H
#define BENCH_STDERR_LOG_H

/* Before other threads. */
void stderr_log_open(void);

#endif
