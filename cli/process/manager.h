/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service manager that started this process, as systemd: what it says in the environment, and
 * what it is told. Without one nothing is said and nothing happens.
 */
#ifndef CLI_MANAGER_H
#define CLI_MANAGER_H

#include <stddef.h>

/* Longest state that is told, with its end. */
#define CLI_MANAGER_STATE_MAX 256

/*
 * Tell it "READY=1", "WATCHDOG=1", "STOPPING=1" or another assignment of sd_notify(3): one datagram
 * to $NOTIFY_SOCKET, which never blocks. 0, also without a manager; -EINVAL for a socket that is
 * neither a path nor "@" with an abstract name; what socket() or sendto() says.
 */
int cli_manager_tell(const char *state);

/* "RELOADING=1" with the time that goes with it; "READY=1" ends the reload. */
int cli_manager_tell_reloading(void);

/* How often to tell it "WATCHDOG=1", in ms: half of what it waits. 0: it does not wait for that. */
unsigned cli_manager_watchdog_ms(void);

/* The first directory of a variable as STATE_DIRECTORY, written to out. 0; -ENOENT when the
 * variable is not set or holds no absolute path, -ENAMETOOLONG. */
int cli_manager_directory(const char *variable, char *out, size_t room);

#endif
