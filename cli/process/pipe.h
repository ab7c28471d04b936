/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a file that may be a pipe: the wait for its writer is bounded. */
#ifndef CLI_PIPE_H
#define CLI_PIPE_H

#include <stdint.h>

/* For all of it: a running program reads it again at a reload. */
#define CLI_PIPE_MS 2000

/* The result of poll(2) for a descriptor that was asked for input, before the deadline; 0: nothing.
 */
int cli_pipe_await(int fd, uint64_t deadline_ns);

#endif
