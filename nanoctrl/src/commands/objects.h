/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of any kind: lists of the API, and links, which are more than one list says. */
#ifndef NANOCTRL_OBJECTS_H
#define NANOCTRL_OBJECTS_H

#include "commands/rows.h"

/* As rows_read(), of any kind. */
int objects_read(struct rows *r, struct obs_source *source, const struct rows_query *query,
		 char *why, size_t room);

#endif
