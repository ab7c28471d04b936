/* SPDX-License-Identifier: Apache-2.0 */
/* A packet of the unix socket of a shm connection: what is understood is said again, byte by byte.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/transport/shm/channel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Also where assert() is compiled out. */
static void must(bool holds)
{
	if (!holds)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t again[64];
	struct shm_packet p;
	int sock[2];

	if (size > sizeof(again))
		return 0;
	must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock) == 0);
	must(send(sock[1], data, size, MSG_NOSIGNAL) == (ssize_t)size);
	if (shm_channel_recv(sock[0], &p) == 0) {
		must(p.kind < SHM_PACKET_KINDS && p.n_fds == 0);
		must((p.kind != SHM_BELL ? shm_channel_send(sock[0], &p)
					 : shm_channel_ring(sock[0])) == 0);
		must(recv(sock[1], again, sizeof(again), 0) == (ssize_t)size);
		must(memcmp(again, data, size) == 0);
	}
	close(sock[0]);
	close(sock[1]);
	return 0;
}
