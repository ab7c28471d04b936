/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nanoctrl/api/stream_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <base/clock.h>
#include "tests/nanoctrl/api/fixture.h"

static bool fill(struct api_stream *s)
{
	ssize_t n = recv(s->fd, s->in + s->len, sizeof(s->in) - s->len, 0);

	if (n <= 0)
		return false;
	s->len += (size_t)n;
	return true;
}

static void eat(struct api_stream *s, size_t n)
{
	memmove(s->in, s->in + n, s->len - n);
	s->len -= n;
}

static int open_stream(struct api_fixture *f, struct api_stream *s, const char *target,
		       const char *lease, bool websocket, bool narrow)
{
	const char *end;

	memset(s, 0, sizeof(*s));
	s->websocket = websocket;
	s->fd = api_dial(f, narrow);
	api_send_head(s->fd, "GET", target, lease,
		      websocket ? "Connection: Upgrade\r\nUpgrade: websocket\r\n"
				  "Sec-WebSocket-Version: 13\r\n"
				  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
				: "",
		      0);
	while (!(end = memmem(s->in, s->len, "\r\n\r\n", 4)))
		assert_true(fill(s));
	assert_int_equal(sscanf(s->in, "HTTP/1.1 %d", &s->status), 1);
	eat(s, (size_t)(end + 4 - s->in));
	return s->status;
}

int api_open(struct api_fixture *f, struct api_stream *s, const char *target, const char *lease,
	     bool websocket)
{
	return open_stream(f, s, target, lease, websocket, false);
}

int api_open_narrow(struct api_fixture *f, struct api_stream *s, const char *target,
		    const char *lease, bool websocket)
{
	return open_stream(f, s, target, lease, websocket, true);
}

/* One frame of the server: unmasked, of up to 64 KiB. */
static json_t *next_frame(struct api_stream *s)
{
	json_t *v;

	for (;;) {
		size_t head = 2;
		size_t len;
		unsigned op;

		while (s->len < 4)
			if (!fill(s))
				return NULL;
		op = s->in[0] & 15;
		len = s->in[1] & 127;
		if (len == 126) {
			head = 4;
			len = (size_t)(uint8_t)s->in[2] << 8 | (uint8_t)s->in[3];
		}
		while (s->len < head + len)
			if (!fill(s))
				return NULL;
		if (op == 8) {
			s->close_code =
				(unsigned)(uint8_t)s->in[head] << 8 | (uint8_t)s->in[head + 1];
			return NULL;
		}
		v = op == 1 ? json_loadb(s->in + head, len, 0, NULL) : NULL;
		eat(s, head + len);
		if (v)
			return v;
	}
}

/* One chunk is one line. */
static json_t *next_line(struct api_stream *s)
{
	const char *eol;
	size_t len;
	json_t *v;

	while (!(eol = memmem(s->in, s->len, "\r\n", 2)))
		if (!fill(s))
			return NULL;
	len = strtoul(s->in, NULL, 16);
	eat(s, (size_t)(eol + 2 - s->in));
	if (!len)
		return NULL;
	while (s->len < len + 2)
		if (!fill(s))
			return NULL;
	v = json_loadb(s->in, len, 0, NULL);
	eat(s, len + 2);
	return v;
}

json_t *api_next(struct api_stream *s)
{
	return s->websocket ? next_frame(s) : next_line(s);
}

json_t *api_next_of(struct api_stream *s, const char *type)
{
	uint64_t deadline = sl_deadline_ns(API_TIMEOUT_S * 1000);
	json_t *v;

	while ((v = api_next(s))) {
		const char *have = json_string_value(json_object_get(v, "type"));

		if (have && strcmp(have, type) == 0)
			return v;
		json_decref(v);
		assert_true(sl_clock_ns() < deadline);
	}
	fail_msg("the stream ended before %s (close code %u)", type, s->close_code);
	return NULL;
}

int api_open_session(struct api_fixture *f, struct api_stream *s, const char *name,
		     const char *lease)
{
	char target[300];

	snprintf(target, sizeof(target), "/v1/agents/%s/session?scope=demo", name);
	return api_open(f, s, target, lease, true);
}

void api_join(struct api_fixture *f, struct api_stream *s, const char *name,
	      const char *incarnation, char lease[512])
{
	json_t *hello;

	assert_int_equal(api_register(f, name, incarnation, OWNER_KEY_A, lease), 201);
	assert_int_equal(api_open_session(f, s, name, lease), 101);
	hello = api_next_of(s, "hello");
	assert_true(json_integer_value(json_object_get(hello, "tick_ms")) > 0);
	json_decref(hello);
}

void api_send(struct api_stream *s, const char *text)
{
	size_t len = strlen(text);
	unsigned char head[6] = { 0x81, (unsigned char)(0x80 | len), 0, 0, 0, 0 };

	assert_true(len < 126);
	api_send_all(s->fd, head, sizeof(head)); /* a mask of zeros leaves the text as it is */
	api_send_all(s->fd, text, len);
}

void api_close(struct api_stream *s)
{
	close(s->fd);
}
