/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The private Redis: a redis-server of our own, on a unix socket (0600) in its data directory,
 * where every write is on disk before it is answered; only nanoctrl can log in (account.h). Two
 * locks keep the directory: one belongs to the nanoctrl that owns it, the other is inherited by the
 * redis-server and lives as long as that process. So a redis-server that outlived its nanoctrl is
 * found, and adopted, and two never write one directory.
 */
#ifndef NANOCTRL_REDIS_CHILD_H
#define NANOCTRL_REDIS_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_base;
struct redis_child;

#define REDIS_CHILD_WHY_MAX 256

struct redis_child_attr {
	const char *data_dir;
	const char *server;  /* the program */
	uint64_t max_memory; /* bytes of data, beyond which it refuses writes; 0: no limit */
	bool guests;	     /* others are given rights: one that is adopted keeps theirs */
	int wait_ms;
	bool (*told_to_end)(void *arg); /* asked again and again while it waits */
	void *arg;
};

/*
 * Own the data directory (made with mode 0700) and have a redis-server answer in it: one that lives
 * there already and accepts our password, else a new one. Blocks for about wait_ms, or until
 * told_to_end says so. On an error why says what is in the way:
 *   -EBUSY         another nanoctrl owns the directory, or a process that is not ours uses it
 *   -ENAMETOOLONG  the directory's name leaves no room for a socket
 *   -ETIMEDOUT     the redis-server does not answer
 *   -ECHILD        it ended; its log tells why
 *   -ECANCELED     told to end; it does not run
 *   other          of the file system, of the password's file, of starting a process
 */
int redis_child_create(const struct redis_child_attr *attr, struct redis_child **out,
		       char why[REDIS_CHILD_WHY_MAX]);

/* Start it again whenever it ends, with back-off. On base's thread from here on. */
int redis_child_watch(struct redis_child *child, struct event_base *base);

/* Whether a directory of this name could be one: 0, or -EINVAL, -ENAMETOOLONG and why. */
int redis_child_check_dir(const char *data_dir, char why[REDIS_CHILD_WHY_MAX]);

#define REDIS_CHILD_URL_MAX 256

/*
 * The URL of the private Redis of this directory, with our password: not for logs. make: the
 * directory and the password are made where they are not there yet. On an error why says what is
 * wrong with them.
 */
int redis_child_url(const char *data_dir, bool make, char *out, size_t room,
		    char why[REDIS_CHILD_WHY_MAX]);

/* What it says. */
void redis_child_log_file(const char *data_dir, char *out, size_t room);

/* The file that keeps the port on which it is made to listen for clients on this host; it begins
 * with its socket only. */
void redis_child_port_file(const char *data_dir, char *out, size_t room);

/* End the redis-server, wait for it, give the directory up. */
void redis_child_destroy(struct redis_child *child);

/* End a redis-server that a killed nanoctrl left in data_dir: 1 when there was one, 0 when none, or
 * as above. */
int redis_child_end_orphan(const char *data_dir, char why[REDIS_CHILD_WHY_MAX]);

#endif
