/* SPDX-License-Identifier: Apache-2.0 */
/* A sysfs that the test writes, in a temporary folder. */
#ifndef TESTS_SUPPORT_SYSFS_TREE_H
#define TESTS_SUPPORT_SYSFS_TREE_H

struct sysfs_tree {
	char root[64];
};

/* cmocka's setup and teardown; *state is the tree. */
int sysfs_tree_setup(void **state);
int sysfs_tree_teardown(void **state);

/* Write the file path, whose folders are made. */
void sysfs_tree_put(const struct sysfs_tree *t, const char *path, const char *text);

/* Make path, whose folders are made, a link to target, which is below the root, too. */
void sysfs_tree_link(const struct sysfs_tree *t, const char *path, const char *target);

/* Remove path and what is below it. */
void sysfs_tree_remove(const struct sysfs_tree *t, const char *path);

#endif
