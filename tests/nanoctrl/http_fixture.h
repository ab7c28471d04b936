/* SPDX-License-Identifier: Apache-2.0 */
/* A server with handlers that tests command, and a client that says exactly what it is told. */
#ifndef TESTS_NANOCTRL_HTTP_FIXTURE_H
#define TESTS_NANOCTRL_HTTP_FIXTURE_H

#include <stdatomic.h>
#include <stddef.h>

#include "server.h"

#define WAIT_MS 60000 /* for what has to happen */

/*
 * GET /hello, /p/{name}, /readyz, /metrics; POST /echo; GET /later replies from the loop's next
 * turn, GET /slow 20 ms later; GET /wait only when its end is told; GET /loop says the loop in
 * parentheses; GET /lines sends a line a tick; GET /ws echoes, and floods when told "flood".
 */
struct http_fixture {
	struct server_config config;
	struct loop *main;
	struct server *server;
	_Atomic int n_gone, n_drained; /* of /wait */
	_Atomic int n_closed;	       /* streams */
	_Atomic int n_flooded;	       /* messages until the queue was full */
	_Atomic int n_done;	       /* drains */
};

/* The one fixture of the process; handlers reach it. config may be changed between init and start.
 */
extern struct http_fixture fx;

void http_fixture_init(void);
void http_fixture_start(void);
void http_fixture_drain(void);
void http_fixture_stop(void);

/* Waits until the counter has reached n. */
void http_await(_Atomic int *counter, int n);

int http_connect(void);
/* Takes next to nothing unless it is read. */
int http_connect_narrow(void);
void http_send(int fd, const void *data, size_t len);

/* Reads until text has come (NULL: until the server closes); what came, NUL-terminated, with its
 * length in *len. */
size_t http_read(int fd, const char *until, char *out, size_t room);

/* One request on a connection of its own: everything that comes back until the server closes. */
size_t http_exchange(const char *request, char *out, size_t room);

#endif
