/* SPDX-License-Identifier: Apache-2.0 */
/* A server with handlers that tests command. */
#ifndef TESTS_NANOCTRL_HTTP_FIXTURE_H
#define TESTS_NANOCTRL_HTTP_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "http/server.h"

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
	char said[1 << 21];	       /* what the client read last, NUL-terminated */
};

/* The one fixture of the process; handlers reach it. config may be changed between setup and
 * start. */
extern struct http_fixture fx;

int http_fixture_setup(void **state);
void http_fixture_start(void);
void http_fixture_drain(void);
int http_fixture_teardown(void **state);

/* Waits until the counter has reached n. */
void http_await(_Atomic int *counter, int n);

#endif
