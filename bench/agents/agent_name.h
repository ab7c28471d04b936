/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent of this process is called. */
#ifndef BENCH_AGENT_NAME_H
#define BENCH_AGENT_NAME_H

#define AGENT_NAME_ROOM 96

/* "bench-HOST-PID-TAG". The tag is by chance: in containers of one host the rest is the same again
 * and again. */
void agent_name_make(char out[static AGENT_NAME_ROOM]);

#endif
