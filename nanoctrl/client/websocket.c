/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <event2/buffer.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "nanoctrl/client/websocket.h"

#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

#define FIN	 0x80
#define RESERVED 0x70
#define MASKED	 0x80

static int fill_random(void *out, size_t len)
{
	/* So few bytes come whole or not at all. */
	return getrandom(out, len, 0) == (ssize_t)len ? 0 : -errno;
}

int nc_ws_make_key(char key[NC_WS_KEY_LEN + 1])
{
	unsigned char bytes[16];
	int ret = fill_random(bytes, sizeof(bytes));

	if (!ret)
		EVP_EncodeBlock((unsigned char *)key, bytes, sizeof(bytes));
	return ret;
}

void nc_ws_accept(const char *key, char accept[NC_WS_ACCEPT_LEN + 1])
{
	char text[NC_WS_KEY_LEN + sizeof(GUID)];
	unsigned char digest[SHA_DIGEST_LENGTH];

	snprintf(text, sizeof(text), "%s%s", key, GUID);
	SHA1((const unsigned char *)text, strlen(text), digest);
	EVP_EncodeBlock((unsigned char *)accept, digest, sizeof(digest));
}

void nc_ws_init(struct nc_ws *ws)
{
	*ws = (struct nc_ws){ 0 };
}

void nc_ws_fini(struct nc_ws *ws)
{
	free(ws->message);
	ws->message = NULL;
}

static enum nc_ws_opcode opcode_of(const struct nc_ws *ws)
{
	return ws->header[0] & 0x0f;
}

static bool is_control(const struct nc_ws *ws)
{
	return (ws->header[0] & 0x08) != 0;
}

static size_t header_size(const struct nc_ws *ws)
{
	if (ws->header_len < 2)
		return 2;
	return ws->header[1] == 127 ? 10 : ws->header[1] == 126 ? 4 : 2;
}

/* The shortest form only, as the standard wants it. */
static int read_length(struct nc_ws *ws)
{
	size_t n = header_size(ws) - 2;
	uint64_t v = ws->header[1];

	if (n) {
		v = 0;
		for (size_t i = 0; i < n; i++)
			v = v << 8 | ws->header[2 + i];
		if (v < 126 || (n == 8 && v <= UINT16_MAX))
			return -EPROTO;
	}
	ws->left = v;
	return 0;
}

static int check_frame(const struct nc_ws *ws)
{
	enum nc_ws_opcode opcode = opcode_of(ws);

	if (ws->header[0] & RESERVED)
		return -EPROTO;
	if (is_control(ws)) {
		bool known = opcode == NC_WS_CLOSE || opcode == NC_WS_PING || opcode == NC_WS_PONG;

		return known && ws->header[0] & FIN && ws->left <= sizeof(ws->control) ? 0
										       : -EPROTO;
	}
	if (opcode != (ws->fragmented ? NC_WS_CONTINUATION : NC_WS_TEXT))
		return -EPROTO;
	return ws->left > NC_WS_MESSAGE_MAX - ws->message_len ? -EMSGSIZE : 0;
}

static int reserve(struct nc_ws *ws)
{
	size_t room = ws->message_room ? ws->message_room : 1024;
	char *message;

	while (room < ws->message_len + ws->left + 1)
		room *= 2;
	if (room == ws->message_room)
		return 0;
	message = realloc(ws->message, room);
	if (!message)
		return -ENOMEM;
	ws->message = message;
	ws->message_room = room;
	return 0;
}

static int begin_frame(struct nc_ws *ws)
{
	int ret;

	/* Servers do not mask. */
	if (ws->header[1] & MASKED)
		return -EPROTO;
	ret = read_length(ws);
	if (!ret)
		ret = check_frame(ws);
	if (ret)
		return ret;
	ws->in_frame = true;
	if (is_control(ws)) {
		ws->control_len = 0;
		return 0;
	}
	if (!ws->fragmented)
		ws->message_len = 0;
	return reserve(ws);
}

static void take_payload(struct nc_ws *ws, const uint8_t *bytes, size_t len)
{
	if (is_control(ws)) {
		memcpy(ws->control + ws->control_len, bytes, len);
		ws->control_len += len;
	} else {
		memcpy(ws->message + ws->message_len, bytes, len);
		ws->message_len += len;
	}
	ws->left -= len;
}

static int end_frame(struct nc_ws *ws)
{
	ws->in_frame = false;
	ws->header_len = 0;
	switch (opcode_of(ws)) {
	case NC_WS_PING:
		return NC_WS_PINGED;
	case NC_WS_PONG:
		return NC_WS_MORE;
	case NC_WS_CLOSE:
		ws->closed = true;
		return NC_WS_CLOSED;
	default:
		ws->fragmented = !(ws->header[0] & FIN);
		if (ws->fragmented)
			return NC_WS_MORE;
		ws->message[ws->message_len] = '\0';
		return NC_WS_MESSAGE;
	}
}

int nc_ws_feed(struct nc_ws *ws, const uint8_t *bytes, size_t len, size_t *used)
{
	int ret = NC_WS_MORE;

	*used = 0;
	if (ws->closed)
		return -EPROTO;
	while (ret == NC_WS_MORE && *used < len) {
		if (!ws->in_frame) {
			ws->header[ws->header_len++] = bytes[(*used)++];
			if (ws->header_len < 2 || ws->header_len < header_size(ws))
				continue;
			ret = begin_frame(ws);
			if (ret)
				return ret;
			ret = NC_WS_MORE;
		}
		if (ws->left) {
			size_t n = len - *used < ws->left ? len - *used : (size_t)ws->left;

			if (n)
				take_payload(ws, bytes + *used, n);
			*used += n;
		}
		if (!ws->left)
			ret = end_frame(ws);
	}
	return ret;
}

int nc_ws_write(struct evbuffer *out, enum nc_ws_opcode opcode, const void *payload, size_t len)
{
	uint8_t header[14] = { (uint8_t)(FIN | opcode) }, mask[4];
	const uint8_t *from = payload;
	struct evbuffer_iovec to;
	size_t n = 2;
	int ret = fill_random(mask, sizeof(mask));

	if (ret)
		return ret;
	if (len > UINT16_MAX)
		return -EMSGSIZE;
	header[1] = MASKED | (len < 126 ? (uint8_t)len : 126);
	if (len >= 126) {
		header[n++] = (uint8_t)(len >> 8);
		header[n++] = (uint8_t)len;
	}
	memcpy(header + n, mask, sizeof(mask));
	n += sizeof(mask);
	if (evbuffer_reserve_space(out, (ssize_t)(n + len), &to, 1) != 1)
		return -ENOMEM;
	memcpy(to.iov_base, header, n);
	for (size_t i = 0; i < len; i++)
		((uint8_t *)to.iov_base)[n + i] = from[i] ^ mask[i % 4];
	to.iov_len = n + len;
	return evbuffer_commit_space(out, &to, 1) ? -ENOMEM : 0;
}
