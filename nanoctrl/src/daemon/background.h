/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server of a runtime directory in the background, as its commands start it, look at it and end
 * it. They print what they find, with the program's name.
 */
#ifndef NANOCTRL_DAEMON_BACKGROUND_H
#define NANOCTRL_DAEMON_BACKGROUND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/process/pidfile.h"
#include "daemon/runtime.h"

struct cli_daemon;

#define BACKGROUND_PROBE_MS 2000

/* It runs and answers, and cannot do its work. */
#define BACKGROUND_NOT_READY 4

struct background {
	const struct runtime *rt;
	const char *log_file; /* NULL: the default one */
	int wait_ms;	      /* for the server's start */
	int ready_ms;	      /* until it can do its work; then it runs all the same */
	/* In the child: serve until the end, and return the exit status. */
	int (*serve)(void *arg, const char *log, struct cli_daemon *daemon);
	/* Settings that this start asks for and the running server does not have, as text; "" when
	 * there are none. */
	void (*find_difference)(void *arg, char *out, size_t room);
	void *arg;
};

/* "PROGRAM: WHAT: " and the error's text on standard error; returns 1. */
int background_complain(const struct runtime *rt, const char *what, int ret);

/* Waits until the server behind the pid file says where it is. 0, CLI_PIDFILE_FREE, -EAGAIN, or
 * -EPROTO. */
int background_find(const struct runtime *rt, int wait_ms, struct cli_pidfile_info *out);

/* Whether there is a server that a start leaves the work to. One that shuts down is none: its end
 * is waited for. */
bool background_runs(const struct background *b, struct cli_pidfile_info *out);

/* Both return the exit status: 0 when the server can do its work, BACKGROUND_NOT_READY, or 1. */
int background_say_running(const struct background *b, const struct cli_pidfile_info *info);
int background_start(const struct background *b);

/* Whether the server at url answers, which is the one of this process when pid is not 0: 0,
 * -EADDRINUSE for another one, or as probe_health(). */
int background_health(const struct runtime *rt, const char *url, pid_t pid);
/* The line of it. */
void background_print_health(int ret);

/* Whether it can do its work, in lines, with its warnings. */
bool background_say_ready(const char *url);

/* The holder of the pid file is unknown. Returns 1. */
int background_complain_of_pidfile(const struct runtime *rt, int ret);

/* SIGTERM, and with force SIGKILL after timeout_ms. 0 when it has ended, 1 when it had to be
 * killed, -ETIMEDOUT without force, after a line on standard error; or of signals. */
int background_end(const struct runtime *rt, const struct cli_process *process, int64_t timeout_ms,
		   bool force);

/* Remove its files, the pid file as well unless another process has locked it since. */
void background_clean(const struct runtime *rt);

#endif
