/* SPDX-License-Identifier: Apache-2.0 */
/* `nanoctrl top`: what agents do, the busiest first, again and again. */
#ifndef NANOCTRL_TOP_H
#define NANOCTRL_TOP_H

struct options;
struct runtime;
struct settings;

/* Until a signal ends it, with status 0, or after as many looks as the options say. 1 when the
 * first look, or the last one of so many, failed. */
int top_run(const struct settings *settings, const struct options *options,
	    const struct runtime *rt);

#endif
