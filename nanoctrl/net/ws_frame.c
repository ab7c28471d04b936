/* SPDX-License-Identifier: Apache-2.0 */
#include "nanoctrl/net/ws_frame.h"

#include <stdlib.h>
#include <string.h>
#include <openssl/evp.h>
#include <base/utf8.h>

#define FIN    0x80
#define RSV    0x70
#define MASKED 0x80

void ws_parser_init(struct ws_parser *p, size_t message_max)
{
	memset(p, 0, sizeof(*p));
	p->message_max = message_max;
}

void ws_parser_fini(struct ws_parser *p)
{
	free(p->message);
	p->message = NULL;
}

static enum ws_event bad(struct ws_parser *p, unsigned code)
{
	p->bad = true;
	p->close_code = code;
	return WS_BAD;
}

static bool is_control(const struct ws_parser *p)
{
	return p->head[0] & 0x08;
}

/* The length of the frame's header, as far as its first two bytes tell. */
static size_t header_len(const struct ws_parser *p)
{
	unsigned len7 = p->head[1] & 0x7f;

	if (p->head_len < 2)
		return 2;
	return 2 + (len7 == 127 ? 8u : len7 == 126 ? 2u : 0u) + 4;
}

/* What the first two bytes must not be. */
static bool frame_allowed(const struct ws_parser *p)
{
	unsigned opcode = p->head[0] & 0x0f;
	bool fin = p->head[0] & FIN;

	if ((p->head[0] & RSV) || !(p->head[1] & MASKED))
		return false;
	if (opcode == WS_CLOSE || opcode == WS_PING || opcode == WS_PONG)
		return fin && (p->head[1] & 0x7f) <= WS_CONTROL_MAX;
	if (opcode == WS_CONTINUATION)
		return p->message_opcode != WS_CONTINUATION;
	return (opcode == WS_TEXT || opcode == WS_BINARY) && p->message_opcode == WS_CONTINUATION;
}

/* The payload's length; false unless it is in its shortest form. */
static bool decode_length(struct ws_parser *p)
{
	size_t n = header_len(p) - 6;
	uint64_t len = p->head[1] & 0x7f;

	if (n) {
		len = 0;
		for (size_t i = 0; i < n; i++)
			len = len << 8 | p->head[2 + i];
	}
	p->left = len;
	return (n != 2 || len >= 126) && (n != 8 || (len > 0xffff && len >> 63 == 0));
}

static bool message_room(struct ws_parser *p, size_t more)
{
	size_t want = p->message_len + more + 1;
	char *bigger;

	if (p->message && want <= p->message_room)
		return true;
	if (want < 2 * p->message_room)
		want = 2 * p->message_room;
	if (want > p->message_max + 1)
		want = p->message_max + 1;
	bigger = realloc(p->message, want);
	if (!bigger)
		return false;
	p->message = bigger;
	p->message_room = want;
	return true;
}

/* The header is complete: make room for the payload. */
static enum ws_event begin_payload(struct ws_parser *p)
{
	if (!decode_length(p))
		return bad(p, WS_CLOSE_PROTOCOL);
	p->in_payload = true;
	p->frame_at = 0;
	if (is_control(p))
		return WS_MORE;
	if (p->left > p->message_max - p->message_len)
		return bad(p, WS_CLOSE_SIZE);
	if ((p->head[0] & 0x0f) != WS_CONTINUATION)
		p->message_opcode = (enum ws_opcode)(p->head[0] & 0x0f);
	/* Room for what has been announced grows with what arrives. */
	return message_room(p, 0) ? WS_MORE : bad(p, WS_CLOSE_ERROR);
}

static bool take_payload(struct ws_parser *p, const unsigned char *data, size_t n)
{
	const unsigned char *mask = p->head + p->head_len - 4;
	char *to;

	if (is_control(p)) {
		to = p->control + p->frame_at;
	} else {
		if (!message_room(p, n))
			return false;
		to = p->message + p->message_len;
		p->message_len += n;
	}
	for (size_t i = 0; i < n; i++)
		to[i] = (char)(data[i] ^ mask[(p->frame_at + i) & 3]);
	p->frame_at += n;
	p->left -= n;
	return true;
}

