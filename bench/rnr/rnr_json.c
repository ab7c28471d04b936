/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <jansson.h>

#include "bench/rnr/rnr.h"

static json_t *json_counter(const struct slime_rnr_counter *c)
{
	return json_pack("{s:s, s:i, s:s, s:s, s:I, s:I, s:I}", "device", c->device, "port",
			 (int)c->port, "counter", c->name, "kind", slime_rnr_kind_name(c->kind),
			 "value", (json_int_t)c->value, "added", (json_int_t)c->added, "total",
			 (json_int_t)c->total);
}

static json_t *json_counters(const struct slime_rnr_monitor *m)
{
	size_t n;
	const struct slime_rnr_counter *const *counters = slime_rnr_monitor_counters(m, &n);
	json_t *all = json_array();

	for (size_t i = 0; all && i < n; i++) {
		if (json_array_append_new(all, json_counter(counters[i]))) {
			json_decref(all);
			return NULL;
		}
	}
	return all;
}

int rnr_print_json(const struct slime_rnr_monitor *m, const char *date, FILE *to)
{
	json_t *all = json_pack("{s:s, s:s, s:o}", "bench", "rnr", "date", date, "counters",
				json_counters(m));
	int ret = 0;

	if (!all)
		return -ENOMEM;
	if (json_dumpf(all, to, JSON_COMPACT) || fputc('\n', to) == EOF || fflush(to))
		ret = -EIO;
	json_decref(all);
	return ret;
}
