/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nanoctrl/http/client.h"

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <tests/support/tcp.h>

#include "base/clock.h"

static int dial(bool narrow)
{
	unsigned port;

	assert_int_equal(sscanf(server_url(fx.server), "http://127.0.0.1:%u", &port), 1);
	return tcp_dial(port, narrow);
}

int http_connect(void)
{
	return dial(false);
}

int http_connect_narrow(void)
{
	return dial(true);
}

void http_send(int fd, const void *data, size_t len)
{
	(void)tcp_send(fd, data, len); /* the server may have closed already */
}

void http_say(int fd, const char *text)
{
	http_send(fd, text, strlen(text));
}

size_t http_read(int fd, const char *until)
{
	uint64_t deadline = sl_deadline_ns(WAIT_MS);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char *out = fx.said;
	size_t len = 0;

	out[0] = '\0';
	while (!until || !memmem(out, len, until, strlen(until))) {
		ssize_t n;

		assert_true(len + 1 < sizeof(fx.said) && sl_clock_ns() < deadline);
		if (poll(&p, 1, 100) <= 0)
			continue;
		n = recv(fd, out + len, until ? 1 : sizeof(fx.said) - 1 - len, 0);
		if (n <= 0)
			break;
		len += (size_t)n;
		out[len] = '\0';
	}
	return len;
}

void assert_has(const char *wanted)
{
	if (!strstr(fx.said, wanted))
		fail_msg("no \"%s\" in: %s", wanted, fx.said);
}

void http_exchange(const char *request)
{
	int fd = http_connect();

	http_say(fd, request);
	http_read(fd, NULL);
	close(fd);
}

void assert_exchange(const char *request, const char *wanted)
{
	http_exchange(request);
	assert_has(wanted);
}

int http_upgrade(int fd)
{
	http_say(fd, UPGRADE);
	http_read(fd, "\r\n\r\n");
	assert_has("HTTP/1.1 101 ");
	assert_has("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n");
	return fd;
}

int http_open_ws(void)
{
	return http_upgrade(http_connect());
}

void http_send_frame(int fd, unsigned first, const char *payload, size_t len)
{
	unsigned char frame[140] = {
		(unsigned char)first, (unsigned char)(0x80 | len), 9, 8, 7, 6
	};

	for (size_t i = 0; i < len; i++)
		frame[6 + i] = (unsigned char)payload[i] ^ frame[2 + (i & 3)];
	http_send(fd, frame, 6 + len);
}
