/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/transport/auth.h"
#include "src/transport/shm/segment.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define SEALS_NEEDED (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* A child after fork() must not have it: it would keep the memory and could write into it. */
static int map(int fd, size_t len, int prot, void **out)
{
	void *addr = mmap(NULL, len, prot, MAP_SHARED, fd, 0);

	/* EAGAIN: it would be locked, and is more than may be. */
	if (addr == MAP_FAILED)
		return errno == EAGAIN ? -ENOMEM : -errno;
	if (madvise(addr, len, MADV_DONTFORK)) {
		int ret = -errno;

		munmap(addr, len);
		return ret;
	}
	*out = addr;
	return 0;
}

static int create(const char *name, size_t len, int seals, void **out, int *out_fd)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int ret;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)len)) {
		ret = -errno;
		goto close_fd;
	}
	ret = map(fd, len, PROT_READ | PROT_WRITE, out);
	if (ret)
		goto close_fd;
	if (fcntl(fd, F_ADD_SEALS, seals)) {
		ret = -errno;
		munmap(*out, len);
		goto close_fd;
	}
	*out_fd = fd;
	return 0;

close_fd:
	close(fd);
	return ret;
}

int shm_map_sealed(int fd, uint64_t len, int prot, void **out)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & SEALS_NEEDED) != SEALS_NEEDED)
		return -EPROTO;
	if (fstat(fd, &st))
		return -errno;
	if (!len || st.st_size < 0 || (uint64_t)st.st_size != len)
		return -EPROTO;
	return map(fd, len, prot, out);
}

int shm_segment_create(struct shm_segment **out, int *fd)
{
	void *addr = NULL;
	int ret = create("slime-link", sizeof(**out), SEALS_NEEDED, &addr, fd);

	if (!ret)
		*out = addr;
	return ret;
}

int shm_segment_map(int fd, struct shm_segment **out)
{
	void *addr = NULL;
	int ret = shm_map_sealed(fd, sizeof(**out), PROT_READ | PROT_WRITE, &addr);

	if (!ret)
		*out = addr;
	return ret;
}

void shm_segment_unmap(struct shm_segment *s)
{
	if (s)
		munmap(s, sizeof(*s));
}

int shm_page_create(struct shm_page **out, int *fd)
{
	void *addr = NULL;
	int ret =
		create("slime-page", sizeof(**out), SEALS_NEEDED | F_SEAL_FUTURE_WRITE, &addr, fd);

	if (ret)
		return ret;
	*out = addr;
	ret = sl_auth_random((*out)->mark, SHM_MARK_LEN);
	if (ret) {
		shm_page_unmap(*out);
		close(*fd);
	}
	return ret;
}

int shm_page_map(int fd, const struct shm_page **out)
{
	void *addr = NULL;
	int ret = shm_map_sealed(fd, sizeof(**out), PROT_READ, &addr);

	if (!ret)
		*out = addr;
	return ret;
}

void shm_page_unmap(const struct shm_page *page)
{
	if (page)
		munmap((void *)(uintptr_t)page, sizeof(*page));
}

int shm_board_create(struct shm_board **out, int *fd)
{
	void *addr = NULL;
	int ret = create("slime-board", sizeof(**out), SEALS_NEEDED, &addr, fd);

	if (ret)
		return ret;
	*out = addr;
	/* Its memory is ours, not that of the first peer that writes. */
	atomic_store(&(*out)->marked, 0);
	return 0;
}

int shm_board_map(int fd, struct shm_board **out)
{
	void *addr = NULL;
	int ret = shm_map_sealed(fd, sizeof(**out), PROT_READ | PROT_WRITE, &addr);

	if (!ret)
		*out = addr;
	return ret;
}

void shm_board_unmap(struct shm_board *board)
{
	if (board)
		munmap(board, sizeof(*board));
}
