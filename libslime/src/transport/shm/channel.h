/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unix socket beside the shared segment: for messages with descriptors, and for those that
 * arrive although the peer's memory is silent. Packets of a fixed form; docs/wire.md has the bytes.
 */
#ifndef SL_SHM_CHANNEL_H
#define SL_SHM_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

enum shm_packet_kind {
	SHM_BELL,	 /* one byte: a thread that sleeps there must poll the ring */
	SHM_SEGMENT = 1, /* initiator: the segment, its page and board; a: nonce, b: where its
			  * page's mark is in its process; id: this link's bit of the board */
	SHM_ACCEPT,	 /* acceptor: its page and board; a, b, id */
	SHM_READY,	 /* initiator: go */
	SHM_MAP,	 /* give me your region id of generation a; b, c: its secret */
	SHM_MAPPED,	 /* here it is, or why not: status; b: offset in the file, c: its length */
	SHM_WITHDRAW,	 /* forget my region id of generation a */
	SHM_WITHDRAWN,	 /* it is unmapped */
	SHM_BYE,	 /* closed: nothing of yours is mapped here any more */
	SHM_BYE_DONE,	 /* nor of yours here */
	SHM_ENDED,	 /* not in order; nothing of yours is mapped here any more */
	SHM_PACKET_KINDS,
};

#define SHM_PACKET_VERSION 4
#define SHM_PACKET_FDS	   3

struct shm_packet {
	uint8_t kind;
	uint8_t flags;
	int32_t status;
	uint32_t id;
	uint32_t access;
	uint64_t a;
	uint64_t b;
	uint64_t c;
	uint64_t len;
	int n_fds;
	int fds[SHM_PACKET_FDS];
	bool fds_lost; /* this process may not have so many: n_fds is 0 */
};

/* flags */
#define SHM_FOREIGN_ALLOWED  1 /* of SEGMENT and ACCEPT: foreign_memory is not off */
#define SHM_FOREIGN_REQUIRED 2 /* of SEGMENT and ACCEPT */
#define SHM_FOREIGN_REACHED  4 /* of ACCEPT and READY: the sender reaches the other's memory */

/* A bell; does not wait, in whatever state the peer is. -EAGAIN: no room, so that the peer has
 * something to wake up for. */
int shm_channel_ring(int sock);

/* -EAGAIN: no room; the peer does not read. Descriptors stay the caller's. */
int shm_channel_send(int sock, const struct shm_packet *p);

/*
 * The next packet: its descriptors are the caller's. -EAGAIN none now, -ECONNRESET hung up, -EPROTO
 * malformed, -EPROTONOSUPPORT of another version (no descriptor is left open then).
 */
int shm_channel_recv(int sock, struct shm_packet *out);

/* Close what came with it and was not taken (set to -1). */
void shm_packet_close_fds(struct shm_packet *p);

/* The process at the other end, and a pidfd of it. -ENOTSUP another PID namespace. */
int shm_channel_peer(int sock, struct ucred *who, int *pidfd);

/* When process pid was started, in the kernel's ticks: tells it from a later one of the same
 * number. */
int shm_start_time(pid_t pid, uint64_t *out);

#endif
