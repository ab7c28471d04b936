/* SPDX-License-Identifier: Apache-2.0 */
/* What is read where a file is expected and may be a pipe: nobody waits long for who writes it. */
#ifndef CLI_PIPE_H
#define CLI_PIPE_H

#include <stdint.h>

/* For all of it: a running program reads it again at a reload. */
#define CLI_PIPE_MS 2000

/* What poll(2) tells of a descriptor that was asked for input, before the deadline; 0: nothing. */
int cli_pipe_await(int fd, uint64_t deadline_ns);

#endif
