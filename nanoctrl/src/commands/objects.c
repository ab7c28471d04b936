/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/objects.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "commands/links_json.h"
#include "commands/links_wanted.h"
#include "model/out.h"

static char *link_text(const struct links_end *e)
{
	struct out o = { .at = NULL };

	out_words(&o, "{");
	links_json_members(&o, e);
	out_words(&o, "}");
	return out_finish(&o);
}

static int read_links(struct rows *r, struct obs_source *source, const struct rows_query *query,
		      char *why, size_t room)
{
	struct links_list l = { .source = source, .selector = query->selector };
	int ret = 0;

	links_wanted_read(&l);
	if (l.error[0]) {
		snprintf(why, room, "%s", l.error);
		ret = -EIO;
	}
	for (size_t i = 0; i < l.n && !ret; i++)
		ret = rows_add(r, query->scope, link_text(&l.ends[i]), l.snapshots.now_ms);
	links_list_clear(&l);
	return ret;
}

int objects_read(struct rows *r, struct obs_source *source, const struct rows_query *query,
		 char *why, size_t room)
{
	if (!strcmp(query->kind->name, "links"))
		return read_links(r, source, query, why, room);
	return rows_read(r, source, query, why, room);
}
