/* SPDX-License-Identifier: Apache-2.0 */
/* What a peer passes for memory: a file of so many bytes, with these seals. */
#ifndef TESTS_SUPPORT_SEALED_FILE_H
#define TESTS_SUPPORT_SEALED_FILE_H

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Ends the test when there is none. */
static inline int sealed_file(size_t len, int seals)
{
	int fd = memfd_create("a test's", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)len) || fcntl(fd, F_ADD_SEALS, seals))
		abort();
	return fd;
}

#endif
