/* SPDX-License-Identifier: Apache-2.0 */
/* A tenant at its owner: memory, the region through which readers see it, and the store in it. */
#ifndef PAGES_TENANT_H
#define PAGES_TENANT_H

#include "pages/src/message.h"
#include "pages/src/store.h"
#include <slime/pages.h>

#define PAGES_DEFAULT_TENANT  "default"
#define PAGES_REGION_PREFIX   "pages."
#define PAGES_REGION_NAME_MAX (sizeof(PAGES_REGION_PREFIX) + SLIME_PAGES_TENANT_MAX)

struct tenant {
	char name[SLIME_PAGES_TENANT_MAX + 1];
	char region[PAGES_REGION_NAME_MAX];
	char **allow;
	size_t n_allow;
	struct slime_mem *mem;
	struct slime_mr *mr;
	struct page_store *store;
	uint8_t right[PAGES_RIGHT_LEN];
	bool offered;
};

/* Zeroed before. What slime_pages_owner_create() says; to be ended by tenant_fini() in any case. */
int tenant_init(struct tenant *t, struct slime_context *ctx,
		const struct slime_pages_tenant *wanted, const struct slime_pages_owner_attr *attr);

/* The result of slime_mr_destroy(); on an error nothing happened. */
int tenant_fini(struct tenant *t);

int tenant_offer(struct tenant *t, struct slime_agent *agent);
void tenant_withdraw(struct tenant *t, struct slime_agent *agent);

#endif
