/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "pages/src/tenant.h"

/* 4 KiB to 4 MiB. */
static const uint32_t default_classes[] = { 4096,   8192,   16384,   32768,   65536,  131072,
					    262144, 524288, 1048576, 2097152, 4194304 };

static int copy_allow(struct tenant *t, const struct slime_pages_tenant *wanted)
{
	if (!wanted->n_allow)
		return 0;
	t->allow = calloc(wanted->n_allow, sizeof(*t->allow));
	if (!t->allow)
		return -ENOMEM;
	for (; t->n_allow < wanted->n_allow; t->n_allow++) {
		t->allow[t->n_allow] = strdup(wanted->allow[t->n_allow]);
		if (!t->allow[t->n_allow])
			return -ENOMEM;
	}
	return 0;
}

static int make_region(struct tenant *t, struct slime_context *ctx)
{
	struct slime_mr_attr attr = SLIME_MR_ATTR_INIT;
	uint8_t desc[SLIME_MR_DESC_MAX];
	struct slime_remote_mr remote;
	int ret, len;

	attr.access = SLIME_ACCESS_REMOTE_READ;
	attr.restricted = t->n_allow > 0;
	ret = slime_mr_create_attr(ctx, slime_mem_addr(t->mem), slime_mem_len(t->mem), &attr,
				   &t->mr);
	if (ret)
		return ret;
	len = slime_mr_export(t->mr, desc, sizeof(desc));
	ret = len < 0 ? len : slime_remote_mr_import(desc, (size_t)len, &remote);
	if (!ret)
		pages_right(&remote, t->right);
	return ret;
}

static int make_store(struct tenant *t, const struct slime_pages_owner_attr *attr)
{
	struct page_store_attr s = {
		.mem = slime_mem_addr(t->mem),
		.size = slime_mem_len(t->mem),
		.classes = attr->classes ? attr->classes : default_classes,
		.n_classes = attr->classes ? (unsigned)attr->n_classes
					   : sizeof(default_classes) / sizeof(default_classes[0]),
		.high_percent = attr->high_percent,
		.low_percent = attr->low_percent,
	};
	int ret;

	if (attr->classes && attr->n_classes > SLIME_PAGES_CLASSES_MAX)
		return -EINVAL;
	ret = page_store_create(&s, &t->store);
	if (ret == -EINVAL)
		sl_error(
			"pages",
			"tenant %s: lengths of pages must ascend, and its %llu bytes hold 2 MiB, or the longest page, for each",
			t->name, (unsigned long long)s.size);
	return ret;
}

int tenant_init(struct tenant *t, struct slime_context *ctx,
		const struct slime_pages_tenant *wanted, const struct slime_pages_owner_attr *attr)
{
	const char *name = wanted->name ? wanted->name : PAGES_DEFAULT_TENANT;
	struct slime_mem_attr mem = SLIME_MEM_ATTR_INIT;
	int ret;

	if (!*name || strlen(name) > SLIME_PAGES_TENANT_MAX || !wanted->size)
		return -EINVAL;
	snprintf(t->name, sizeof(t->name), "%s", name);
	snprintf(t->region, sizeof(t->region), PAGES_REGION_PREFIX "%s", name);
	ret = copy_allow(t, wanted);
	if (ret)
		return ret;
	mem.huge = attr->huge;
	mem.numa_node = attr->numa_node;
	mem.name = t->region;
	mem.cancelled = attr->cancelled;
	mem.arg = attr->arg;
	ret = slime_mem_alloc(ctx, wanted->size, &mem, &t->mem);
	if (!ret)
		ret = make_region(t, ctx);
	if (!ret)
		ret = make_store(t, attr);
	return ret;
}

int tenant_fini(struct tenant *t)
{
	int ret = slime_mr_destroy(t->mr);

	if (ret)
		return ret;
	t->mr = NULL;
	page_store_destroy(t->store);
	t->store = NULL;
	for (size_t i = 0; i < t->n_allow; i++)
		free(t->allow[i]);
	free(t->allow);
	t->allow = NULL;
	t->n_allow = 0;
	return slime_mem_destroy(t->mem);
}

int tenant_offer(struct tenant *t, struct slime_agent *agent)
{
	int ret = slime_agent_region_offer(agent, t->region, t->mr, SLIME_ACCESS_REMOTE_READ,
					   (const char *const *)t->allow, t->n_allow);

	t->offered = !ret;
	return ret;
}

void tenant_withdraw(struct tenant *t, struct slime_agent *agent)
{
	if (t->offered)
		(void)slime_agent_region_withdraw(agent, t->region);
	t->offered = false;
}
