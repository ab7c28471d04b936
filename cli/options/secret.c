/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/process/pipe.h"
#include "cli/options/secret.h"

/* Until the buffer or the file ends: a pipe gives less at a time than there is. */
static int read_all(int fd, char *out, size_t cap, size_t *len)
{
	uint64_t deadline_ns = sl_deadline_ns(CLI_PIPE_MS);

	*len = 0;
	while (*len < cap) {
		ssize_t n = read(fd, out + *len, cap - *len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			if (!cli_pipe_await(fd, deadline_ns))
				return -ETIMEDOUT;
			continue;
		}
		if (n < 0)
			return -errno;
		if (!n)
			break;
		*len += (size_t)n;
	}
	return 0;
}

static int read_line(int fd, char *out, size_t cap)
{
	size_t len, line;
	struct stat st;
	int ret;

	if (fstat(fd, &st))
		return -errno;
	if (st.st_mode & (S_IRWXG | S_IRWXO))
		return -EPERM;
	ret = read_all(fd, out, cap, &len);
	if (ret)
		return ret;
	for (line = 0; line < len && out[line] && !strchr("\r\n", out[line]);)
		line++;
	if (line == cap)
		return -E2BIG;
	out[line] = '\0';
	return line ? 0 : -ENODATA;
}

int cli_secret_read(const char *path, char *out, size_t cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	int ret;

	if (fd < 0)
		return -errno;
	ret = read_line(fd, out, cap);
	close(fd);
	if (ret)
		explicit_bzero(out, cap);
	return ret;
}

const char *cli_secret_error(int ret)
{
	switch (ret) {
	case -EPERM:
		return "expected a file that only its owner can read (chmod 600)";
	case -ENODATA:
		return "expected the secret in its first line, which is empty";
	case -E2BIG:
		return "expected a shorter first line";
	default:
		return strerror(-ret);
	}
}
