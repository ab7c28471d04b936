/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a server leaves what its commands find it by. The runtime directory has its pid file, its
 * log unless another is given, PROGRAM.meta.json, and a link `data` to the data directory of a
 * private Redis.
 */
#ifndef NANOCTRL_DAEMON_RUNTIME_H
#define NANOCTRL_DAEMON_RUNTIME_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct runtime {
	const char *program; /* "nanoctrl" */
	char dir[PATH_MAX];
	char pid_file[PATH_MAX];
	char log_file[PATH_MAX]; /* the default one */
	bool log_is_given; /* by $LOGS_DIRECTORY: a server in the foreground writes there, too */
	char meta_file[PATH_MAX];
	char data_link[PATH_MAX];
};

/*
 * dir, else $RUNTIME_DIRECTORY of a service manager, else $XDG_RUNTIME_DIR/PROGRAM, else
 * /run/PROGRAM for root, and $XDG_STATE_HOME/PROGRAM/run or ~/.local/state/PROGRAM/run for
 * others. program is kept. -ENAMETOOLONG, -EINVAL for a relative path, -ENOENT where neither says
 * where the user's files are. Nothing is made yet.
 */
int runtime_init(struct runtime *rt, const char *program, const char *dir);

/* Make it. -EPERM when a stranger owns it, or could write into it. */
int runtime_create(const struct runtime *rt);

/* Where nanoctrl's private Redis keeps its data: dir, else $STATE_DIRECTORY, else
 * $XDG_STATE_HOME/nanoctrl, for root /var/lib/nanoctrl. */
int runtime_data_dir(const char *dir, char out[PATH_MAX]);

/* Like mkdir -p; the last one has mode 0700. */
int runtime_make_dir(const char *path);

/* Replace the file at once: readers see the old or the new one. Mode 0600. */
int runtime_write(const char *path, const char *text, size_t len);

/* The state for `status` and for people, as JSON. log may be NULL, and so may be data_dir, of a
 * private Redis, and redis, the URL of another one without its password. */
int runtime_write_meta(const struct runtime *rt, const char *url, const char *log,
		       const char *data_dir, const char *redis);

/* The meta file of the last server; "" for members that it lacks. False without one. */
struct runtime_meta {
	long pid;
	char address[256];
	char log[PATH_MAX];
	char data_dir[PATH_MAX]; /* of its private Redis */
	char redis[PATH_MAX];	 /* the URL of another one, without its password */
};
bool runtime_read_meta(const struct runtime *rt, struct runtime_meta *out);

/* Remove what the process leaves no more: meta and link. */
void runtime_clean(const struct runtime *rt);

#endif
