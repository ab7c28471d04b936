/* SPDX-License-Identifier: Apache-2.0 */
/* The agents that a topology expects, beside those that are there. */
#ifndef NANOCTRL_EXPECTED_H
#define NANOCTRL_EXPECTED_H

#include <stddef.h>
#include "text/json_slice.h"

struct obs_source;
struct out;

/* Adds an array with an object for each of the topology's agents[]: how many are registered, and
 * what they lack. 0, or a negative errno with why. */
int expected_write(struct out *o, struct obs_source *source, const char *scope,
		   struct json_slice topology, char *why, size_t room);

#endif
