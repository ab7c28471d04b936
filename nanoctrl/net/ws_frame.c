/* SPDX-License-Identifier: Apache-2.0 */
#include "nanoctrl/net/ws_frame.h"

#include <errno.h>
#include <event2/buffer.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/utf8.h"

#define FIN    0x80
#define RSV    0x70
#define MASKED 0x80

void ws_parser_init(struct ws_parser *p, enum ws_sender from, size_t message_max)
{
	memset(p, 0, sizeof(*p));
	p->from = from;
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

/* Bytes of the header after the first two that hold the length. */
static size_t length_bytes(const struct ws_parser *p)
{
	unsigned len7 = p->head[1] & 0x7f;

	return len7 == 127 ? 8 : len7 == 126 ? 2 : 0;
}

/* The length of the frame's header, as far as its first two bytes tell. */
static size_t header_len(const struct ws_parser *p)
{
	if (p->head_len < 2)
		return 2;
	return 2 + length_bytes(p) + (p->head[1] & MASKED ? 4 : 0);
}

/* Values that the first two bytes must not have. */
static bool frame_allowed(const struct ws_parser *p)
{
	unsigned opcode = p->head[0] & 0x0f;
	bool fin = p->head[0] & FIN;

	if ((p->head[0] & RSV) || !(p->head[1] & MASKED) != (p->from == WS_SERVER))
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
	size_t n = length_bytes(p);
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
	static const unsigned char none[4];
	const unsigned char *mask = p->head[1] & MASKED ? p->head + p->head_len - 4 : none;
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
	return p->head_len >= 2 && p->head_len == header_len(p) ? begin_payload(p) : WS_MORE;
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

static int fill_random(void *out, size_t len)
{
	/* So few bytes come whole or not at all. */
	return getrandom(out, len, 0) == (ssize_t)len ? 0 : -errno;
}

int ws_write_masked(struct evbuffer *out, enum ws_opcode opcode, const void *payload, size_t len)
{
	unsigned char header[WS_HEADER_MAX], *mask;
	size_t n = ws_frame_header(opcode, len, header);
	const unsigned char *from = payload;
	struct evbuffer_iovec to;
	int ret;

	mask = header + n;
	header[1] |= MASKED;
	ret = fill_random(mask, 4);
	if (ret)
		return ret;
	n += 4;
	if (evbuffer_reserve_space(out, (ssize_t)(n + len), &to, 1) != 1)
		return -ENOMEM;
	memcpy(to.iov_base, header, n);
	for (size_t i = 0; i < len; i++)
		((unsigned char *)to.iov_base)[n + i] = from[i] ^ mask[i & 3];
	to.iov_len = n + len;
	return evbuffer_commit_space(out, &to, 1) ? -ENOMEM : 0;
}

bool ws_close_code_valid(unsigned code)
{
	if (code >= 3000)
		return code < 5000;
	return code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006;
}

int ws_make_key(char out[WS_KEY_MAX])
{
	unsigned char bytes[16];
	int ret = fill_random(bytes, sizeof(bytes));

	if (!ret)
		EVP_EncodeBlock((unsigned char *)out, bytes, sizeof(bytes));
	return ret;
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
