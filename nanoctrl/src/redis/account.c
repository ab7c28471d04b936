/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/account.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "daemon/runtime.h"

#define ACL_FILE  "redis.acl"
#define REPLY_MAX 512

static const char digits[] = "0123456789abcdef";

static int name_in(char out[PATH_MAX], const char *dir, const char *name)
{
	return snprintf(out, PATH_MAX, "%s/%s", dir, name) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* All of the file, if it is a password and the end of a line. */
static int take_key(int fd, char out[REDIS_ACCOUNT_KEY + 1])
{
	char text[REDIS_ACCOUNT_KEY + 2];
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EPROTO;
	if (st.st_uid != geteuid() || (st.st_mode & 077))
		return -EPERM;
	n = read(fd, text, sizeof(text));
	if (n < 0)
		return -errno;
	if (n != REDIS_ACCOUNT_KEY + 1 || text[REDIS_ACCOUNT_KEY] != '\n')
		return -EPROTO;
	text[REDIS_ACCOUNT_KEY] = '\0';
	if (strspn(text, digits) != REDIS_ACCOUNT_KEY)
		return -EPROTO;
	memcpy(out, text, REDIS_ACCOUNT_KEY + 1);
	return 0;
}

int redis_account_read(const char *dir, char out[REDIS_ACCOUNT_KEY + 1])
{
	char path[PATH_MAX];
	int fd, ret = name_in(path, dir, REDIS_ACCOUNT_FILE);

	if (ret)
		return ret;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	ret = take_key(fd, out);
	close(fd);
	return ret;
}

static int invent(char out[REDIS_ACCOUNT_KEY + 2])
{
	unsigned char bytes[REDIS_ACCOUNT_KEY / 2];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return -EIO;
	for (size_t i = 0; i < sizeof(bytes); i++) {
		out[2 * i] = digits[bytes[i] >> 4];
		out[2 * i + 1] = digits[bytes[i] & 15];
	}
	out[REDIS_ACCOUNT_KEY] = '\n';
	out[REDIS_ACCOUNT_KEY + 1] = '\0';
	return 0;
}

/* Write a file of its own first, then rename it: a reader of the name finds all of the password,
 * and of several that are made at once the first one stays. */
static int put_key(const char *dir)
{
	char path[PATH_MAX], own[PATH_MAX], name[64], text[REDIS_ACCOUNT_KEY + 2];
	int ret;

	snprintf(name, sizeof(name), REDIS_ACCOUNT_FILE ".%ld", (long)getpid());
	ret = name_in(path, dir, REDIS_ACCOUNT_FILE);
	if (!ret)
		ret = name_in(own, dir, name);
	if (!ret)
		ret = invent(text);
	if (!ret)
		ret = runtime_write(own, text, REDIS_ACCOUNT_KEY + 1);
	if (ret)
		return ret;
	if (link(own, path) && errno != EEXIST)
		ret = -errno;
	unlink(own);
	return ret;
}

int redis_account_make(const char *dir, char out[REDIS_ACCOUNT_KEY + 1])
{
	int ret = redis_account_read(dir, out);

	if (ret != -ENOENT)
		return ret;
	ret = put_key(dir);
	return ret ? ret : redis_account_read(dir, out);
}

/*
 * `default` is off, which refuses clients that give no password. It has all rights nevertheless:
 * Redis 7.0 reads its log of writes back as this user, and skips transactions that it may not do.
 */
int redis_account_write_acl(const char *dir, const char *key, char *out, size_t room)
{
	char text[256];
	int n;

	if (snprintf(out, room, "%s/%s", dir, ACL_FILE) >= (int)room)
		return -ENAMETOOLONG;
	n = snprintf(text, sizeof(text),
		     "user default off ~* &* +@all\n"
		     "user %s on >%s ~* &* +@all\n",
		     REDIS_ACCOUNT_USER, key);
	return runtime_write(out, text, (size_t)n);
}

/* ---- one that runs ---- */

static int wait_for(int fd, short events, uint64_t deadline)
{
	struct pollfd p = { .fd = fd, .events = events };
	uint64_t now = sl_clock_ns();
	int n;

	if (now >= deadline)
		return -ETIMEDOUT;
	n = poll(&p, 1, (int)((deadline - now) / SL_NS_PER_MS) + 1);
	return n > 0 ? 0 : n ? -errno : -ETIMEDOUT;
}

static int say(int fd, const char *text, size_t len, uint64_t deadline)
{
	while (len) {
		ssize_t n = send(fd, text, len, MSG_NOSIGNAL | MSG_DONTWAIT);
		int ret;

		if (n >= 0) {
			text += n;
			len -= (size_t)n;
			continue;
		}
		if (errno != EAGAIN)
			return -errno;
		ret = wait_for(fd, POLLOUT, deadline);
		if (ret)
			return ret;
	}
	return 0;
}

/* Reads until there are so many lines. */
static int hear(int fd, char text[REPLY_MAX], unsigned n_lines, uint64_t deadline)
{
	size_t len = 0;

	while (n_lines) {
		ssize_t n;
		int ret = wait_for(fd, POLLIN, deadline);

		if (ret)
			return ret;
		n = recv(fd, text + len, REPLY_MAX - 1 - len, MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			continue;
		if (n <= 0)
			return -EPROTO;
		for (ssize_t i = 0; i < n && n_lines; i++)
			n_lines -= text[len + (size_t)i] == '\n';
		len += (size_t)n;
		text[len] = '\0';
	}
	return 0;
}

static int judge(const char *text, unsigned n_lines)
{
	static const char ok[] = "+OK\r\n";

	if (strncmp(text, ok, strlen(ok)))
		return -EACCES; /* of AUTH */
	for (unsigned i = 0; i < n_lines; i++, text += strlen(ok))
		if (strncmp(text, ok, strlen(ok)))
			return -EPROTO;
	return 0;
}

int redis_account_apply(int fd, const char *key, uint64_t max_memory, bool guests, int wait_ms)
{
	uint64_t deadline = sl_deadline_ns(wait_ms);
	char text[REPLY_MAX];
	unsigned n_lines = guests ? 2 : 4;
	int n = snprintf(text, sizeof(text), "AUTH %s %s\r\nCONFIG SET maxmemory %" PRIu64 "\r\n%s",
			 REDIS_ACCOUNT_USER, key, max_memory,
			 guests ? "" : "CONFIG SET port 0\r\nACL SETUSER default reset\r\n");
	int ret = say(fd, text, (size_t)n, deadline);

	if (!ret)
		ret = hear(fd, text, n_lines, deadline);
	close(fd);
	return ret ? ret : judge(text, n_lines);
}
