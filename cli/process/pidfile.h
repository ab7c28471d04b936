/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A locked file that says which process runs here. The lock (of an open file, which no child
 * inherits over exec) is the truth: a file without a lock was left behind by a killed process. note
 * is one line of the owner's, such as its URL.
 */
#ifndef CLI_PIDFILE_H
#define CLI_PIDFILE_H

#include "cli/process/process.h"

#define CLI_PIDFILE_NOTE_MAX 1024

struct cli_pidfile {
	int fd;
	char *path;
};

struct cli_pidfile_info {
	struct cli_process process;
	char note[CLI_PIDFILE_NOTE_MAX];
};

/*
 * Lock path for the calling process and write it; after a fork call it in the child. The file has
 * mode 0644, its directory exists.
 *   -EEXIST   a living process holds it: see cli_pidfile_read()
 *   other     of open, write
 */
int cli_pidfile_create(struct cli_pidfile *p, const char *path);

/* Replace the note; readers see the old or the new one. -EMSGSIZE, -EINVAL for more than one line.
 */
int cli_pidfile_set_note(struct cli_pidfile *p, const char *note);

/* Remove the file and give up the lock. */
void cli_pidfile_destroy(struct cli_pidfile *p);

/* The file is not locked, or there is none. */
#define CLI_PIDFILE_FREE 1

/*
 * The holder of path: 0 and *out; CLI_PIDFILE_FREE; -EAGAIN while the holder has not written it
 * yet; -EPROTO when the held file is no pid file of ours.
 */
int cli_pidfile_read(const char *path, struct cli_pidfile_info *out);

#endif