static enum ws_event end_control(struct ws_parser *p)
{
	p->opcode = (enum ws_opcode)(p->head[0] & 0x0f);
	p->payload = p->control;
	p->len = p->frame_at;
	p->control[p->len] = '\0';
	if (p->opcode != WS_CLOSE)
		return WS_CONTROL;
	p->close_code = 1005;
	if (p->len == 1)
		return bad(p, WS_CLOSE_PROTOCOL);
	if (p->len) {
		p->close_code =
			(unsigned)(unsigned char)p->control[0] << 8 | (unsigned char)p->control[1];
		if (!ws_close_code_valid(p->close_code))
			return bad(p, WS_CLOSE_PROTOCOL);
		if (!sl_utf8_valid(p->control + 2, p->len - 2))
			return bad(p, WS_CLOSE_UTF8);
	}
	return WS_CONTROL;
}

static enum ws_event end_frame(struct ws_parser *p)
{
	bool fin = p->head[0] & FIN;

	p->in_payload = false;
	p->head_len = 0;
	if (is_control(p))
		return end_control(p);
	if (!fin)
		return WS_MORE;
	p->opcode = p->message_opcode;
	p->payload = p->message;
	p->len = p->message_len;
	p->message[p->len] = '\0';
	p->message_opcode = WS_CONTINUATION;
	p->message_done = true;
	if (p->opcode == WS_TEXT && !sl_utf8_valid(p->payload, p->len))
		return bad(p, WS_CLOSE_UTF8);
	return WS_MESSAGE;
}

static enum ws_event take_header_byte(struct ws_parser *p, unsigned char c)
{
	p->head[p->head_len++] = c;
	if (p->head_len == 2 && !frame_allowed(p))
		return bad(p, WS_CLOSE_PROTOCOL);
	return p->head_len == header_len(p) && p->head_len > 2 ? begin_payload(p) : WS_MORE;
}

enum ws_event ws_parser_feed(struct ws_parser *p, const void *data, size_t len, size_t *used)
{
	const unsigned char *from = data;
	enum ws_event event = p->bad ? WS_BAD : WS_MORE;
	size_t at = 0;

	if (p->message_done) {
		p->message_done = false;
		p->message_len = 0;
	}
	while (event == WS_MORE && at < len) {
		if (p->in_payload) {
			size_t n = p->left < len - at ? (size_t)p->left : len - at;

			if (!take_payload(p, from + at, n))
				event = bad(p, WS_CLOSE_ERROR);
			at += n;
		} else {
			event = take_header_byte(p, from[at++]);
		}
		if (event == WS_MORE && p->in_payload && !p->left)
			event = end_frame(p);
	}
	*used = at;
	return event;
}

size_t ws_frame_header(enum ws_opcode opcode, size_t len, unsigned char out[WS_HEADER_MAX])
{
	size_t n = len < 126 ? 0 : len <= 0xffff ? 2 : 8;

	out[0] = (unsigned char)(FIN | opcode);
	out[1] = (unsigned char)(n == 8 ? 127 : n == 2 ? 126 : len);
	for (size_t i = 0; i < n; i++)
		out[2 + i] = (unsigned char)((uint64_t)len >> 8 * (n - 1 - i));
	return 2 + n;
}

bool ws_close_code_valid(unsigned code)
{
	if (code >= 3000)
		return code < 5000;
	return code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006;
}

bool ws_accept(const char *key, char out[WS_ACCEPT_MAX])
{
	static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	unsigned char text[24 + sizeof(guid)], digest[EVP_MAX_MD_SIZE], nonce[18];

	if (strlen(key) != 24 || key[21] == '=' || key[22] != '=' || key[23] != '=' ||
	    EVP_DecodeBlock(nonce, (const unsigned char *)key, 24) != 18)
		return false;
	memcpy(text, key, 24);
	memcpy(text + 24, guid, sizeof(guid) - 1);
	if (!EVP_Digest(text, 24 + sizeof(guid) - 1, digest, NULL, EVP_sha1(), NULL))
		return false;
	EVP_EncodeBlock((unsigned char *)out, digest, 20);
	return true;
}
