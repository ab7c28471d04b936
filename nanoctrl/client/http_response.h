/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP/1.1 response out of a stream of bytes. Strict and bounded: a line, the headers and the
 * body have limits, and what could be read in two ways is refused.
 */
#ifndef NC_HTTP_RESPONSE_H
#define NC_HTTP_RESPONSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NC_HTTP_LINE_MAX    8192
#define NC_HTTP_HEADERS_MAX 65536
#define NC_HTTP_BODY_MAX    (32 * 1024 * 1024)

enum nc_http_state {
	NC_HTTP_STATUS,
	NC_HTTP_HEADER,
	NC_HTTP_BODY,
	NC_HTTP_BODY_TO_END, /* of the connection */
	NC_HTTP_CHUNK_SIZE,
	NC_HTTP_CHUNK,
	NC_HTTP_CHUNK_END,
	NC_HTTP_TRAILER,
	NC_HTTP_COMPLETE,
	NC_HTTP_FAILED,
};

struct nc_response {
	int status;
	bool keep_alive;    /* another request may follow on this connection */
	bool websocket;	    /* Upgrade: websocket */
	int retry_after_s;  /* -1 when there is none */
	char ws_accept[64]; /* Sec-WebSocket-Accept, or "" */
	char *body;	    /* with a NUL behind it */
	size_t body_len;

	enum nc_http_state state;
	size_t body_room, body_left, headers_len;
	bool chunked, has_length;
	size_t line_len;
	char line[NC_HTTP_LINE_MAX];
};

void nc_response_init(struct nc_response *r);
void nc_response_fini(struct nc_response *r);

#define NC_RESPONSE_MORE 1

/*
 * Takes bytes up to the end of the response; *used tells how many. 0 when it is complete,
 * NC_RESPONSE_MORE, -EPROTO, -EMSGSIZE, -ENOMEM.
 */
int nc_response_feed(struct nc_response *r, const char *bytes, size_t len, size_t *used);

/* The connection has ended: 0 when that completes the response, else -ECONNRESET. */
int nc_response_end(struct nc_response *r);

#endif
