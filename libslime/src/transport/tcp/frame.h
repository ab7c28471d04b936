/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frames of a tcp stream: docs/wire.md. A header of fixed length, then, as the kind says, a
 * list of pieces or a message, then payload. Readers take hostile bytes: what they accept is within
 * the bounds below, and everything else is -EPROTO.
 */
#ifndef SL_TCP_FRAME_H
#define SL_TCP_FRAME_H

#include <stdint.h>

#include "src/transport/transport.h"

#define TCP_FRAME_VERSION 2

#define TCP_HEAD_LEN   24
#define TCP_PIECE_LEN  24
#define TCP_MSG_LEN    56
#define TCP_SECRET_LEN 16
/* Zeros between the header of DATA and its bytes, which so begin a cache line behind its start: see
 * docs/decisions/0009-a-pad-before-data.md. */
#define TCP_PAD_LEN 40

#define TCP_STREAMS_MAX 16
#define TCP_PIECES_MAX	32		    /* of a request */
#define TCP_REQUEST_MAX (UINT32_C(1) << 20) /* bytes that one request moves */
#define TCP_REQUESTS	16		    /* of one side that a stream carries unanswered */

enum tcp_kind {
	TCP_OPEN = 1,  /* id: index of the stream, arg: how many the link has; the first frame */
	TCP_READY,     /* its sender has all streams */
	TCP_MSG,       /* a message and the payload of its slot */
	TCP_READ,      /* id, pieces: wants their bytes */
	TCP_DATA,      /* id: they follow, behind a pad */
	TCP_WRITE,     /* id, pieces, payload */
	TCP_WRITE_IMM, /* as WRITE; arg: the immediate, due when the bytes are in their places */
	TCP_REPLY,  /* id, arg: enum tcp_code: the end of a WRITE, or of a READ that got no DATA */
	TCP_CREDIT, /* arg: immediates taken, ever */
	TCP_WITHDRAW, /* arg: generation of a region that is no more */
	TCP_BYE,      /* the link is closed in order; the last frame */
	TCP_SECRET,   /* id, arg: a region of the receiver, its generation; its secret follows */
	TCP_KINDS,
};

/* How a request ended. */
enum tcp_code {
	TCP_OK,
	TCP_STALE,
	TCP_RANGE,
	TCP_ACCESS,
	TCP_CODES,
};

struct tcp_head {
	uint8_t kind;	/* enum tcp_kind */
	uint16_t count; /* pieces */
	uint32_t id;
	uint64_t len; /* READ: bytes wanted; else bytes of payload */
	uint64_t arg;
};

struct tcp_piece {
	uint32_t region;
	uint32_t len;
	uint64_t generation;
	uint64_t offset;
};

void tcp_head_write(const struct tcp_head *h, uint8_t out[TCP_HEAD_LEN]);
void tcp_piece_write(const struct tcp_piece *p, uint8_t out[TCP_PIECE_LEN]);
void tcp_msg_write(const struct sl_msg *m, uint8_t out[TCP_MSG_LEN]);

/* Bytes of list, message, pad or secret between header and payload. */
static inline uint32_t tcp_head_list_len(const struct tcp_head *h)
{
	if (h->kind == TCP_DATA)
		return TCP_PAD_LEN;
	if (h->kind == TCP_SECRET)
		return TCP_SECRET_LEN;
	return h->kind == TCP_MSG ? TCP_MSG_LEN : (uint32_t)h->count * TCP_PIECE_LEN;
}

/* All: 0 or -EPROTO. */
int tcp_head_read(struct tcp_head *h, const uint8_t in[TCP_HEAD_LEN]);
/* The pieces of h, count of them, at least one byte each, h->len in sum. */
int tcp_pieces_read(struct tcp_piece *pieces, const struct tcp_head *h, const uint8_t *in);
/* Its payload has the length that h says, and a slot that holds it. */
int tcp_msg_read(struct sl_msg *m, const struct tcp_head *h, const uint8_t in[TCP_MSG_LEN]);

/* The result of a region's check, as a code, and a code as the status of an op. */
enum tcp_code tcp_code_of(int err);
int tcp_code_status(uint64_t code);

#endif
