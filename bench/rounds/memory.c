/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/rounds/memory.h"

uint8_t *memory_map(int fd, uint64_t len)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, flags | MAP_POPULATE, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

void memory_unmap(uint8_t *bytes, uint64_t len)
{
	if (bytes)
		munmap(bytes, len);
}

int memory_file(uint64_t len)
{
	int fd = memfd_create("rounds", MFD_CLOEXEC);
	int ret = fd < 0 || ftruncate(fd, (off_t)len) ? -errno : 0;

	if (!ret)
		return fd;
	if (fd >= 0)
		close(fd);
	return ret;
}
