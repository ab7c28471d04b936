/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals as a descriptor for an event loop. Opened before threads exist, so that every thread has
 * them blocked.
 */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <stddef.h>

/*
 * Block these signals and return a non-blocking, close-on-exec descriptor that is readable when one
 * came. SIGPIPE and SIGXFSZ are ignored from here on: a closed peer, and a file or memory beyond
 * what the process may have, are errors of the call.
 */
int cli_signals_open(const int *signals, size_t n);

/* The next signal; 0 when there is none; a negative errno. */
int cli_signals_read(int fd);

/* The next one kills: in this thread, others keep them blocked. */
void cli_signals_let_kill(void);

/* Unblock what cli_signals_open() blocked and take the defaults of the ignored ones back. */
void cli_signals_close(int fd);

/* The same for a process that is about to exit: what comes from here on changes nothing any more,
 * and ends nothing. */
void cli_signals_end(int fd);

/* Between fork and exec: the child starts with no signal blocked or ignored by us.
 * Async-signal-safe. */
void cli_signals_reset_in_child(void);

#endif
