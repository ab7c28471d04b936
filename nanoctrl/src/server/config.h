/* SPDX-License-Identifier: Apache-2.0 */
/* The settings in the form in which the store, the server and the log take them. */
#ifndef NANOCTRL_SERVE_CONFIG_H
#define NANOCTRL_SERVE_CONFIG_H

#include "cli/process/logsink.h"
#include "http/server.h"
#include "server/routes.h"
#include "server/settings.h"
#include "store/store.h"

/* Without a URL where Redis is a private one. */
struct store_config serve_store_config(const struct settings *s);

/* Without hooks; fills the table of its routes. */
struct server_config serve_server_config(const struct settings *s, struct route table[ROUTES_MAX]);

/* How many connections so many descriptors allow for, of which others are ours: of the process, and
 * of each loop. */
unsigned serve_connections(uint64_t descriptors, unsigned n_loops);

/* file: NULL is standard error. */
struct cli_log_attr serve_log_attr(const struct settings *s, const char *file);

#endif
