/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "pages/src/page.h"
#include "pages/src/pages.h"
#include "pages/src/tenant.h"

static const struct slime_pages_attr defaults = SLIME_PAGES_ATTR_INIT;

static int check(const struct slime_pages_attr *attr)
{
	const char *wrong = NULL;

	if (attr->tenant && (!*attr->tenant || strlen(attr->tenant) > SLIME_PAGES_TENANT_MAX))
		wrong = "tenant";
	else if (!attr->replicas || attr->replicas > REPLICAS_MAX)
		wrong = "replicas";
	else if (!attr->refresh_ms)
		wrong = "refresh_ms";
	else if (!attr->timeout_ms)
		wrong = "timeout_ms";
	else if (attr->verify > SLIME_PAGES_VERIFY_NEVER)
		wrong = "verify";
	else if (attr->n_owners > MEMBERS_MAX)
		wrong = "n_owners";
	if (wrong)
		sl_error("pages", "%s is out of its range", wrong);
	return wrong ? -EINVAL : 0;
}

void slime_pages_attr_init(struct slime_pages_attr *attr)
{
	*attr = defaults;
}

int slime_pages_create(struct slime_agent *agent, const struct slime_pages_attr *attr,
		       struct slime_pages **out)
{
	struct slime_pages *p;
	int ret;

	if (!attr)
		attr = &defaults;
	ret = check(attr);
	if (ret)
		return ret;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->agent = agent;
	snprintf(p->tenant, sizeof(p->tenant), "%s",
		 attr->tenant ? attr->tenant : PAGES_DEFAULT_TENANT);
	p->verify = attr->verify;
	p->replicas = attr->replicas;
	p->timeout_ms = attr->timeout_ms;
	ret = places_create(attr->dir_cache_entries, attr->dir_cache_ttl_ms, &p->places);
	if (!ret)
		ret = members_create(agent, attr, &p->members);
	if (ret) {
		places_destroy(p->places);
		free(p);
		return ret;
	}
	*out = p;
	return 0;
}

int slime_pages_wait_ready(struct slime_pages *p, unsigned n, int64_t timeout_ms)
{
	return members_wait(p->members, n, timeout_ms);
}

int slime_pages_destroy(struct slime_pages *p)
{
	if (!p)
		return 0;
	if (atomic_load(&p->n_requests))
		return -EBUSY;
	members_destroy(p->members);
	places_destroy(p->places);
	free(p);
	return 0;
}

static uint64_t counted(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

size_t slime_pages_owners(struct slime_pages *p, const void *key, size_t key_len,
			  struct slime_pages_owner_info *owners, size_t n)
{
	uint64_t hash = key ? page_hash(key, key_len, 0).low : 0;

	return members_list(p->members, key ? &hash : NULL, owners, n);
}

void slime_pages_counters(struct slime_pages *p, struct slime_pages_counters *out)
{
	*out = (struct slime_pages_counters){
		.hits = counted(&p->counts.hits),
		.misses = counted(&p->counts.misses),
		.lookups = counted(&p->counts.lookups),
		.cached = counted(&p->counts.cached),
		.rejected = counted(&p->counts.rejected),
		.dead = counted(&p->counts.dead),
		.bytes = counted(&p->counts.bytes),
		.owners = members_reachable(p->members),
	};
}
