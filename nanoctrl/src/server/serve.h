/* SPDX-License-Identifier: Apache-2.0 */
/* The server's process: what it holds, from its pid file to its end. */
#ifndef NANOCTRL_SERVE_H
#define NANOCTRL_SERVE_H

#include "daemon/runtime.h"
#include "server/settings.h"

struct cli_daemon;

/*
 * Serve until SIGTERM or SIGINT; a second one cuts the shutdown short. The runtime directory
 * exists. log is the file that the log goes to, NULL for standard error. daemon is told how it
 * went; without one the cause is on standard error and the URL on standard output. Returns the exit
 * status.
 */
int serve(const struct settings *settings, const struct options *options, const struct runtime *rt,
	  const char *log, struct cli_daemon *daemon);

#endif
