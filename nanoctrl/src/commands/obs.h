/* SPDX-License-Identifier: Apache-2.0 */
/* `nanoctrl obs status`, `obs peers` and `obs nics`: what agents say of what they do. */
#ifndef NANOCTRL_OBS_H
#define NANOCTRL_OBS_H

#include <stdio.h>
#include "commands/obs_source.h"

enum obs_view { OBS_VIEW_STATUS, OBS_VIEW_PEERS, OBS_VIEW_NICS };

/* Reads and prints; the exit status. */
int obs_show(enum obs_view view, const struct settings *settings, const struct options *options,
	     const struct runtime *rt);

/* One view of what was read, for people. 0 or a negative errno. */
int obs_print(enum obs_view view, const struct obs_source *s, const struct obs_list *l,
	      const struct options *options, FILE *to);

#endif
