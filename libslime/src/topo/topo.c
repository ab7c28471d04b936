/* SPDX-License-Identifier: Apache-2.0 */
#include <slime/topo.h>

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/log.h"
#include "src/core/sysfs.h"

#define CPUS_MAX (1u << 20) /* more than any kernel is built for */

/* The next "a" or "a-b" of a list like "0-3,8"; false at its end or where it is malformed. */
static bool next_range(const char **list, unsigned long *first, unsigned long *last)
{
	char *end;

	if (**list < '0' || **list > '9')
		return false;
	*first = strtoul(*list, &end, 10);
	*last = *first;
	if (*end == '-')
		*last = strtoul(end + 1, &end, 10);
	*list = *end == ',' ? end + 1 : end;
	return *last >= *first && *last < INT32_MAX;
}

static uint32_t count_listed(const char *list)
{
	unsigned long first, last, n = 0;

	while (next_range(&list, &first, &last))
		n += last - first + 1;
	return (uint32_t)n;
}

/* The bytes of a "Name:   123 kB" line of a meminfo file; false when there is no such line. */
static bool meminfo_bytes(const char *text, const char *name, uint64_t *bytes)
{
	const char *at = strstr(text, name);

	if (!at)
		return false;
	*bytes = strtoull(at + strlen(name), NULL, 10) * 1024;
	return true;
}

static int parse_meminfo(const char *text, struct slime_topo_node *node)
{
	return meminfo_bytes(text, "MemTotal:", &node->mem_total) &&
			       meminfo_bytes(text, "MemFree:", &node->mem_free)
		       ? 0
		       : -EIO;
}

/* A kernel without pages of that size has no such file. */
static uint32_t free_huge_pages(const char *root, const char *dir, const char *size)
{
	int64_t n;

	return sl_sysfs_number(&n, root, "%s/hugepages-%s/free_hugepages", dir, size) ? 0
										      : (uint32_t)n;
}

static void read_huge_pages(const char *root, const char *dir, struct slime_topo_node *node)
{
	node->huge_2m_free = free_huge_pages(root, dir, "2048kB");
	node->huge_1g_free = free_huge_pages(root, dir, "1048576kB");
}

static int read_node(const char *root, int id, struct slime_topo_node *node)
{
	char dir[64];
	char text[SL_SYSFS_TEXT_MAX];
	int ret;

	node->id = id;
	snprintf(dir, sizeof(dir), "devices/system/node/node%d", id);
	ret = sl_sysfs_text(text, sizeof(text), root, "%s/meminfo", dir);
	if (!ret)
		ret = parse_meminfo(text, node);
	if (!ret)
		ret = sl_sysfs_text(text, sizeof(text), root, "%s/cpulist", dir);
	if (ret)
		return ret;
	node->n_cpus = count_listed(text);
	snprintf(dir, sizeof(dir), "devices/system/node/node%d/hugepages", id);
	read_huge_pages(root, dir, node);
	return 0;
}

/* A kernel built without NUMA shows no nodes: the host is one. */
static int read_only_node(const char *root, struct slime_topo *t)
{
	struct slime_topo_node *node = &t->nodes[0];
	char text[SL_SYSFS_TEXT_MAX];
	int ret = sl_sysfs_text(text, sizeof(text), root, "devices/system/cpu/online");

	if (ret)
		return ret;
	node->n_cpus = count_listed(text);
	ret = sl_sysfs_text(text, sizeof(text), "/proc", "meminfo");
	if (!ret)
		ret = parse_meminfo(text, node);
	if (ret)
		return ret;
	read_huge_pages(root, "kernel/mm/hugepages", node);
	t->n_nodes = 1;
	return 0;
}

static int read_nodes(const char *root, struct slime_topo *t)
{
	char text[SL_SYSFS_TEXT_MAX];
	const char *list = text;
	unsigned long id, last;
	int ret = sl_sysfs_text(text, sizeof(text), root, "devices/system/node/online");

	if (ret == -ENOENT)
		return read_only_node(root, t);
	if (ret)
		return ret;
	while (next_range(&list, &id, &last)) {
		for (; id <= last && t->n_nodes < SLIME_TOPO_NODES_MAX; id++) {
			ret = read_node(root, (int)id, &t->nodes[t->n_nodes]);
			if (ret)
				return ret;
			t->n_nodes++;
		}
	}
	return t->n_nodes ? 0 : -EIO;
}

/* Not every architecture names its CPUs: then it is "unknown". */
static int read_cpu_model(char *out, size_t cap)
{
	char text[SL_SYSFS_TEXT_MAX];
	const char *at;
	int ret = sl_sysfs_text(text, sizeof(text), "/proc", "cpuinfo");

	if (ret)
		return ret;
	at = strstr(text, "model name");
	at = at ? strchr(at, ':') : NULL;
	if (!at)
		snprintf(out, cap, "unknown");
	else
		snprintf(out, cap, "%.*s", (int)strcspn(at + 2, "\n"), at + 2);
	return 0;
}

/* That this process may use: a kernel that knows more of them than the set has places for says
 * EINVAL. */
static int count_cpus(uint32_t *out)
{
	int err = EINVAL;

	for (size_t n = CPU_SETSIZE; err == EINVAL && n <= CPUS_MAX; n *= 2) {
		cpu_set_t *cpus = CPU_ALLOC(n);

		if (!cpus)
			return -ENOMEM;
		err = sched_getaffinity(0, CPU_ALLOC_SIZE(n), cpus) ? errno : 0;
		if (!err)
			*out = (uint32_t)CPU_COUNT_S(CPU_ALLOC_SIZE(n), cpus);
		CPU_FREE(cpus);
	}
	return -err;
}

static int read_process(struct slime_topo *t)
{
	struct utsname u;
	int ret = uname(&u) ? -errno : count_cpus(&t->n_cpus);

	if (ret)
		return ret;
	snprintf(t->hostname, sizeof(t->hostname), "%s", u.nodename);
	snprintf(t->kernel, sizeof(t->kernel), "%s", u.release);
	t->page_size = (uint64_t)sysconf(_SC_PAGESIZE);
	return 0;
}

int slime_topo_get(const char *sysfs_root, struct slime_topo *out)
{
	const char *root = sysfs_root ? sysfs_root : "/sys";
	struct slime_topo t = { 0 };
	int ret = read_process(&t);

	if (!ret)
		ret = read_cpu_model(t.cpu_model, sizeof(t.cpu_model));
	if (!ret)
		ret = read_nodes(root, &t);
	if (ret) {
		sl_error("topo", "what %s and /proc say of this host cannot be read: %s", root,
			 strerror(-ret));
		return -EIO;
	}
	*out = t;
	return 0;
}
