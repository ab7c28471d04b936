/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service pages of peeragent:
 *
 *	services:
 *	  - name: pages
 *	    options: { size: 64GiB, classes: "64KiB,128KiB", tenant.team-a: 16GiB, allow.team-a:
 *"team=a" }
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cli/options/quantity.h"
#include <slime/pages.h>
#include <slime/plugin.h>

#define TENANTS_MAX    64
#define ALLOW_MAX      16
#define SIZE_MAX_BYTES (INT64_C(1) << 44)

struct wanted_tenant {
	const char *name;
	uint64_t size;
	char *selectors; /* a copy of the option, cut into allow */
	const char *allow[ALLOW_MAX];
	size_t n_allow;
};

/* The options of the service. */
struct wanted {
	struct wanted_tenant tenants[TENANTS_MAX];
	size_t n_tenants;
	uint32_t classes[SLIME_PAGES_CLASSES_MAX];
	size_t n_classes; /* 0: the library's */
	enum slime_huge_pages huge;
	int numa_node;
	unsigned high, low;
};

static struct wanted_tenant *find_tenant(struct wanted *w, const char *name)
{
	for (size_t i = 0; i < w->n_tenants; i++)
		if (!strcmp(w->tenants[i].name, name))
			return &w->tenants[i];
	return NULL;
}

/* Each of these: NULL, or what was expected. */

static const char *parse_memory(const char *text, uint64_t *out)
{
	int64_t bytes;

	if (cli_size_parse(text, &bytes) || bytes < 4096 || bytes > SIZE_MAX_BYTES || bytes % 4096)
		return "a size such as 64GiB, a multiple of 4KiB, at most 16TiB";
	*out = (uint64_t)bytes;
	return NULL;
}

static const char *parse_classes(const char *text, struct wanted *w)
{
	static const char expected[] =
		"lengths of pages, ascending, such as \"64KiB,128KiB\", at most 16 of up to 1GiB";
	char part[32];
	int64_t bytes;

	w->n_classes = 0;
	for (const char *at = text; *at;) {
		size_t len = strcspn(at, ",");

		if (!len || len >= sizeof(part) || w->n_classes == SLIME_PAGES_CLASSES_MAX)
			return expected;
		memcpy(part, at, len);
		part[len] = 0;
		if (cli_size_parse(part, &bytes) || bytes < 64 || bytes > INT64_C(1) << 30 ||
		    (w->n_classes && (uint64_t)bytes <= w->classes[w->n_classes - 1]))
			return expected;
		w->classes[w->n_classes++] = (uint32_t)bytes;
		at += len + (at[len] == ',');
	}
	return w->n_classes ? NULL : expected;
}

static const char *parse_huge(const char *text, struct wanted *w)
{
	static const char *const names[] = { [SLIME_HUGE_AUTO] = "auto",
					     [SLIME_HUGE_OFF] = "off",
					     [SLIME_HUGE_2M] = "2MiB",
					     [SLIME_HUGE_1G] = "1GiB" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(text, names[i])) {
			w->huge = (enum slime_huge_pages)i;
			return NULL;
		}
	}
	return "auto, off, 2MiB or 1GiB";
}

static const char *parse_number(const char *text, int min, int max, const char *expected, int *out)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (end == text || *end || n < min || n > max)
		return expected;
	*out = (int)n;
	return NULL;
}

static const char *parse_percent(const char *text, unsigned *out)
{
	int n = 0;
	const char *expected = parse_number(text, 1, 100, "a percentage from 1 to 100", &n);

	if (!expected)
		*out = (unsigned)n;
	return expected;
}

static const char *parse_tenant(const char *name, const char *text, struct wanted *w)
{
	struct wanted_tenant *t;

	if (!*name || strlen(name) > SLIME_PAGES_TENANT_MAX)
		return "tenant.NAME, with a name of at most 128 bytes";
	if (find_tenant(w, name))
		return "each tenant once";
	if (w->n_tenants == TENANTS_MAX)
		return "at most 64 tenants";
	t = &w->tenants[w->n_tenants++];
	t->name = name;
	return parse_memory(text, &t->size);
}

