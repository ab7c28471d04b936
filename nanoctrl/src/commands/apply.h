/* SPDX-License-Identifier: Apache-2.0 */
/* `nanoctrl apply`, `diff` and `delete topology`. Each returns the exit status.
 */
#ifndef NANOCTRL_APPLY_H
#define NANOCTRL_APPLY_H

#include <stdbool.h>

struct cli_args;
struct options;
struct runtime;
struct settings;

/* diff: say what would change, and change nothing. */
int apply_run(const struct settings *settings, const struct options *options,
	      const struct runtime *rt, bool diff);
int delete_run(const struct settings *settings, const struct options *options,
	       const struct runtime *rt, const struct cli_args *args);

#endif
