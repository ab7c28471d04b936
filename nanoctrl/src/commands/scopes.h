/* SPDX-License-Identifier: Apache-2.0 */
/* The scopes that a command is about: the one of --scope, or all of the server. */
#ifndef NANOCTRL_SCOPES_H
#define NANOCTRL_SCOPES_H

#include <stddef.h>

struct obs_source;
struct options;
struct runtime;
struct settings;

/* 0, or a negative errno with why. */
typedef int scopes_fn(void *arg, struct obs_source *source, const char *scope, char *why,
		      size_t room);

/* Calls fn for each, with a source of that scope, until one fails. What is wrong is said on
 * standard error. 0 or a negative errno. */
int scopes_each(const struct settings *settings, const struct options *options,
		const struct runtime *rt, scopes_fn *fn, void *arg);

#endif
