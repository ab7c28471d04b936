/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent of this process is called. */
#ifndef BENCH_NAME_H
#define BENCH_NAME_H

#define BENCH_NAME_MAX 96

/* "bench-HOST-PID-TAG". The tag is by chance: in containers of one host the rest is the same again
 * and again. */
void bench_name(char out[static BENCH_NAME_MAX]);

#endif
