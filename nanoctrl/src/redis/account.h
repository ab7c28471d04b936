/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The account of nanoctrl at its private Redis: the user "nanoctrl", which has all rights. The data
 * directory keeps its generated password in redis.key (0600). Other clients are refused, unless
 * they get rights while it runs.
 */
#ifndef NANOCTRL_REDIS_ACCOUNT_H
#define NANOCTRL_REDIS_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REDIS_ACCOUNT_USER "nanoctrl"
#define REDIS_ACCOUNT_KEY  64 /* hexadecimal digits */
#define REDIS_ACCOUNT_FILE "redis.key"

/*
 * The password that dir keeps. Negative errno:
 *   -ENOENT  there is none    -EPERM  others than the owner may use the file
 *   -EPROTO  the file is no password
 */
int redis_account_read(const char *dir, char out[REDIS_ACCOUNT_KEY + 1]);

/* The same, and makes one where there is none. Processes that make it at once agree on one. */
int redis_account_make(const char *dir, char out[REDIS_ACCOUNT_KEY + 1]);

/* Write what a redis-server of dir is started with, --aclfile: this account, and no other. out gets
 * the name of the file. */
int redis_account_write_acl(const char *dir, const char *key, char *out, size_t room);

/*
 * Bring a Redis that runs already to the state of a new one, over fd, a stream that is connected to
 * it: max_memory is set, and unless guests is set it listens on no port and accepts no other user.
 * Closes fd. 0, -EACCES when it does not know the account, -ETIMEDOUT when it does not answer in
 * time, -EPROTO when it answers something else.
 */
int redis_account_apply(int fd, const char *key, uint64_t max_memory, bool guests, int wait_ms);

#endif
