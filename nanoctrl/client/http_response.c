/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "nanoctrl/client/http_response.h"

void nc_response_init(struct nc_response *r)
{
	memset(r, 0, offsetof(struct nc_response, line));
	r->keep_alive = true;
	r->retry_after_s = -1;
}

void nc_response_fini(struct nc_response *r)
{
	free(r->body);
	r->body = NULL;
}

/* --- the body --- */

static int reserve(struct nc_response *r, size_t len)
{
	size_t room = r->body_room ? r->body_room : 4096;
	char *body;

	if (len > NC_HTTP_BODY_MAX - r->body_len)
		return -EMSGSIZE;
	while (room < r->body_len + len + 1)
		room *= 2;
	if (room == r->body_room)
		return 0;
	body = realloc(r->body, room);
	if (!body)
		return -ENOMEM;
	r->body = body;
	r->body_room = room;
	return 0;
}

static int append(struct nc_response *r, const char *bytes, size_t len)
{
	int ret = reserve(r, len);

	if (ret)
		return ret;
	memcpy(r->body + r->body_len, bytes, len);
	r->body_len += len;
	r->body[r->body_len] = '\0';
	return 0;
}

static int complete(struct nc_response *r)
{
	int ret = reserve(r, 0);

	if (ret)
		return ret;
	r->body[r->body_len] = '\0';
	r->state = NC_HTTP_COMPLETE;
	return 0;
}

/* --- lines --- */

/* "HTTP/1.1 200 OK"; the reason may be missing. */
static int take_status(struct nc_response *r)
{
	const char *l = r->line;

	if (strncmp(l, "HTTP/1.", 7) || (l[7] != '0' && l[7] != '1') || l[8] != ' ' || l[9] < '1' ||
	    l[9] > '5' || !isdigit((unsigned char)l[10]) || !isdigit((unsigned char)l[11]) ||
	    (l[12] && l[12] != ' '))
		return -EPROTO;
	r->keep_alive = l[7] == '1';
	r->status = (l[9] - '0') * 100 + (l[10] - '0') * 10 + (l[11] - '0');
	r->state = NC_HTTP_HEADER;
	return 0;
}

static int take_length(struct nc_response *r, const char *value)
{
	unsigned long long v;
	char *end;

	if (r->has_length || !isdigit((unsigned char)*value) || strlen(value) > 15)
		return -EPROTO;
	v = strtoull(value, &end, 10);
	if (*end)
		return -EPROTO;
	if (v > NC_HTTP_BODY_MAX)
		return -EMSGSIZE;
	r->has_length = true;
	r->body_left = (size_t)v;
	return 0;
}

/* Whether the comma separated value has this word. */
static bool has_word(const char *value, const char *word)
{
	size_t len = strlen(word);

	while (*value) {
		size_t n;

		value += strspn(value, " \t,");
		n = strcspn(value, " \t,");
		if (n == len && !strncasecmp(value, word, len))
			return true;
		value += n;
	}
	return false;
}

static int take_header_value(struct nc_response *r, const char *name, const char *value)
{
	if (!strcasecmp(name, "content-length"))
		return take_length(r, value);
	if (!strcasecmp(name, "transfer-encoding")) {
		if (r->chunked || strcasecmp(value, "chunked"))
			return -EPROTO;
		r->chunked = true;
	} else if (!strcasecmp(name, "connection")) {
		if (has_word(value, "close"))
			r->keep_alive = false;
	} else if (!strcasecmp(name, "upgrade")) {
		r->websocket = has_word(value, "websocket");
	} else if (!strcasecmp(name, "retry-after")) {
		/* A date is not taken: ours sends seconds. */
		if (isdigit((unsigned char)*value) && strlen(value) < 6)
			r->retry_after_s = atoi(value);
	} else if (!strcasecmp(name, "sec-websocket-accept")) {
		if (strlen(value) < sizeof(r->ws_accept))
			strcpy(r->ws_accept, value);
	}
	return 0;
}

static int split_header(struct nc_response *r, char **value)
{
	char *colon = strchr(r->line, ':');
	size_t len;

	if (!colon || colon == r->line || strcspn(r->line, " \t") < (size_t)(colon - r->line))
		return -EPROTO;
	*colon++ = '\0';
	colon += strspn(colon, " \t");
	len = strlen(colon);
	while (len && (colon[len - 1] == ' ' || colon[len - 1] == '\t'))
		colon[--len] = '\0';
	*value = colon;
	return 0;
}

