/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

#define GROUP_MAX 4096

/* The names of the files of a version. */
struct version {
	const char *mount;
	const char *limit, *usage;
	const char *active, *inactive; /* cached files, in memory.stat */
	const char *swap_limit, *swap_usage;
};

/* Of version 1 the limit of swap is one of memory and swap together, which the machine's swap then
 * stands for. */
static const struct version v1 = {
	.mount = "/sys/fs/cgroup/memory",
	.limit = "memory.limit_in_bytes",
	.usage = "memory.usage_in_bytes",
	.active = "total_active_file",
	.inactive = "total_inactive_file",
};

static const struct version v2 = {
	.mount = "/sys/fs/cgroup",
	.limit = "memory.max",
	.usage = "memory.current",
	.active = "active_file",
	.inactive = "inactive_file",
	.swap_limit = "memory.swap.max",
	.swap_usage = "memory.swap.current",
};

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* ---- the machine ---- */

static uint64_t bytes_of(uint64_t kib)
{
	return kib > UINT64_MAX >> 10 ? UINT64_MAX : kib << 10;
}

/* The question: how much is left, or the most that there can be. */
enum extent { LEFT, MOST };

static void read_machine(const char *root, enum extent extent, struct sl_memory *out)
{
	const char *ram = extent == LEFT ? "MemAvailable" : "MemTotal";
	const char *swap = extent == LEFT ? "SwapFree" : "SwapTotal";
	char path[PATH_MAX], line[256], name[64];
	uint64_t kib;
	FILE *f;

	snprintf(path, sizeof(path), "%s/proc/meminfo", root);
	f = fopen(path, "re");
	if (!f)
		return;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%63[^:]: %" SCNu64, name, &kib) != 2)
			continue;
		if (!strcmp(name, ram))
			out->ram = bytes_of(kib);
		else if (!strcmp(name, swap))
			out->swap = bytes_of(kib);
	}
	fclose(f);
}

/* ---- control groups ---- */

/* A file of a group with one number in it; false for the word "max", or when there is none. */
static bool read_number(const char *group, const char *name, uint64_t *out)
{
	char path[PATH_MAX];
	bool there;
	FILE *f;

	if (snprintf(path, sizeof(path), "%s/%s", group, name) >= (int)sizeof(path))
		return false;
	f = fopen(path, "re");
	if (!f)
		return false;
	there = fscanf(f, "%" SCNu64, out) == 1;
	fclose(f);
	return there;
}

static uint64_t read_cached(const struct version *v, const char *group)
{
	char path[PATH_MAX], line[256], name[64];
	uint64_t bytes, sum = 0;
	FILE *f;

	if (snprintf(path, sizeof(path), "%s/memory.stat", group) >= (int)sizeof(path))
		return 0;
	f = fopen(path, "re");
	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%63s %" SCNu64, name, &bytes) == 2 &&
		    (!strcmp(name, v->active) || !strcmp(name, v->inactive)))
			sum += bytes;
	}
	fclose(f);
	return sum;
}

static void take_limits(const struct version *v, const char *group, struct sl_memory *out)
{
	uint64_t limit;

	if (read_number(group, v->limit, &limit))
		out->ram = least(out->ram, limit);
	if (v->swap_limit && read_number(group, v->swap_limit, &limit))
		out->swap = least(out->swap, limit);
}

static void take_group(const struct version *v, const char *group, struct sl_memory *out)
{
	uint64_t limit, used, cached;

	if (read_number(group, v->limit, &limit) && read_number(group, v->usage, &used)) {
		cached = read_cached(v, group);
		used -= least(cached, used);
		out->ram = least(out->ram, limit - least(used, limit));
	}
	if (v->swap_limit && read_number(group, v->swap_limit, &limit) &&
	    read_number(group, v->swap_usage, &used))
		out->swap = least(out->swap, limit - least(used, limit));
}

/* Ours, then those above it. In a container the path may be the host's, of which only the end is
 * mounted: what is not there has no say. */
static void take_path(const struct version *v, const char *root, enum extent extent, char *path,
		      struct sl_memory *out)
{
	char group[PATH_MAX];
	char *end;

	for (;;) {
		if (snprintf(group, sizeof(group), "%s%s%s", root, v->mount, path) <
		    (int)sizeof(group)) {
			if (extent == LEFT)
				take_group(v, group, out);
			else
				take_limits(v, group, out);
		}
		end = strrchr(path, '/');
		if (!end)
			return;
		*end = '\0';
	}
}

/* "4:memory:/a/b" or "0::/a/b". */
static void take_line(const char *root, enum extent extent, char *line, struct sl_memory *out)
{
	char *controllers = strchr(line, ':');
	char *path = controllers ? strchr(controllers + 1, ':') : NULL;

	if (!path)
		return;
	controllers++;
	*path++ = '\0';
	path[strcspn(path, "\n")] = '\0';
	if (!*controllers)
		take_path(&v2, root, extent, path, out);
	else if (!strcmp(controllers, "memory"))
		take_path(&v1, root, extent, path, out);
}

static void look(const char *root, enum extent extent, struct sl_memory *out)
{
	char path[PATH_MAX], line[GROUP_MAX];
	FILE *f;

	*out = (struct sl_memory){ .ram = UINT64_MAX, .swap = 0 };
	read_machine(root, extent, out);
	snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	f = fopen(path, "re");
	if (!f)
		return;
	while (fgets(line, sizeof(line), f))
		take_line(root, extent, line, out);
	fclose(f);
}

void sl_memory_left(const char *root, struct sl_memory *out)
{
	look(root, LEFT, out);
}

void sl_memory_most(const char *root, struct sl_memory *out)
{
	look(root, MOST, out);
}
