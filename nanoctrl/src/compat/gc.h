/* SPDX-License-Identifier: Apache-2.0 */
/* nanoctrl gc: what agents of DLSlime's NanoCtrl left in Redis. */
#ifndef NANOCTRL_GC_H
#define NANOCTRL_GC_H

struct options;
struct runtime;
struct settings;

/* Lists it; the program's exit status. rt is where a server may run whose private Redis is meant;
 * NULL: nowhere. */
int gc_list(const struct settings *settings, const struct options *options,
	    const struct runtime *rt);

#endif
