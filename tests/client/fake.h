/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server in the process of the test, on the test's event base: it hands every request to the test
 * and sends what the test says, byte for byte.
 */
#ifndef TESTS_CLIENT_FAKE_H
#define TESTS_CLIENT_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <event2/event.h>

struct fake_conn;
struct sockaddr;

/* A request line with headers, and the body behind the empty line; or the text of a WebSocket
 * message. */
typedef void fake_fn(void *arg, struct fake_conn *conn, const char *text);

struct fake {
	struct event_base *base;
	struct evconnlistener *listener;
	struct fake_conn *conns;
	fake_fn *request;
	fake_fn *message;
	void *arg;
	int n_connections; /* so far */
	int n_open;
	char url[64];
};

void fake_start(struct fake *f, struct event_base *base, fake_fn *request, fake_fn *message,
		void *arg);
/* At an address and port of IPv4. */
void fake_start_at(struct fake *f, struct event_base *base, const struct sockaddr *at, int at_len,
		   fake_fn *request, fake_fn *message, void *arg);
void fake_stop(struct fake *f);

/* Raw bytes. */
void fake_send(struct fake_conn *conn, const char *text, size_t len);
/* A whole response with Content-Length; headers end with "\r\n" each. */
void fake_reply(struct fake_conn *conn, int status, const char *headers, const char *body);
/* Answer 101 to this request; messages follow. */
void fake_upgrade(struct fake_conn *conn, const char *request);
void fake_text(struct fake_conn *conn, const char *json);
void fake_frame(struct fake_conn *conn, unsigned opcode, const void *payload, size_t len);
/* What was sent goes out first. */
void fake_close(struct fake_conn *conn);
/* A reset. */
void fake_abort(struct fake_conn *conn);

#endif
