/* SPDX-License-Identifier: Apache-2.0 */
#include "src/core/sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A line of ours in a terminal or for a parser must not have unexpected bytes of a driver. */
static bool is_plain(char c)
{
	return c >= ' ' && c <= '~';
}

/* ---- files ---- */

static void make_plain(char *text)
{
	for (; *text; text++)
		if (!is_plain(*text) && *text != '\n' && *text != '\t')
			*text = '?';
}

static int __attribute__((format(printf, 3, 0)))
make_path(char path[PATH_MAX], const char *root, const char *fmt, va_list args)
{
	int used = snprintf(path, PATH_MAX, "%s/", root);
	int more;

	if (used < 0 || used >= PATH_MAX)
		return -ENAMETOOLONG;
	more = vsnprintf(path + used, (size_t)(PATH_MAX - used), fmt, args);
	return more < 0 || more >= PATH_MAX - used ? -ENAMETOOLONG : 0;
}

/* The path that the last arguments of a function name. */
#define MAKE_PATH(ret, path, root, fmt)                          \
	do {                                                     \
		va_list args_;                                   \
		va_start(args_, fmt);                            \
		(ret) = make_path((path), (root), (fmt), args_); \
		va_end(args_);                                   \
	} while (0)

static int read_text(const char *path, char *text, size_t cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t n = 0;
	int ret;

	if (fd < 0)
		return -errno;
	while (len < cap - 1 && (n = read(fd, text + len, cap - 1 - len)) > 0)
		len += (size_t)n;
	ret = n < 0 ? -errno : 0;
	close(fd);
	text[len] = '\0';
	if (len && text[len - 1] == '\n')
		text[len - 1] = '\0';
	make_plain(text);
	return ret;
}

int sl_sysfs_text(char *text, size_t cap, const char *root, const char *fmt, ...)
{
	char path[PATH_MAX];
	int ret;

	text[0] = '\0';
	MAKE_PATH(ret, path, root, fmt);
	return ret ? ret : read_text(path, text, cap);
}

int sl_sysfs_number(int64_t *out, const char *root, const char *fmt, ...)
{
	char path[PATH_MAX], text[64], *end;
	long long n;
	int ret;

	MAKE_PATH(ret, path, root, fmt);
	if (!ret)
		ret = read_text(path, text, sizeof(text));
	if (ret)
		return ret;
	errno = 0;
	n = strtoll(text, &end, 10);
	if (errno || end == text)
		return -EINVAL;
	*out = n;
	return 0;
}

int sl_sysfs_real(char real[PATH_MAX], const char *root, const char *fmt, ...)
{
	char path[PATH_MAX];
	int ret;

	MAKE_PATH(ret, path, root, fmt);
	if (ret)
		return ret;
	return realpath(path, real) ? 0 : -errno;
}

/* ---- folders ---- */

static bool is_plain_name(const char *name)
{
	if (name[0] == '.')
		return false;
	while (is_plain(*name))
		name++;
	return !*name;
}

static int by_version(const void *a, const void *b)
{
	return strverscmp(*(char *const *)a, *(char *const *)b);
}

static int add_name(struct sl_sysfs_names *list, size_t max, const char *name)
{
	char **grown;

	if (list->n == max)
		return -E2BIG;
	grown = realloc(list->names, (list->n + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	list->names = grown;
	grown[list->n] = strdup(name);
	if (!grown[list->n])
		return -ENOMEM;
	list->n++;
	return 0;
}

static int add_names(struct sl_sysfs_names *list, size_t max, DIR *dir)
{
	const struct dirent *entry;
	int ret = 0;

	while (!ret) {
		errno = 0;
		entry = readdir(dir);
		if (!entry)
			return -errno;
		if (is_plain_name(entry->d_name))
			ret = add_name(list, max, entry->d_name);
	}
	return ret;
}

int sl_sysfs_names(struct sl_sysfs_names *out, size_t max, const char *root, const char *fmt, ...)
{
	char path[PATH_MAX];
	DIR *dir;
	int ret;

	*out = (struct sl_sysfs_names){ 0 };
	MAKE_PATH(ret, path, root, fmt);
	if (ret)
		return ret;
	dir = opendir(path);
	if (!dir)
		return -errno;
	ret = add_names(out, max, dir);
	closedir(dir);
	if (ret) {
		sl_sysfs_names_fini(out);
		return ret;
	}
	if (out->n)
		qsort(out->names, out->n, sizeof(*out->names), by_version);
	return 0;
}

void sl_sysfs_names_fini(struct sl_sysfs_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->names[i]);
	free(names->names);
	*names = (struct sl_sysfs_names){ 0 };
}