static int begin_body(struct nc_response *r)
{
	if (r->chunked && r->has_length)
		return -EPROTO;
	if (r->status == 101)
		return complete(r);
	if (r->status < 200) {
		/* An interim answer: the real one follows. */
		size_t headers_len = r->headers_len;

		nc_response_init(r);
		r->headers_len = headers_len;
		return 0;
	}
	if (r->status == 204 || r->status == 304)
		return complete(r);
	if (r->chunked) {
		r->state = NC_HTTP_CHUNK_SIZE;
		return 0;
	}
	if (!r->has_length) {
		r->keep_alive = false;
		r->state = NC_HTTP_BODY_TO_END;
		return 0;
	}
	r->state = NC_HTTP_BODY;
	return r->body_left ? 0 : complete(r);
}

static int take_chunk_size(struct nc_response *r)
{
	size_t n = strcspn(r->line, "; \t");
	char *end;
	unsigned long v;

	if (!n || n > 8 || !isxdigit((unsigned char)r->line[0]))
		return -EPROTO;
	v = strtoul(r->line, &end, 16);
	if (end != r->line + n)
		return -EPROTO;
	if (v > NC_HTTP_BODY_MAX - r->body_len)
		return -EMSGSIZE;
	r->body_left = v;
	r->state = v ? NC_HTTP_CHUNK : NC_HTTP_TRAILER;
	return 0;
}

static int take_line(struct nc_response *r)
{
	char *value;
	int ret;

	switch (r->state) {
	case NC_HTTP_STATUS:
		return take_status(r);
	case NC_HTTP_HEADER:
		if (!r->line_len)
			return begin_body(r);
		ret = split_header(r, &value);
		return ret ? ret : take_header_value(r, r->line, value);
	case NC_HTTP_CHUNK_SIZE:
		return take_chunk_size(r);
	case NC_HTTP_CHUNK_END:
		r->state = NC_HTTP_CHUNK_SIZE;
		return r->line_len ? -EPROTO : 0;
	default:
		return r->line_len ? 0 : complete(r);
	}
}

/* One byte of a line; control characters and an LF without its CR are refused. */
static int take_line_byte(struct nc_response *r, char c)
{
	bool after_cr = r->line_len && r->line[r->line_len - 1] == '\r';
	bool header = r->state != NC_HTTP_CHUNK_SIZE && r->state != NC_HTTP_CHUNK_END;
	int ret;

	if (header && ++r->headers_len > NC_HTTP_HEADERS_MAX)
		return -EMSGSIZE;
	if ((c == '\n') != after_cr)
		return -EPROTO;
	if (c == '\n') {
		r->line[--r->line_len] = '\0';
		ret = take_line(r);
		r->line_len = 0;
		return ret;
	}
	if (((unsigned char)c < 0x20 && c != '\t' && c != '\r') || c == 0x7f)
		return -EPROTO;
	if (r->line_len == sizeof(r->line) - 1)
		return -EMSGSIZE;
	r->line[r->line_len++] = c;
	return 0;
}

static bool in_body(const struct nc_response *r)
{
	return r->state == NC_HTTP_BODY || r->state == NC_HTTP_BODY_TO_END ||
	       r->state == NC_HTTP_CHUNK;
}

static int take_body(struct nc_response *r, const char *bytes, size_t len, size_t *used)
{
	size_t n = len;
	int ret;

	if (r->state != NC_HTTP_BODY_TO_END && n > r->body_left)
		n = r->body_left;
	ret = append(r, bytes, n);
	if (ret)
		return ret;
	*used += n;
	if (r->state == NC_HTTP_BODY_TO_END)
		return 0;
	r->body_left -= n;
	if (r->body_left)
		return 0;
	if (r->state == NC_HTTP_BODY)
		return complete(r);
	r->state = NC_HTTP_CHUNK_END;
	return 0;
}

int nc_response_feed(struct nc_response *r, const char *bytes, size_t len, size_t *used)
{
	int ret = r->state == NC_HTTP_FAILED ? -EPROTO : 0;

	*used = 0;
	while (!ret && r->state != NC_HTTP_COMPLETE && *used < len) {
		if (in_body(r))
			ret = take_body(r, bytes + *used, len - *used, used);
		else
			ret = take_line_byte(r, bytes[(*used)++]);
	}
	if (ret) {
		r->state = NC_HTTP_FAILED;
		return ret;
	}
	return r->state == NC_HTTP_COMPLETE ? 0 : NC_RESPONSE_MORE;
}

int nc_response_end(struct nc_response *r)
{
	return r->state == NC_HTTP_BODY_TO_END && !complete(r) ? 0 : -ECONNRESET;
}
