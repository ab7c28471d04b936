/* SPDX-License-Identifier: Apache-2.0 */
/* `nanoctrl describe KIND NAME`: all that is known of one object, and what belongs to it. */
#ifndef NANOCTRL_DESCRIBE_H
#define NANOCTRL_DESCRIBE_H

struct cli_args;
struct options;
struct runtime;
struct settings;

/* Returns the exit status: 1 where there is none of this name. */
int describe_run(const struct settings *settings, const struct options *options,
		 const struct runtime *rt, const struct cli_args *args);

#endif
