/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where `nanoctrl obs` and `top` read: the server of --address, else the Redis of --redis-url, else
 * the server that runs here.
 */
#ifndef NANOCTRL_OBS_SOURCE_H
#define NANOCTRL_OBS_SOURCE_H

#include <stdbool.h>
#include "commands/obs_snapshot.h"

struct nc_client;
struct options;
struct runtime;
struct settings;

struct obs_source;

/* Of one list: a server that always has one more is none. */
#define OBS_PAGES_MAX 10000

/* Errors are printed on standard error: -EINVAL, -ENOENT without any server, -ENOMEM. */
int obs_source_open(const struct settings *settings, const struct options *options,
		    const struct runtime *rt, struct obs_source **out);
void obs_source_close(struct obs_source *s);

/* "Server: URL" or "Redis: URL", without a password. */
const char *obs_source_name(const struct obs_source *s);

/* The client that asks the server; NULL with a Redis. */
struct nc_client *obs_source_client(const struct obs_source *s);

/* Turns the client's loop until obs_source_done() was called with the same flag, by an answer or
 * before, or nothing is asked any more. */
void obs_source_await(struct obs_source *s, const bool *done);
void obs_source_done(struct obs_source *s, bool *done);

/* All snapshots of the scope in place of what the list had. Negative errno with why. */
int obs_source_read(struct obs_source *s, struct obs_list *out, char *why, size_t room);

/* The options that another command needs to read the same: those of this one, each with a blank
 * before it. A password is not among them. Returns out. */
#define OBS_HINT_MAX 512
const char *obs_source_options(const struct obs_source *s, char out[OBS_HINT_MAX]);

/* Says on standard error what went wrong with the source. */
void obs_source_complain(const struct obs_source *s, const char *why);

#endif
