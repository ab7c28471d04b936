/* SPDX-License-Identifier: Apache-2.0 */
#include "store/ended.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <base/log.h>
#include <hiredis/hiredis.h>

#define NAMED_MAX 3

void ended_add(struct ended *e, uint64_t n, const struct redisReply *names)
{
	e->n += n;
	for (size_t i = 0; names && i < names->elements && e->n_named < NAMED_MAX; i++) {
		const redisReply *name = names->element[i];
		size_t len = strlen(e->names);

		if (name->type != REDIS_REPLY_STRING)
			continue;
		snprintf(e->names + len, sizeof(e->names) - len, "%s%.64s",
			 e->n_named ? ", " : ": ", name->str);
		e->n_named++;
	}
}

void ended_log(struct ended *e, const char *where, const char *what)
{
	uint64_t more = e->n > e->n_named ? e->n - e->n_named : 0;
	char rest[32] = "";

	if (e->n && more && e->n_named)
		snprintf(rest, sizeof(rest), " and %" PRIu64 " more", more);
	if (e->n)
		sl_info("reaper", "%s%" PRIu64 " %s ended without a goodbye%s%s", where, e->n, what,
			e->names, rest);
	*e = (struct ended){ .n = 0 };
}
