/* SPDX-License-Identifier: Apache-2.0 */
/* `nanoctrl obs links`. */
#ifndef NANOCTRL_LINKS_H
#define NANOCTRL_LINKS_H

struct options;
struct runtime;
struct settings;

/* Print the links of a scope, as a table or as JSON. Returns the exit status. */
int links_show(const struct settings *settings, const struct options *options,
	       const struct runtime *rt);

#endif
