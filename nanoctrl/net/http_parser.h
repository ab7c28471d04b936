/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes in, one HTTP/1.x message out: a request, or a response. Incremental and bounded; strict
 * where two readers of the same bytes could disagree on where a message ends: a bare LF, a blank
 * before a colon, a folded line, a second Content-Length or Host, Content-Length beside
 * Transfer-Encoding, and any coding but a plain "chunked" are refused.
 */
#ifndef NANOCTRL_HTTP_PARSER_H
#define NANOCTRL_HTTP_PARSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_HEADERS_MAX 64
#define HTTP_INTERIM_MAX 16 /* 1xx answers before the response itself */

enum http_method {
	HTTP_GET,
	HTTP_HEAD, /* reaches handlers as HTTP_GET; the body is left out of the reply */
	HTTP_POST,
	HTTP_PUT,
	HTTP_PATCH,
	HTTP_DELETE,
	HTTP_OPTIONS,
	HTTP_METHODS
};

struct http_limits {
	size_t head_bytes;   /* first line and fields, at most UINT16_MAX; trailers again */
	size_t target_bytes; /* path and query */
	size_t body_bytes;
};

#define HTTP_LIMITS_INIT                                                         \
	{                                                                        \
		.head_bytes = 16384, .target_bytes = 4096, .body_bytes = 2097152 \
	}

struct http_field {
	uint16_t name, value; /* begin there in head; the value has no blanks around it */
};

/* A whole message. Its strings lie in head, NUL-terminated, and live as long as it does. */
struct http_message {
	unsigned minor;	 /* HTTP/1.minor */
	unsigned status; /* of a response */
	/* of a request */
	enum http_method method;
	char *path;  /* begins with '/', or is "*"; still percent-encoded */
	char *query; /* what follows '?', NULL when there is none */

	size_t n_fields;
	struct http_field fields[HTTP_HEADERS_MAX];
	bool keep_alive; /* another message may follow on this connection */
	bool upgrade;	 /* Connection: upgrade */
	char *body;	 /* body_len bytes and a NUL; NULL when empty */
	size_t body_len;
	char *head;
};

const char *http_method_name(enum http_method method);

void http_message_fini(struct http_message *m);

/* The value of the field of this name; NULL when there is none, or several, since it is unclear
 * which one is meant. */
const char *http_message_field(const struct http_message *m, const char *name);

/* Whether there is one, or several. */
bool http_message_has(const struct http_message *m, const char *name);

/* Whether a comma-separated list of tokens, in any of the fields of this name, has one. */
bool http_message_lists(const struct http_message *m, const char *name, const char *token);

/* Why a message is refused. The connection is of no more use: where the next message begins is
 * unknown. */
struct http_refusal {
	int status; /* that a server answers; 503 is want of memory, 413, 414 and 431 are sizes */
	const char *code;
	const char *field; /* the header field, or part of the message, at fault; may be NULL */
	const char *text;
};

enum http_parse {
	HTTP_MORE,    /* the message is not complete */
	HTTP_DONE,    /* it is: http_parser_take() */
	HTTP_REFUSED, /* see refusal; nothing more is read */
};

struct http_parser {
	struct http_limits limits;
	struct http_message msg;
	const struct http_refusal *refusal;
	unsigned phase;
	unsigned n_interim;
	bool response; /* reads responses, not requests */
	bool expect_continue;
	size_t head_len, head_room; /* bytes in msg.head */
	size_t body_room;
	uint64_t left;	 /* bytes of the body, or of the chunk, to come */
	size_t line_len; /* bytes of the chunk line so far */
	size_t trailer_len;
	bool cr; /* the last byte of the head or line was CR */
};

/* For requests, or for responses to any request but HEAD. */
void http_parser_init(struct http_parser *p, const struct http_limits *limits);
void http_parser_init_response(struct http_parser *p, const struct http_limits *limits);
void http_parser_fini(struct http_parser *p);

/* Feed len bytes; *used of them belong to this message. Less than len are used only when it is done
 * or refused. */
enum http_parse http_parser_feed(struct http_parser *p, const void *data, size_t len, size_t *used);

/* Whether something of a message has come and not all of it; an empty line before one is nothing.
 */
bool http_parser_busy(const struct http_parser *p);

/* True once per request, when its head asks for "100 Continue" before its body. */
bool http_parser_wants_continue(struct http_parser *p);

/* The connection has ended: HTTP_DONE when that ends the response, else what the state is. */
enum http_parse http_parser_end(struct http_parser *p);

/* After HTTP_DONE: move the message to out and be ready for the next of its kind. */
void http_parser_take(struct http_parser *p, struct http_message *out);

#endif
