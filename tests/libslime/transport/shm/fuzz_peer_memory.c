/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a peer's process, in the place of process_vm_readv() and process_vm_writev(): a
 * piece of address space, of which a call moves less than it was asked for; elsewhere the kernel
 * says no in all of its ways. What is ours is touched here as by any code, so that the sanitizers
 * look at it.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/libslime/transport/shm/fuzz_peer.h"

#define PER_CALL 3000 /* bytes */

/* Where others begin. */
#define GONE	  (UINT64_C(1) << 40)
#define FORBIDDEN (UINT64_C(1) << 41)

ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long n_local,
				const struct iovec *remote, unsigned long n_remote,
				unsigned long flags);
ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long n_local,
				 const struct iovec *remote, unsigned long n_remote,
				 unsigned long flags);

static uint8_t memory[FUZZ_PEER_MEMORY_LEN];
static uint8_t mark[SHM_MARK_LEN];

uint8_t *fuzz_peer_mark(void)
{
	return mark;
}

/* len bytes of the peer's there; NULL with errno. */
static uint8_t *peer_bytes(const void *at, size_t len)
{
	uint64_t address = (uintptr_t)at;

	if (address - FUZZ_PEER_MEMORY < sizeof(memory) &&
	    len <= sizeof(memory) - (address - FUZZ_PEER_MEMORY))
		return memory + (address - FUZZ_PEER_MEMORY);
	if (address == FUZZ_PEER_MARK && len <= sizeof(mark))
		return mark;
	errno = EFAULT;
	return NULL;
}

/* Whether the kernel says no to all of a call. */
static bool is_refused(const struct iovec *remote, unsigned long n)
{
	uint64_t last = (uintptr_t)remote[n - 1].iov_base;

	errno = last >= FORBIDDEN ? EPERM : ESRCH;
	return last >= GONE;
}

/* The library's stretches are as long on both sides, one by one. */
static ssize_t move(pid_t pid, const struct iovec *local, unsigned long n_local,
		    const struct iovec *remote, unsigned long n_remote, bool read)
{
	ssize_t moved = 0;

	fuzz_must(pid == getpid() && n_local == n_remote && n_local > 0);
	if (is_refused(remote, n_remote))
		return -1;
	for (unsigned long i = 0; i < n_local && moved < PER_CALL; i++) {
		size_t len = local[i].iov_len;
		uint8_t *theirs = peer_bytes(remote[i].iov_base, len);

		fuzz_must(len > 0 && remote[i].iov_len == len);
		if (!theirs)
			return moved ? moved : -1;
		if (len > (size_t)(PER_CALL - moved))
			len = (size_t)(PER_CALL - moved);
		memcpy(read ? local[i].iov_base : theirs, read ? theirs : local[i].iov_base, len);
		moved += (ssize_t)len;
	}
	return moved;
}

ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long n_local,
				const struct iovec *remote, unsigned long n_remote,
				unsigned long flags)
{
	fuzz_must(flags == 0);
	return move(pid, local, n_local, remote, n_remote, true);
}

ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long n_local,
				 const struct iovec *remote, unsigned long n_remote,
				 unsigned long flags)
{
	fuzz_must(flags == 0);
	return move(pid, local, n_local, remote, n_remote, false);
}
