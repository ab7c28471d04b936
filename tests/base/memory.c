/* SPDX-License-Identifier: Apache-2.0 */
/* What memory is left, as a tree of files says that stands for /proc and /sys. */
#include <errno.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "base/memory.h"

#define MIB (UINT64_C(1) << 20)
#define MEMINFO \
	"MemTotal: 8192 kB\nMemAvailable:    4096 kB\nSwapTotal: 2048 kB\nSwapFree:  1024 kB\n"

struct tree {
	char root[64];
};

static void write_file(struct tree *t, const char *path, const char *text)
{
	char full[512];
	FILE *f;

	snprintf(full, sizeof(full), "%s%s", t->root, path);
	for (char *at = strchr(full + strlen(t->root) + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = '\0';
		assert_true(mkdir(full, 0777) == 0 || errno == EEXIST);
		*at = '/';
	}
	f = fopen(full, "we");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static int setup(void **state)
{
	struct tree *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	strcpy(t->root, "/tmp/slime-memory-XXXXXX");
	assert_non_null(mkdtemp(t->root));
	*state = t;
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static int teardown(void **state)
{
	struct tree *t = *state;

	nftw(t->root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	free(t);
	return 0;
}

/* A machine with memory, on which we are in this group; path is where the group's files are. */
static void write_group(struct tree *t, const char *group, const char *path, const char *max,
			const char *current)
{
	char file[256];

	write_file(t, "/proc/meminfo", MEMINFO);
	write_file(t, "/proc/self/cgroup", group);
	snprintf(file, sizeof(file), "/sys/fs/cgroup%s/memory.max", path);
	write_file(t, file, max);
	snprintf(file, sizeof(file), "/sys/fs/cgroup%s/memory.current", path);
	write_file(t, file, current);
}

static uint64_t ram_left(const struct tree *t)
{
	struct sl_memory m;

	sl_memory_left(t->root, &m);
	return m.ram;
}

static void left__without_any_account_is_unknown(void **state)
{
	struct tree *t = *state;
	struct sl_memory m;

	sl_memory_left(t->root, &m);

	assert_true(m.ram == UINT64_MAX);
	assert_true(sl_memory_total(&m) == UINT64_MAX);
}

static void left__of_a_machine_without_groups_is_what_is_available(void **state)
{
	struct tree *t = *state;
	struct sl_memory m;

	write_file(t, "/proc/meminfo", MEMINFO);

	sl_memory_left(t->root, &m);

	assert_true(m.ram == 4 * MIB && m.swap == 1 * MIB);
	assert_true(sl_memory_total(&m) == 5 * MIB);
}

static void left__in_a_group_is_its_limit_less_what_it_uses_and_cannot_drop(void **state)
{
	struct tree *t = *state;
	struct sl_memory m;

	write_group(t, "0::/a/b\n", "/a/b", "3145728\n", "2097152\n");
	write_file(t, "/sys/fs/cgroup/a/b/memory.stat",
		   "anon 1\nfile 1048576\ninactive_file 524288\nactive_file 524288\n");
	write_file(t, "/sys/fs/cgroup/a/b/memory.swap.max", "0\n");
	write_file(t, "/sys/fs/cgroup/a/b/memory.swap.current", "0\n");

	sl_memory_left(t->root, &m);

	assert_true(m.ram == 2 * MIB && m.swap == 0);
}

static void left__is_bounded_by_every_group_above(void **state)
{
	struct tree *t = *state;

	write_group(t, "0::/a/b\n", "/a/b", "max\n", "0\n");
	write_file(t, "/sys/fs/cgroup/a/memory.max", "1048576\n");
	write_file(t, "/sys/fs/cgroup/a/memory.current", "0\n");

	assert_true(ram_left(t) == 1 * MIB);
}

static void left__where_the_path_is_of_the_host_is_bounded_by_what_is_mounted(void **state)
{
	struct tree *t = *state;

	write_group(t, "0::/system.slice/docker-1.scope\n", "", "1048576\n", "0\n");

	assert_true(ram_left(t) == 1 * MIB);
}

static void left__of_a_group_beyond_its_limit_is_nothing(void **state)
{
	struct tree *t = *state;

	write_group(t, "0::/a\n", "/a", "1048576\n", "2097152\n");

	assert_true(ram_left(t) == 0);
}

static void most__is_the_smaller_of_the_machine_and_the_limit(void **state)
{
	struct tree *t = *state;
	struct sl_memory m;

	write_file(t, "/proc/meminfo", MEMINFO);
	sl_memory_most(t->root, &m);
	assert_int_equal(m.ram, 8 * MIB);
	assert_int_equal(m.swap, 2 * MIB);
	write_group(t, "0::/a/b\n", "/a/b", "3145728\n", "3145728\n");
	write_file(t, "/sys/fs/cgroup/a/b/memory.swap.max", "1048576\n");
	sl_memory_most(t->root, &m);
	assert_int_equal(m.ram, 3 * MIB);
	assert_int_equal(m.swap, MIB);
}

static void left__in_a_group_of_version_1_is_bounded_by_it(void **state)
{
	struct tree *t = *state;
	struct sl_memory m;

	write_file(t, "/proc/meminfo", MEMINFO);
	write_file(t, "/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/a:b\n0::/\n");
	write_file(t, "/sys/fs/cgroup/memory/a:b/memory.limit_in_bytes", "2097152\n");
	write_file(t, "/sys/fs/cgroup/memory/a:b/memory.usage_in_bytes", "2097152\n");
	write_file(t, "/sys/fs/cgroup/memory/a:b/memory.stat",
		   "active_file 1\ntotal_active_file 1048576\ntotal_inactive_file 0\n");
	write_file(t, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	write_file(t, "/sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n");

	sl_memory_left(t->root, &m);

	assert_true(m.ram == 1 * MIB);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(left__without_any_account_is_unknown),
		TEST(left__of_a_machine_without_groups_is_what_is_available),
		TEST(left__in_a_group_is_its_limit_less_what_it_uses_and_cannot_drop),
		TEST(left__is_bounded_by_every_group_above),
		TEST(left__where_the_path_is_of_the_host_is_bounded_by_what_is_mounted),
		TEST(left__of_a_group_beyond_its_limit_is_nothing),
		TEST(most__is_the_smaller_of_the_machine_and_the_limit),
		TEST(left__in_a_group_of_version_1_is_bounded_by_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
