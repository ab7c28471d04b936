/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WebSocket framing (RFC 6455, version 13, no extensions), for either end: bytes in, messages and
 * control frames out. Bounded, and strict: a reserved bit or opcode, a fragmented or long control
 * frame ends the connection, and so does a frame of a client that is not masked, or one of a server
 * that is.
 */
#ifndef NANOCTRL_WS_FRAME_H
#define NANOCTRL_WS_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct evbuffer;

#define WS_CONTROL_MAX 125
#define WS_HEADER_MAX  14

enum ws_opcode {
	WS_CONTINUATION = 0,
	WS_TEXT = 1,
	WS_BINARY = 2,
	WS_CLOSE = 8,
	WS_PING = 9,
	WS_PONG = 10,
};

enum ws_close {
	WS_CLOSE_NORMAL = 1000,
	WS_CLOSE_AWAY = 1001,
	WS_CLOSE_PROTOCOL = 1002,
	WS_CLOSE_TYPE = 1003,
	WS_CLOSE_UTF8 = 1007,
	WS_CLOSE_POLICY = 1008,
	WS_CLOSE_SIZE = 1009,
	WS_CLOSE_ERROR = 1011,
};

enum ws_event {
	WS_MORE,    /* nothing complete yet */
	WS_MESSAGE, /* text or binary, put together from its fragments */
	WS_CONTROL, /* close, ping or pong */
	WS_BAD,	    /* close with close_code; nothing more is read */
};

enum ws_sender { WS_CLIENT, WS_SERVER };

struct ws_parser {
	enum ws_sender from; /* the sender of these frames */
	size_t message_max;

	/* the event, until the next ws_parser_feed() */
	enum ws_opcode opcode;
	char *payload; /* len bytes and a NUL; never NULL when there is an event */
	size_t len;
	unsigned close_code; /* WS_BAD: why; a close frame: the client's, 1005 when it gave none */

	/* private */
	unsigned char head[WS_HEADER_MAX];
	size_t head_len;
	uint64_t left; /* payload bytes of this frame to come */
	size_t frame_at;
	enum ws_opcode
		message_opcode; /* of the message being put together; WS_CONTINUATION: none is */
	char *message;
	size_t message_len, message_room;
	char control[WS_CONTROL_MAX + 1];
	bool in_payload;
	bool message_done; /* its buffer is free to be used again */
	bool bad;
};

void ws_parser_init(struct ws_parser *p, enum ws_sender from, size_t message_max);
void ws_parser_fini(struct ws_parser *p);

/* Feed len bytes; *used of them were taken. With WS_MORE all were. */
enum ws_event ws_parser_feed(struct ws_parser *p, const void *data, size_t len, size_t *used);

/* The header of a server's whole frame with len bytes of payload; returns its length. */
size_t ws_frame_header(enum ws_opcode opcode, size_t len, unsigned char out[WS_HEADER_MAX]);

/* Whether an endpoint may put this code into a close frame. */
bool ws_close_code_valid(unsigned code);

/* A client's whole frame, with a random mask. -ENOMEM, or -errno of getrandom. */
int ws_write_masked(struct evbuffer *out, enum ws_opcode opcode, const void *payload, size_t len);

#define WS_KEY_MAX    25
#define WS_ACCEPT_MAX 29

/* A random Sec-WebSocket-Key. -errno of getrandom. */
int ws_make_key(char out[WS_KEY_MAX]);

/* Sec-WebSocket-Accept for a Sec-WebSocket-Key; false when the key is not 16 bytes in base64. */
bool ws_accept(const char *key, char out[WS_ACCEPT_MAX]);

#endif