static const char *parse_allow(const char *name, const char *text, struct wanted *w)
{
	static const char expected[] = "selectors such as \"role=decode name=node-b\", at most 16, "
				       "behind the tenant's size";
	struct wanted_tenant *t = find_tenant(w, name);
	char *one, *at;

	if (!t || t->selectors)
		return expected;
	t->selectors = strdup(text);
	if (!t->selectors)
		return "more memory";
	for (one = strtok_r(t->selectors, " ", &at); one; one = strtok_r(NULL, " ", &at)) {
		if (t->n_allow == ALLOW_MAX)
			return expected;
		t->allow[t->n_allow++] = one;
	}
	return t->n_allow ? NULL : expected;
}

static const char *parse_option(const struct slime_plugin_option *o, struct wanted *w)
{
	if (!strcmp(o->key, "size"))
		return parse_tenant("default", o->value, w);
	if (!strncmp(o->key, "tenant.", 7))
		return parse_tenant(o->key + 7, o->value, w);
	if (!strcmp(o->key, "allow"))
		return parse_allow("default", o->value, w);
	if (!strncmp(o->key, "allow.", 6))
		return parse_allow(o->key + 6, o->value, w);
	if (!strcmp(o->key, "classes"))
		return parse_classes(o->value, w);
	if (!strcmp(o->key, "huge"))
		return parse_huge(o->value, w);
	if (!strcmp(o->key, "numa"))
		return parse_number(o->value, 0, 1023, "a NUMA node", &w->numa_node);
	if (!strcmp(o->key, "high"))
		return parse_percent(o->value, &w->high);
	if (!strcmp(o->key, "low"))
		return parse_percent(o->value, &w->low);
	return "one of size, allow, tenant.NAME, allow.NAME, classes, huge, numa, high, low";
}

static void wanted_fini(struct wanted *w)
{
	for (size_t i = 0; i < w->n_tenants; i++)
		free(w->tenants[i].selectors);
}

/* NULL, or what was expected at *index; to be ended by wanted_fini() in any case. */
static const char *wanted_init(struct wanted *w, const struct slime_plugin_option *options,
			       size_t n, size_t *index)
{
	const char *expected = NULL;

	*w = (struct wanted){ .numa_node = SLIME_NUMA_ANY, .high = 98, .low = 95 };
	for (size_t i = 0; i < n && !expected; i++) {
		*index = i;
		expected = parse_option(&options[i], w);
	}
	if (!expected && w->low > w->high)
		expected = "a low mark that is not above the high one";
	if (!expected && !w->n_tenants)
		expected = "size: how much memory pages may have";
	return expected;
}

static const char *plugin_check(const struct slime_plugin_option *options, size_t n, size_t *index)
{
	struct wanted *w = malloc(sizeof(*w));
	const char *expected = "more memory";

	*index = 0;
	if (w) {
		expected = wanted_init(w, options, n, index);
		wanted_fini(w);
	}
	free(w);
	return expected;
}

/* The program is to end before there is an owner; there is one in a process. */
static _Atomic bool cancelled;

static bool is_cancelled(void *arg)
{
	(void)arg;
	return atomic_load(&cancelled);
}

static void plugin_cancel(void)
{
	atomic_store(&cancelled, true);
}

static int create(struct slime_agent *agent, const struct wanted *w, void **state)
{
	struct slime_pages_owner_attr attr = SLIME_PAGES_OWNER_ATTR_INIT;
	struct slime_pages_tenant tenants[TENANTS_MAX];
	struct slime_pages_owner *owner;
	int ret;

	for (size_t i = 0; i < w->n_tenants; i++)
		tenants[i] = (struct slime_pages_tenant){
			.name = w->tenants[i].name,
			.size = w->tenants[i].size,
			.allow = w->tenants[i].n_allow ? w->tenants[i].allow : NULL,
			.n_allow = w->tenants[i].n_allow,
		};
	attr.tenants = tenants;
	attr.n_tenants = w->n_tenants;
	attr.classes = w->n_classes ? w->classes : NULL;
	attr.n_classes = w->n_classes;
	attr.huge = w->huge;
	attr.numa_node = w->numa_node;
	attr.high_percent = w->high;
	attr.low_percent = w->low;
	attr.cancelled = is_cancelled;
	ret = slime_pages_owner_create(agent, &attr, &owner);
	if (!ret)
		*state = owner;
	return ret;
}

