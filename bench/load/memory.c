/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bench/load/memory.h"

#define LINE_MAX_BYTES 4096

static uint64_t machine_has(void)
{
	FILE *f = fopen("/proc/meminfo", "re");
	uint64_t kib = UINT64_MAX >> 10;
	char line[256];

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1)
			break;
	}
	if (f)
		fclose(f);
	return kib << 10;
}

/* The limit of a control group; the word "max" is none. */
static uint64_t limit_of(const char *group)
{
	char path[LINE_MAX_BYTES + 64];
	uint64_t limit;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/fs/cgroup%s/memory.max", group);
	f = fopen(path, "re");
	if (!f)
		return UINT64_MAX;
	if (fscanf(f, "%" SCNu64, &limit) != 1)
		limit = UINT64_MAX;
	fclose(f);
	return limit;
}

static uint64_t group_has(void)
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	uint64_t limit = UINT64_MAX;
	char line[LINE_MAX_BYTES];

	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, "0::/", 4))
			continue;
		line[strcspn(line, "\n")] = '\0';
		limit = limit_of(line[4] ? line + 3 : "");
	}
	if (f)
		fclose(f);
	return limit;
}

uint64_t load_memory_available(void)
{
	uint64_t machine = machine_has(), group = group_has();

	return machine < group ? machine : group;
}

uint64_t load_memory_budget(void)
{
	return load_memory_available() / 2;
}
