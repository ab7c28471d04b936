/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "cli/options/standard.h"

static bool is_null(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3) &&
	       (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR;
}

/* In a process of its own, with these closed: only they change, and the next file is another. */
static bool opens(unsigned closed)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		struct stat before[3], after;
		bool ok;

		for (int fd = 0; fd < 3; fd++) {
			fstat(fd, &before[fd]);
			if (closed & 1U << fd)
				close(fd);
		}
		ok = !cli_standard_open();
		for (int fd = 0; fd < 3; fd++)
			ok = ok && (closed & 1U << fd ? is_null(fd)
						      : !fstat(fd, &after) &&
								after.st_ino == before[fd].st_ino &&
								after.st_dev == before[fd].st_dev);
		_exit(ok && open("/dev/zero", O_RDONLY) > 2 ? 0 : 1);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static void standard_open__fills_what_is_closed_and_nothing_else(void **state)
{
	(void)state;
	for (unsigned closed = 0; closed < 8; closed++)
		assert_true(opens(closed));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(standard_open__fills_what_is_closed_and_nothing_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
