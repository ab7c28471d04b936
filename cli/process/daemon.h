/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Going into the background, with a parent that knows how it went: it waits for the child's report
 * and ends with it. To be called before threads and event bases exist.
 *
 *     struct cli_daemon d;
 *     int ret = cli_daemon_start(&d, &attr);
 *
 *     if (ret == CLI_DAEMON_PARENT)
 *             return print d.message, 0
 *     if (ret < 0)
 *             return print d.message, 1
 *     ... the child: open sockets ...
 *     if (failed)
 *             cli_daemon_failed(&d, "cannot listen on %s: %s", ...);
 *     else
 *             cli_daemon_ready(&d, "http://127.0.0.1:3000");
 */
#ifndef CLI_DAEMON_H
#define CLI_DAEMON_H

#include <sys/types.h>

#define CLI_DAEMON_MESSAGE_MAX 1024

struct cli_daemon_attr {
	const char *log_file; /* standard output and error of the child, appended; required */
	int timeout_ms;	      /* for the child's report; it is ended when it is late */
};

struct cli_daemon {
	pid_t pid;			      /* of the child, on both sides */
	char message[CLI_DAEMON_MESSAGE_MAX]; /* what the child reported, or what went wrong */
	int report_fd;			      /* the child's end */
};

/* This is the parent, and the child is ready. */
#define CLI_DAEMON_PARENT 1

/*
 * 0 in the child: a session of its own, standard input from /dev/null, output into the log file, no
 * other descriptor of before; the working directory stays. In the parent CLI_DAEMON_PARENT, or a
 * negative errno with the cause in message:
 *   -ECHILD      the child reported a failure, or ended without a report
 *   -ETIMEDOUT   no report in time; the child is gone
 *   other        of open, pipe, fork
 */
int cli_daemon_start(struct cli_daemon *d, const struct cli_daemon_attr *attr);

/* From the child: the parent may end, with this message. -EPIPE when it is gone already: then the
 * daemon is not wanted. */
int cli_daemon_ready(struct cli_daemon *d, const char *message);

/* From the child: the parent ends with this cause. The child ends itself. */
void cli_daemon_failed(struct cli_daemon *d, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
