/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/sysfs_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_LEN 512

static void make_folders(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(path, 0755))
			assert_int_equal(errno, EEXIST);
		*slash = '/';
	}
}

static void full_path(char full[PATH_LEN], const struct sysfs_tree *t, const char *path)
{
	assert_in_range(snprintf(full, PATH_LEN, "%s/%s", t->root, path), 1, PATH_LEN - 1);
}

void sysfs_tree_put(const struct sysfs_tree *t, const char *path, const char *text)
{
	char full[PATH_LEN];
	FILE *f;

	full_path(full, t, path);
	make_folders(full);
	f = fopen(full, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

void sysfs_tree_link(const struct sysfs_tree *t, const char *path, const char *target)
{
	char full[PATH_LEN], to[PATH_LEN];

	full_path(full, t, path);
	full_path(to, t, target);
	make_folders(full);
	assert_int_equal(symlink(to, full), 0);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

void sysfs_tree_remove(const struct sysfs_tree *t, const char *path)
{
	char full[PATH_LEN];

	full_path(full, t, path);
	assert_int_equal(nftw(full, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

int sysfs_tree_setup(void **state)
{
	struct sysfs_tree *t = calloc(1, sizeof(*t));

	strcpy(t->root, "/tmp/slime-sysfs-XXXXXX");
	*state = t;
	return mkdtemp(t->root) ? 0 : -1;
}

int sysfs_tree_teardown(void **state)
{
	struct sysfs_tree *t = *state;
	int ret = nftw(t->root, remove_one, 8, FTW_DEPTH | FTW_PHYS);

	free(t);
	return ret;
}
