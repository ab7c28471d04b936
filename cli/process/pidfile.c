/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/process/pidfile.h"

/*
 * PID "\n" "slime-pid/2:" START ":" BOOT-ID "\n" NOTE "\n" "\n"...: one write of one block, so that
 * a reader sees the old or the new text. A reader that takes the first line, or the first word, for
 * the pid is right, and no other word is a number: `kill $(cat FILE)` signals no other process.
 */
#define MAGIC	  "slime-pid/2:"
#define BLOCK_LEN 2048

static int write_block(int fd, const char *note)
{
	char block[BLOCK_LEN];
	struct cli_process self;
	int ret = cli_process_of(getpid(), &self);
	ssize_t n;

	if (ret)
		return ret;
	n = snprintf(block, sizeof(block), "%d\n" MAGIC "%" PRIu64 ":%s\n%s\n", (int)self.pid,
		     self.start, self.boot_id, note);
	memset(block + n, '\n', sizeof(block) - (size_t)n);
	n = pwrite(fd, block, sizeof(block), 0);
	if (n < 0)
		return -errno;
	return n == (ssize_t)sizeof(block) ? 0 : -EIO;
}

/* Whether the file that fd has open is still the one at path: its owner may have removed it
 * meanwhile. */
static bool still_there(int fd, const char *path)
{
	struct stat opened, named;

	return !fstat(fd, &opened) && !stat(path, &named) && opened.st_dev == named.st_dev &&
	       opened.st_ino == named.st_ino;
}

static int open_locked(const char *path)
{
	for (;;) {
		struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
		int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
		int ret;

		if (fd < 0)
			return -errno;
		if (fcntl(fd, F_OFD_SETLK, &lock)) {
			ret = errno == EAGAIN || errno == EACCES ? -EEXIST : -errno;
			close(fd);
			return ret;
		}
		if (still_there(fd, path))
			return fd;
		close(fd);
	}
}

int cli_pidfile_create(struct cli_pidfile *p, const char *path)
{
	char *copy = strdup(path);
	int fd, ret;

	if (!copy)
		return -ENOMEM;
	fd = open_locked(path);
	if (fd < 0) {
		free(copy);
		return fd;
	}
	ret = write_block(fd, "");
	if (ret) {
		unlink(path);
		close(fd);
		free(copy);
		return ret;
	}
	p->fd = fd;
	p->path = copy;
	return 0;
}

int cli_pidfile_set_note(struct cli_pidfile *p, const char *note)
{
	if (strlen(note) >= CLI_PIDFILE_NOTE_MAX)
		return -EMSGSIZE;
	if (strchr(note, '\n'))
		return -EINVAL;
	return write_block(p->fd, note);
}

void cli_pidfile_destroy(struct cli_pidfile *p)
{
	/* Removed while it is locked: never the file of the next owner. */
	if (still_there(p->fd, p->path))
		unlink(p->path);
	close(p->fd);
	free(p->path);
	*p = (struct cli_pidfile){ .fd = -1 };
}

static int parse_block(const char *block, struct cli_pidfile_info *out)
{
	struct cli_pidfile_info info = { 0 };
	const char *identity = strchr(block, '\n'), *note, *end;
	int pid;

	if (!*block)
		return -EAGAIN;
	if (!identity || strncmp(identity + 1, MAGIC, strlen(MAGIC)))
		return -EPROTO;
	identity += 1 + strlen(MAGIC);
	if (sscanf(block, "%d", &pid) != 1 ||
	    sscanf(identity, "%" SCNu64 ":%36s", &info.process.start, info.process.boot_id) != 2)
		return -EPROTO;
	info.process.pid = pid;
	note = strchr(identity, '\n');
	end = note ? strchr(note + 1, '\n') : NULL;
	if (!end || end - note > CLI_PIDFILE_NOTE_MAX)
		return -EPROTO;
	memcpy(info.note, note + 1, (size_t)(end - note - 1));
	*out = info;
	return 0;
}

int cli_pidfile_read(const char *path, struct cli_pidfile_info *out)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char block[BLOCK_LEN + 1] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n;
	int ret;

	if (fd < 0)
		return errno == ENOENT ? CLI_PIDFILE_FREE : -errno;
	/* Asked, not tried: a reader that took the lock could turn an owner away. */
	if (fcntl(fd, F_OFD_GETLK, &lock))
		ret = -errno;
	else
		ret = lock.l_type == F_UNLCK ? CLI_PIDFILE_FREE : 0;
	if (!ret) {
		n = pread(fd, block, BLOCK_LEN, 0);
		ret = n < 0 ? -errno : parse_block(block, out);
	}
	close(fd);
	return ret;
}
