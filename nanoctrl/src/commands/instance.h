/* SPDX-License-Identifier: Apache-2.0 */
/* The commands about the server of a runtime directory. Each prints what it finds and returns the
 * exit status. */
#ifndef NANOCTRL_INSTANCE_H
#define NANOCTRL_INSTANCE_H

#include "daemon/background.h"
#include "server/settings.h"

/* Run it in the background. 0 when it can do its work, also when it ran before as it is asked for
 * now; BACKGROUND_NOT_READY; 1. */
int instance_start(const struct settings *settings, const struct options *options,
		   const struct runtime *rt);

/* 0 when it can do its work; 1 when it does not run, or does not answer; BACKGROUND_NOT_READY. */
int instance_status(const struct settings *settings, const struct options *options,
		    const struct runtime *rt);

/* End it and its private Redis, also the one that a killed server left. */
int instance_stop(const struct settings *settings, const struct options *options,
		  const struct runtime *rt);

#endif
