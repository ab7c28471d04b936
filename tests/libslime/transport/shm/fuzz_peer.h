/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For fuzz targets: an endpoint of ours whose shm connection has a socket to us, as if the greeting
 * were through. Our end runs when fuzz_peer_turn() is called, and at no other time.
 */
#ifndef FUZZ_SHM_PEER_H
#define FUZZ_SHM_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/transport/shm/shm.h"
#include <slime/slime.h>

#define FUZZ_PEER_LEN 81920 /* of our region, which the peer may read and write */

/* Where the peer's process has memory that it did not get from the library. */
#define FUZZ_PEER_MEMORY     UINT64_C(0x10000)
#define FUZZ_PEER_MEMORY_LEN 65536
/* Behind it, where its page's mark is. */
#define FUZZ_PEER_MARK (FUZZ_PEER_MEMORY + 2 * FUZZ_PEER_MEMORY_LEN)

/* Descriptors that a peer may offer, right and wrong. */
enum fuzz_fd {
	FUZZ_FD_SEGMENT,
	FUZZ_FD_EVENT, /* no memory */
	FUZZ_FD_PAGE,
	FUZZ_FD_REGION, /* a memfd of 8192 bytes, sealed */
	FUZZ_FD_UNSEALED,
	FUZZ_FD_PIPE,
	FUZZ_FD_SHORT, /* sealed, 16 bytes */
	FUZZ_FD_BOARD,
	FUZZ_FDS,
};

struct fuzz_peer {
	struct slime_context *ctx;
	struct slime_rpc_service *service; /* inline: "echo", "echo_in_place", and "hold" */
	struct slime_mem *mem;
	struct slime_mr *mr;
	uint8_t *bytes;
	uint64_t generation; /* of mr */
	uint64_t secret[2];
	struct slime_endpoint *ep;
	struct slime_op *op;   /* of the connect */
	struct shm_conn *conn; /* NULL once it ended */
	struct sl_conn *base;
	int listener;
	int sock;		     /* the peer's end */
	struct shm_segment *segment; /* that the peer made, zeros */
	int fds[FUZZ_FDS];
	uint64_t start_time;
	bool foreign;
};

/* The bytes there. */
uint8_t *fuzz_peer_mark(void);

/* Also where assert() is compiled out. */
void fuzz_must(bool holds);

/* A fresh endpoint with its connection; the peer is the initiator, or the acceptor. foreign: our
 * end allows foreign memory, and fuzz_peer_link() says that the peer does, too. */
struct fuzz_peer *fuzz_peer_begin(bool initiator, bool foreign);
/* Our end does what there is to do. */
void fuzz_peer_turn(struct fuzz_peer *p);
/*
 * A packet from the input: a byte that says which of its words are made right (1: the nonce or
 * generation, 2: the start time) and which are left wrong (4: the count of descriptors, 8: the
 * version), how many descriptors come with it (bits 4 and 5), and whether it is a bell, of its
 * first byte alone (bit 6); a byte for each descriptor, and the packet. Returns how many bytes that
 * took, 0 when there are too few.
 */
size_t fuzz_peer_say(struct fuzz_peer *p, const uint8_t *data, size_t size);
/* The honest handshake of an initiator, until the link is up. */
void fuzz_peer_link(struct fuzz_peer *p);
/* The oldest request that "hold" has is answered; false: there is none. */
bool fuzz_peer_answer(void);
/* Close it; our region is as it was but for what the peer may have written. */
void fuzz_peer_end(struct fuzz_peer *p);

#endif
