/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process of an HTTP server: its log, pid file, signals, main loop, and what others are told
 * of how it goes. SIGTERM and SIGINT end it, a second one cuts the shutdown short; SIGHUP opens the
 * log again.
 */
#ifndef NANOCTRL_DAEMON_PROCESS_H
#define NANOCTRL_DAEMON_PROCESS_H

#include <slime/export.h>
#include <stdbool.h>

#include "cli/process/pidfile.h"
#include "daemon/runtime.h"

struct cli_daemon;
struct cli_log_attr;
struct event;
struct loop;
struct server;

#define PROCESS_URL_MAX 96

struct process {
	const struct runtime *rt;
	struct cli_daemon *daemon; /* told how it went; NULL: standard error and output are */
	struct cli_pidfile pidfile;
	struct loop *loop;
	struct server *server; /* of the owner, between process_open() and process_announce() */
	int signals;
	bool ready;
	struct event *signalled;
	struct event *watchdog; /* NULL when no service manager waits for our signs of life */
};

/* The log, the pid file, signals and the loop. On an error the cause was told, and process_close()
 * follows all the same; rt exists and stays. */
int process_open(struct process *p, const struct runtime *rt, const struct cli_log_attr *log,
		 struct cli_daemon *daemon);

/* Whether a signal came that ends it, while no loop runs yet that hears of signals. */
bool process_told_to_end(void *p);

/* The reason why it cannot serve, to the log and to the daemon's parent; returns ret. */
int process_fail(struct process *p, int ret, const char *fmt, ...) SLIME_PRINTF(3, 4);

/* Where others are told to find it: as it listens on host, but for what was asked for (NULL and 0:
 * nothing), and with an address in place of a wildcard. */
void process_url(const struct process *p, const char *host, const char *asked_host, unsigned port,
		 char out[PROCESS_URL_MAX]);

/* Everything is open, the meta file is written: accept, and say so. */
int process_announce(struct process *p, const char *url);

/* The server first, then what it needs, which is the owner's, then the rest. */
void process_close_server(struct process *p);
void process_close(struct process *p);

#endif
