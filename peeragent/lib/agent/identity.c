/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/lib/agent/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

_Static_assert(IDENTITY_NAMES_MAX + sizeof(":.key.XXXXXX") - 1 <= NAME_MAX, "");

static int random_hex(char *to, size_t digits)
{
	uint8_t bytes[CTRL_OWNER_KEY_LEN / 2];

	if (getrandom(bytes, digits / 2, 0) != (ssize_t)(digits / 2))
		return errno ? -errno : -EIO;
	for (size_t i = 0; i < digits / 2; i++)
		snprintf(to + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

static bool is_key(const char *text)
{
	return strspn(text, "0123456789abcdef") == CTRL_OWNER_KEY_LEN &&
	       (!text[CTRL_OWNER_KEY_LEN] || !strcmp(text + CTRL_OWNER_KEY_LEN, "\n"));
}

static int read_key(const char *path, char *key)
{
	char text[CTRL_OWNER_KEY_LEN + 3] = "";
	/* A path that is no regular file is not waited for. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	int ret = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || (S_ISREG(st.st_mode) && read(fd, text, sizeof(text) - 1) < 0))
		ret = -errno;
	else if (st.st_mode & (S_IRWXG | S_IRWXO))
		ret = -EACCES;
	else if (!S_ISREG(st.st_mode) || !is_key(text))
		ret = -EPROTO;
	else
		snprintf(key, CTRL_OWNER_KEY_LEN + 1, "%.*s", CTRL_OWNER_KEY_LEN, text);
	close(fd);
	return ret;
}

static int write_all(int fd, const char *text)
{
	size_t len = strlen(text);

	if (write(fd, text, len) != (ssize_t)len || fsync(fd))
		return errno ? -errno : -EIO;
	return 0;
}

/* Whole or not at all, and never over another's: of two processes that make it, one wins. */
static int make_key(const char *path, char *key)
{
	char temporary[PATH_MAX];
	char line[CTRL_OWNER_KEY_LEN + 2];
	int fd, ret;

	if (snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path) >= (int)sizeof(temporary))
		return -ENAMETOOLONG;
	ret = random_hex(key, CTRL_OWNER_KEY_LEN);
	if (ret)
		return ret;
	fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	snprintf(line, sizeof(line), "%s\n", key);
	ret = write_all(fd, line);
	close(fd);
	if (!ret && link(temporary, path))
		ret = errno == EEXIST ? read_key(path, key) : -errno;
	unlink(temporary);
	return ret;
}

static const char *trouble(int ret)
{
	return ret == -EPROTO ? "not a key of 64 hexadecimal digits" : strerror(-ret);
}

static int load_key(const char *state_dir, const char *scope, const char *name, char *key)
{
	char path[PATH_MAX];
	int ret;

	if (snprintf(path, sizeof(path), "%s/%s:%s.key", state_dir, scope, name) >=
	    (int)sizeof(path))
		ret = -ENAMETOOLONG;
	else
		ret = mkdir(state_dir, 0700) && errno != EEXIST ? -errno : 0;
	if (ret) {
		sl_error("agent", "state directory %s: %s", state_dir, trouble(ret));
		return ret;
	}
	ret = read_key(path, key);
	if (ret == -ENOENT) {
		ret = make_key(path, key);
		if (ret)
			sl_error("agent", "owner key %s cannot be made: %s", path, trouble(ret));
	} else if (ret == -EACCES) {
		sl_error("agent", "owner key %s: not readable, or readable by others (chmod 600)",
			 path);
	} else if (ret) {
		sl_error("agent", "owner key %s: %s", path, trouble(ret));
	}
	return ret;
}

int identity_load(struct identity *id, const char *state_dir, const char *scope, const char *name)
{
	int ret = random_hex(id->incarnation, 32);

	if (ret) {
		sl_error("agent", "getrandom: %s", strerror(-ret));
		return ret;
	}
	if (!state_dir)
		return random_hex(id->owner_key, CTRL_OWNER_KEY_LEN);
	return load_key(state_dir, scope, name, id->owner_key);
}
