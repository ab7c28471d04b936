/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void redis_info_value(const char *info, const char *name, char *out, size_t size)
{
	size_t name_len = strlen(name);
	size_t len;

	*out = '\0';
	for (const char *at = info; (at = strstr(at, name)); at += name_len) {
		if ((at != info && at[-1] != '\n') || at[name_len] != ':')
			continue;
		at += name_len + 1;
		len = strcspn(at, "\r\n");
		if (len >= size)
			len = size - 1;
		memcpy(out, at, len);
		out[len] = '\0';
		return;
	}
}

static bool is(const char *info, const char *name, const char *value)
{
	char have[48];

	redis_info_value(info, name, have, sizeof(have));
	return strcmp(have, value) == 0;
}

static unsigned long long number_of(const char *info, const char *name)
{
	char text[24];

	redis_info_value(info, name, text, sizeof(text));
	return strtoull(text, NULL, 10);
}

bool redis_info_crowded(const char *info)
{
	unsigned long long most = number_of(info, "maxmemory");

	return most && number_of(info, "used_memory") > most - most / 4;
}

static bool is_before(const char *version, unsigned major, unsigned minor)
{
	unsigned have_major, have_minor;

	return sscanf(version, "%u.%u", &have_major, &have_minor) == 2 &&
	       (have_major < major || (have_major == major && have_minor < minor));
}

bool redis_info_unfit(const char *info, enum redis_kind kind, char *why, size_t size)
{
	bool cluster = is(info, "redis_mode", "cluster");
	char version[48], policy[48];

	redis_info_value(info, "redis_version", version, sizeof(version));
	redis_info_value(info, "maxmemory_policy", policy, sizeof(policy));
	*why = '\0';
	if (is(info, "loading", "1"))
		snprintf(why, size, "Redis is loading its data");
	else if (kind != REDIS_CLUSTER && cluster)
		snprintf(why, size,
			 "it is a node of a Redis Cluster, which is given as " REDIS_CLUSTER_SCHEME
			 "HOST:PORT");
	else if (kind == REDIS_CLUSTER && is(info, "redis_mode", "standalone"))
		snprintf(why, size, "it is no node of a Redis Cluster");
	else if (is(info, "role", "slave"))
		snprintf(why, size, "%s",
			 kind == REDIS_PLAIN
				 ? "Redis is a replica, which refuses writes: the URL has to name "
				   "the primary, or sentinels"
				 : "it is not the primary any more");
	else if (is_before(version, 6, 2))
		snprintf(why, size, "Redis is version %s; 6.2 or later is needed", version);
	/* min-replicas-to-write is not for scripts before, and we write by nothing else. */
	else if (kind != REDIS_PLAIN && is_before(version, 7, 0))
		snprintf(
			why, size,
			"Redis is version %.24s; with sentinels or in a cluster 7.0 or later is needed: "
			"an older one lets scripts write without replicas",
			version);
	else if (*policy && strcmp(policy, "noeviction") != 0)
		snprintf(why, size,
			 "Redis may evict leases: its maxmemory-policy is %s, not noeviction",
			 policy);
	return *why;
}
