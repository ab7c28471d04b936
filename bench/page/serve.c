/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

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

int page_prepare_owner(struct slime_agent *agent, const struct settings *settings,
		       struct slime_pages_owner **out)
{
	const struct page_settings *p = &settings->page;
	const struct slime_pages_tenant tenant = { .name = p->tenant, .size = memory_for(p) };
	struct slime_pages_owner_attr attr = SLIME_PAGES_OWNER_ATTR_INIT;
	uint32_t class = (uint32_t)p->page_size;

	attr.tenants = &tenant;
	attr.n_tenants = 1;
	attr.classes = &class;
	attr.n_classes = 1;
	attr.high_percent = 100;
	attr.low_percent = 100;
	return slime_pages_owner_create(agent, &attr, out);
}

int page_serve(struct client *c)
{
	int ret = slime_pages_owner_start(c->owner);

	if (ret) {
		fprintf(stderr, "slime-bench: cannot offer the memory of pages: %s\n",
			strerror(-ret));
		return EXIT_FAILURE;
	}
	printf("%s serves pages of %" PRIu64 " bytes until it is interrupted\n",
	       slime_agent_name(c->agent), c->settings->page.page_size);
	fflush(stdout);
	while (!atomic_load(&c->interrupt.caught))
		poll(NULL, 0, 50);
	return EXIT_SUCCESS;
}
