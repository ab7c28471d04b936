/* SPDX-License-Identifier: Apache-2.0 */
/* Which process, for ever: a pid alone may name another one tomorrow. */
#ifndef CLI_PROCESS_H
#define CLI_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CLI_BOOT_ID_LEN 36

struct cli_process {
	pid_t pid;
	uint64_t start;			   /* in clock ticks since boot, from /proc/PID/stat */
	char boot_id[CLI_BOOT_ID_LEN + 1]; /* start counts from this boot */
};

/* The process that has this pid now. -ESRCH when there is none. */
int cli_process_of(pid_t pid, struct cli_process *out);

bool cli_process_alive(const struct cli_process *p);

/* A pidfd of exactly this process, close-on-exec; readable when it has ended. -ESRCH when it is
 * gone. */
int cli_process_open(const struct cli_process *p);

/* -ESRCH when it is gone; never signals another process of the same pid. */
int cli_process_signal(const struct cli_process *p, int sig);

/* Waits until it has ended (a zombie has). 0, or -ETIMEDOUT; a negative timeout waits for ever. */
int cli_process_wait(const struct cli_process *p, int timeout_ms);

#endif
