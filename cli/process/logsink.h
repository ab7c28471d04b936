/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a program's log lines go: a file or standard error, as text or as JSON lines.
 *
 *     2026-11-21T04:05:06.789Z warn shm: ...
 *     {"time":"2026-11-21T04:05:06.789Z","level":"warn","part":"shm","message":"..."}
 *
 * A JSON line about a request (sl_log_set_request()) has a member request_id. A line is one write,
 * so that lines of threads and processes do not mix. There is one sink per process.
 */
#ifndef CLI_LOGSINK_H
#define CLI_LOGSINK_H

#include <stdbool.h>
#include <stdint.h>
#include <slime/log.h>

/* For CLI_ENUM: their index is the enum slime_log_level, and enum cli_log_format. */
extern const char *const cli_log_levels[];
extern const char *const cli_log_formats[];

enum cli_log_format { CLI_LOG_TEXT, CLI_LOG_JSON };

struct cli_log_attr {
	const char *file; /* NULL is standard error; appended to, made with mode 0640 */
	int format;
	enum slime_log_level level;
	const char *queued; /* see below; NULL: every line is one write, which may wait */
};

/*
 * With queued lines of this part, unless they are warnings or errors, wait in a ring of 1 MiB for a
 * thread to write them, 20 ms or so: a process that is killed takes these with it. All others are
 * written at once, ahead of those that wait; each has the time when it was said. What cannot be
 * written (a full disk, a reader who does not read) waits in the ring, too, and what does not fit
 * there is dropped: the log says how many lines were, every 5 s at most, and at its end, then on
 * standard error where it takes nothing itself. So nobody who says a line waits, but for who says
 * one of the others while a disk is slow to take it.
 */

/* Before threads. Negative errno when the file cannot be opened. A second call replaces the first.
 */
int cli_log_open(const struct cli_log_attr *attr);

/* Open the file again by its name, after a log rotation; on an error the old one stays. Any thread.
 */
int cli_log_reopen(void);

/* The descriptor of such a file, opened to append to, or a negative errno. It never waits: a FIFO
 * without a reader is -ENXIO. */
int cli_log_open_file(const char *file);

/* Lines that were dropped since the log was opened. */
uint64_t cli_log_dropped(void);

/* The meaning of these negative errnos, for people. */
const char *cli_log_error(int ret);

/* Back to plain lines on standard error. Lines that wait have a second to be written. */
void cli_log_close(void);

#endif
