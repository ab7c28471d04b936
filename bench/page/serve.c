/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "bench/page/page.h"

/* Beside the working set: what is being put, and what a class leaves unused. */
#define SIZE_SHARE 1.3

static uint64_t memory_for(const struct page_settings *p)
{
	uint64_t objects = p->layout == PAGE_MHA ? 2 : 1;
	double bytes = (double)p->working_set * (double)objects * (double)p->page_size * SIZE_SHARE;
	uint64_t size = p->memory ? p->memory : (uint64_t)bytes + (UINT64_C(8) << 20);

	return (size + 4095) / 4096 * 4096;
}

static int prepare(struct client *c)
{
	const struct page_settings *p = &c->settings->page;
	const struct slime_pages_tenant tenant = { .name = p->tenant, .size = memory_for(p) };
	struct slime_pages_owner_attr attr = SLIME_PAGES_OWNER_ATTR_INIT;
	uint32_t class = (uint32_t)p->page_size;
	struct slime_pages_owner *owner;
	int ret;

	attr.tenants = &tenant;
	attr.n_tenants = 1;
	attr.classes = &class;
	attr.n_classes = 1;
	attr.high_percent = 100;
	attr.low_percent = 100;
	ret = slime_pages_owner_create(c->agent, &attr, &owner);
	if (!ret)
		c->state = owner;
	return ret;
}

static int offer(struct client *c)
{
	return slime_pages_owner_start(c->state);
}

static void withdraw(struct client *c)
{
	slime_pages_owner_stop(c->state);
}

static int fini(struct client *c)
{
	return slime_pages_owner_destroy(c->state);
}

int page_serve(const struct settings *settings)
{
	static const struct client_role role = {
		.workers = 2, .prepare = prepare, .offer = offer, .withdraw = withdraw, .fini = fini
	};
	char what[96];

	snprintf(what, sizeof(what), "serves pages of %llu bytes",
		 (unsigned long long)settings->page.page_size);
	return client_serve(settings, &role, what);
}
