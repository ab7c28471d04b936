/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other end of a link in a process of its own, which can be stopped and killed. It is this
 * program started anew, does what it is asked over a socket, and dies with us.
 */
#ifndef CONFORMANCE_PEER_H
#define CONFORMANCE_PEER_H

#include <stdint.h>
#include <sys/types.h>

#include "fixture.h"

struct peer {
	pid_t pid; /* 0 when it is gone */
	int fd;
	struct slime_remote_mr remote; /* its memory */
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	int desc_len;
};

/* Each waits for the answer; the result is that of the call in the peer. */
enum peer_verb {
	PEER_OPEN,    /* length of its memory: context, endpoint, memory; fills peer */
	PEER_CONNECT, /* with our descriptor: the op's status */
	PEER_FILL,    /* offset, length, seed */
	PEER_MATCHES, /* offset, length, seed: 0 or -EILSEQ */
	PEER_LEARN,   /* our region's descriptor */
	PEER_READ,    /* its offset, ours, length: from our region into its memory */
	PEER_WRITE,   /* the same the other way */
	PEER_WRITE_IMM,
	PEER_SEND,	    /* offset, length, tag */
	PEER_RECV,	    /* offset, length, tag */
	PEER_START_READING, /* answers, then reads our region again and again until it fails */
	PEER_WITHDRAW,	    /* destroys its region */
	PEER_FORK,  /* a child that sleeps and holds what it inherited; its pid is the result */
	PEER_CALL,  /* length: starts a call of our method "keep" and waits for nothing */
	PEER_CLOSE, /* endpoint closed and destroyed */
};

/* Started, its memory of len bytes ready. */
void peer_start(struct peer *peer, size_t len);
/* Link e with it; what e offers is known to the peer as our region. */
void peer_link(struct peer *peer, struct end *e);
int64_t peer_ask(struct peer *peer, enum peer_verb verb, uint64_t a, uint64_t b, uint64_t c);
/* Only ask, and take the answer later. */
void peer_tell(struct peer *peer, enum peer_verb verb, uint64_t a, uint64_t b, uint64_t c);
int64_t peer_answer(struct peer *peer);

/* SIGSTOP, and it stands still; SIGCONT. */
void peer_stop(struct peer *peer);
void peer_continue(struct peer *peer);
/* SIGKILL, reaped. Harmless when it is gone. */
void peer_kill(struct peer *peer);

/* An end of ours and a peer, linked; the memory of either is attr->len long. */
struct world {
	struct end e;
	struct peer peer;
};
struct world *world_open(const struct pair_attr *attr);
void world_close(struct world *w);

/* What the program does as a peer. */
int peer_main(int fd);

#endif
