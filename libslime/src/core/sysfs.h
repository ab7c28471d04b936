/* SPDX-License-Identifier: Apache-2.0 */
/* Small files and folders of sysfs, below a root that is "/sys" or a test's. */
#ifndef SL_SYSFS_H
#define SL_SYSFS_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include <slime/export.h>

#define SL_SYSFS_TEXT_MAX 8192

/*
 * Read the beginning of the file root/PATH as a string without its last line end; PATH is
 * formatted. Each byte that is not printable ASCII, a tab or a line end becomes '?'. 0 or a
 * negative errno; text is a string in each case.
 */
int sl_sysfs_text(char *text, size_t cap, const char *root, const char *fmt, ...)
	SLIME_PRINTF(4, 5);

/* The decimal number a file begins with. -EINVAL when it begins with none. */
int sl_sysfs_number(int64_t *out, const char *root, const char *fmt, ...) SLIME_PRINTF(3, 4);

/* Where root/PATH really is, its links followed: 0 or a negative errno. */
int sl_sysfs_real(char real[PATH_MAX], const char *root, const char *fmt, ...) SLIME_PRINTF(3, 4);

/* The names in a folder, mlx5_2 before mlx5_10; without those that begin with a dot or are not
 * printable ASCII. */
struct sl_sysfs_names {
	size_t n;
	char **names;
};

/* -E2BIG when there are more than max. On an error out is empty; fini of an empty one is fine. */
int sl_sysfs_names(struct sl_sysfs_names *out, size_t max, const char *root, const char *fmt, ...)
	SLIME_PRINTF(4, 5);
void sl_sysfs_names_fini(struct sl_sysfs_names *names);

#endif
