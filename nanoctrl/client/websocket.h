/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side of WebSocket (RFC 6455, version 13, no extensions). */
#ifndef NC_WEBSOCKET_H
#define NC_WEBSOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct evbuffer;

#define NC_WS_MESSAGE_MAX (256 * 1024)
#define NC_WS_KEY_LEN	  24
#define NC_WS_ACCEPT_LEN  28

enum nc_ws_opcode {
	NC_WS_CONTINUATION = 0,
	NC_WS_TEXT = 1,
	NC_WS_BINARY = 2,
	NC_WS_CLOSE = 8,
	NC_WS_PING = 9,
	NC_WS_PONG = 10,
};

/* A random key for the upgrade. -errno of getrandom. */
int nc_ws_make_key(char key[NC_WS_KEY_LEN + 1]);

/* What the server must answer to it. */
void nc_ws_accept(const char *key, char accept[NC_WS_ACCEPT_LEN + 1]);

struct nc_ws {
	uint8_t header[10];
	size_t header_len; /* got of the frame's header */
	uint64_t left;	   /* of the frame's payload */
	bool in_frame;

	bool fragmented; /* a text message goes on */
	char *message;
	size_t message_len, message_room;
	uint8_t control[125];
	size_t control_len;
	bool closed; /* the close frame came */
};

void nc_ws_init(struct nc_ws *ws);
void nc_ws_fini(struct nc_ws *ws);

#define NC_WS_MORE    1
#define NC_WS_MESSAGE 2 /* a text in ws->message, with a NUL behind it */
#define NC_WS_PINGED  3 /* answer with what is in ws->control */
#define NC_WS_CLOSED  4 /* ws->control begins with the code, when there is one */

/* Takes bytes up to the end of a message; -EPROTO, -EMSGSIZE, -ENOMEM end the connection. */
int nc_ws_feed(struct nc_ws *ws, const uint8_t *bytes, size_t len, size_t *used);

/* One masked frame. -ENOMEM, or -errno of getrandom. */
int nc_ws_write(struct evbuffer *out, enum nc_ws_opcode opcode, const void *payload, size_t len);

#endif