static int plugin_init(struct slime_agent *agent, const struct slime_plugin_option *options,
		       size_t n, void **state)
{
	struct wanted *w = malloc(sizeof(*w));
	size_t index;
	int ret = -ENOMEM;

	if (!w)
		return ret;
	ret = wanted_init(w, options, n, &index) ? -EINVAL : create(agent, w, state);
	wanted_fini(w);
	free(w);
	return ret;
}

static int plugin_start(void *state)
{
	return slime_pages_owner_start(state);
}

static void plugin_stop(void *state)
{
	slime_pages_owner_stop(state);
}

static void plugin_fini(void *state)
{
	int ret = slime_pages_owner_destroy(state);

	if (ret)
		sl_warn("pages", "the memory of pages stays until the process ends: %s",
			strerror(-ret));
}

#define TOTAL "_total"
#define FIGURE(member, suffix, text)                                                              \
	{                                                                                         \
		.at = offsetof(struct slime_pages_stat, member),                                  \
		.name = "slime_pages_" #member suffix, .counts = sizeof(suffix) > 1, .help = text \
	}

static const struct {
	size_t at;
	const char *name;
	const char *help;
	bool counts;
} figures[] = {
	FIGURE(size, "", "bytes that pages can have"),
	FIGURE(used, "", "bytes of the pages that are taken"),
	FIGURE(bytes, "", "bytes in use in them"),
	FIGURE(pages, "", "pages that are there"),
	FIGURE(pinned, "", "pages that are pinned"),
	FIGURE(filling, "", "pages that are being read from their writers"),
	FIGURE(found, TOTAL, "look-ups of keys that are there"),
	FIGURE(missed, TOTAL, "look-ups of keys that are not"),
	FIGURE(put, TOTAL, "pages that were put"),
	FIGURE(refused, TOTAL, "pages that were refused for want of room"),
	FIGURE(evicted, TOTAL, "pages that left by age and use"),
	FIGURE(evicted_slab, TOTAL, "pages that left because another length needed the room"),
	FIGURE(deleted, TOTAL, "pages that were deleted"),
	FIGURE(replaced, TOTAL, "pages that were replaced"),
};

static void add_figure(struct slime_pages_owner *owner, size_t which, slime_plugin_figure_fn *add,
		       void *arg)
{
	const char *tenant;

	for (size_t i = 0; (tenant = slime_pages_owner_tenant(owner, i)) != NULL; i++) {
		char labels[SLIME_PAGES_TENANT_MAX + sizeof("tenant=\"\"")];
		struct slime_plugin_figure f = { .name = figures[which].name,
						 .help = figures[which].help,
						 .counts = figures[which].counts,
						 .labels = labels };
		struct slime_pages_stat stat;

		if (slime_pages_owner_stat(owner, tenant, &stat))
			continue;
		snprintf(labels, sizeof(labels), "tenant=\"%s\"", tenant);
		memcpy(&f.value, (const char *)&stat + figures[which].at, sizeof(f.value));
		add(arg, &f);
	}
}

static void plugin_figures(void *state, slime_plugin_figure_fn *add, void *arg)
{
	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
		add_figure(state, i, add, arg);
}

/* Two workers: a put waits for its writer's link, which takes a moment. */
SLIME_API const struct slime_plugin slime_plugin = {
	SLIME_PLUGIN_HEAD,	   .name = SLIME_PAGES_SERVICE, .init = plugin_init,
	.start = plugin_start,	   .stop = plugin_stop,		.fini = plugin_fini,
	.check = plugin_check,	   .cancel = plugin_cancel,	.workers = 2,
	.figures = plugin_figures,
};
