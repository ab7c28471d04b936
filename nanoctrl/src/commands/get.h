/* SPDX-License-Identifier: Apache-2.0 */
/* `nanoctrl get KIND`. Returns the exit status. */
#ifndef NANOCTRL_GET_H
#define NANOCTRL_GET_H

struct cli_args;
struct options;
struct runtime;
struct settings;

int get_run(const struct settings *settings, const struct options *options,
	    const struct runtime *rt, const struct cli_args *args);

#endif
