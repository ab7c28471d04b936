/* SPDX-License-Identifier: Apache-2.0 */
/* A client that says exactly what it is told, to the server of http_fixture.h. */
#ifndef TESTS_NANOCTRL_HTTP_CLIENT_H
#define TESTS_NANOCTRL_HTTP_CLIENT_H

#include "tests/nanoctrl/http/fixture.h"

/* Ends of a request's head. */
#define HOST  "Host: localhost\r\n"
#define CLOSE HOST "Connection: close\r\n\r\n"
#define UPGRADE                                                                     \
	"GET /ws HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: WebSocket\r\n" \
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

int http_connect(void);
/* Takes next to nothing unless it is read. */
int http_connect_narrow(void);
void http_send(int fd, const void *data, size_t len);
void http_say(int fd, const char *text);

/* Reads until this has come (NULL: until the server closes); what came is fx.said, of the length
 * that it returns. */
size_t http_read(int fd, const char *until);
/* One request on a connection of its own, and everything that comes back until the server closes.
 */
void http_exchange(const char *request);

/* What was read has this in it; the same after an exchange. */
void assert_has(const char *wanted);
void assert_exchange(const char *request, const char *wanted);

/* Makes a connection a WebSocket, or one that is; fd again. */
int http_upgrade(int fd);
int http_open_ws(void);
/* A masked frame with a short payload. */
void http_send_frame(int fd, unsigned first, const char *payload, size_t len);

#endif
