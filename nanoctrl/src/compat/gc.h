/* SPDX-License-Identifier: Apache-2.0 */
/* nanoctrl gc: what agents of DLSlime's NanoCtrl left in Redis. */
#ifndef NANOCTRL_GC_H
#define NANOCTRL_GC_H

struct options;
struct runtime;
struct settings;

/* Prints the list; returns the program's exit status. rt is the runtime directory of a server whose
 * private Redis is meant; NULL: none. */
int gc_list(const struct settings *settings, const struct options *options,
	    const struct runtime *rt);

#endif
