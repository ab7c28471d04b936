/* SPDX-License-Identifier: Apache-2.0 */
#include "nanoctrl/net/http_parser.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hex.h"

#define CHUNK_LINE_MAX 128

enum phase {
	PHASE_START, /* before a request line: one empty line is skipped */
	PHASE_HEAD,
	PHASE_BODY,
	PHASE_BODY_TO_END, /* of the connection */
	PHASE_CHUNK_LINE,
	PHASE_CHUNK_DATA,
	PHASE_CHUNK_END,
	PHASE_TRAILER,
	PHASE_DONE,
	PHASE_REFUSED,
};

#define REFUSAL(name, status, code, field, text) \
	static const struct http_refusal name = { status, code, field, text }

REFUSAL(no_memory, 503, "busy", NULL, "no memory for this request");
REFUSAL(bare_lf, 400, "bad_request", "head", "a line ends without CR");
REFUSAL(bare_cr, 400, "bad_request", "head", "CR without LF");
REFUSAL(bad_line, 400, "bad_request", "request line", "malformed request line");
REFUSAL(bad_status, 400, "bad_request", "status line", "malformed status line");
REFUSAL(many_interim, 400, "bad_request", "status line", "too many interim responses");
REFUSAL(bad_target, 400, "bad_request", "target", "malformed request target");
REFUSAL(bad_method, 501, "unknown_method", "method", "unknown request method");
REFUSAL(bad_version, 505, "http_version", "version", "only HTTP/1.1 and HTTP/1.0 are spoken here");
REFUSAL(bad_field, 400, "bad_request", "head", "malformed header field");
REFUSAL(folded, 400, "bad_request", "head", "folded header field");
REFUSAL(no_host, 400, "bad_request", "Host", "Host is missing");
REFUSAL(bad_host, 400, "bad_request", "Host", "malformed or repeated Host");
REFUSAL(bad_length, 400, "bad_request", "Content-Length", "malformed or repeated Content-Length");
REFUSAL(two_lengths, 400, "bad_request", "Transfer-Encoding",
	"both Content-Length and Transfer-Encoding");
REFUSAL(bad_coding, 501, "transfer_coding", "Transfer-Encoding",
	"the only transfer coding known is chunked");
REFUSAL(old_coding, 400, "bad_request", "Transfer-Encoding", "Transfer-Encoding in HTTP/1.0");
REFUSAL(bad_chunk, 400, "bad_request", "body", "malformed chunk");
REFUSAL(bad_expect, 417, "expectation", "Expect", "the only expectation known is 100-continue");
REFUSAL(long_head, 431, "too_large", "head", "the header fields are too large");
REFUSAL(many_fields, 431, "too_large", "head", "too many header fields");
REFUSAL(long_target, 414, "too_large", "target", "the request target is too long");
REFUSAL(long_body, 413, "too_large", "body", "the request body is too large");

static const char *const method_names[HTTP_METHODS] = {
	[HTTP_GET] = "GET",	    [HTTP_HEAD] = "HEAD",   [HTTP_POST] = "POST",
	[HTTP_PUT] = "PUT",	    [HTTP_PATCH] = "PATCH", [HTTP_DELETE] = "DELETE",
	[HTTP_OPTIONS] = "OPTIONS",
};

const char *http_method_name(enum http_method method)
{
	return method_names[method];
}

void http_message_fini(struct http_message *m)
{
	free(m->head);
	free(m->body);
	memset(m, 0, sizeof(*m));
}

static const char *name_of(const struct http_message *m, size_t i)
{
	return m->head + m->fields[i].name;
}

static const char *value_of(const struct http_message *m, size_t i)
{
	return m->head + m->fields[i].value;
}

/* Few names begin alike: the first letter tells most of them apart. */
static bool is_named(const struct http_message *m, size_t i, const char *name)
{
	const char *own = name_of(m, i);

	return (*own | 0x20) == (*name | 0x20) && !strcasecmp(own, name);
}

/* The only field of this name, or NULL; *n says how many there are. */
static const char *find_only(const struct http_message *m, const char *name, unsigned *n)
{
	const char *value = NULL;

	*n = 0;
	for (size_t i = 0; i < m->n_fields; i++) {
		if (is_named(m, i, name)) {
			value = value_of(m, i);
			++*n;
		}
	}
	return *n == 1 ? value : NULL;
}

const char *http_message_field(const struct http_message *m, const char *name)
{
	unsigned n;

	return find_only(m, name, &n);
}

bool http_message_has(const struct http_message *m, const char *name)
{
	unsigned n;

	find_only(m, name, &n);
	return n > 0;
}

void http_parser_init(struct http_parser *p, const struct http_limits *limits)
{
	assert(limits->head_bytes <= UINT16_MAX);
	memset(p, 0, sizeof(*p));
	p->limits = *limits;
}

void http_parser_init_response(struct http_parser *p, const struct http_limits *limits)
{
	http_parser_init(p, limits);
	p->response = true;
}

void http_parser_fini(struct http_parser *p)
{
	http_message_fini(&p->msg);
}

bool http_parser_busy(const struct http_parser *p)
{
	return p->phase > PHASE_HEAD || p->head_len || p->cr;
}

bool http_parser_wants_continue(struct http_parser *p)
{
	bool wants = p->expect_continue && p->phase > PHASE_HEAD && p->phase < PHASE_DONE;

	if (p->phase > PHASE_HEAD)
		p->expect_continue = false;
	return wants;
}

void http_parser_take(struct http_parser *p, struct http_message *out)
{
	struct http_limits limits = p->limits;
	bool response = p->response;

	assert(p->phase == PHASE_DONE);
	*out = p->msg;
	http_parser_init(p, &limits);
	p->response = response;
}

static enum http_parse refuse(struct http_parser *p, const struct http_refusal *why)
{
	p->refusal = why;
	p->phase = PHASE_REFUSED;
	return HTTP_REFUSED;
}

#define FIRST_ROOM 512

/* Makes room for len bytes and a NUL in a buffer that doubles from first up to max. */
static bool grow(char **buf, size_t *room, size_t len, size_t first, size_t max)
{
	size_t want = *room ? *room : first;
	char *bigger;

	if (len < *room)
		return true;
	while (want <= len)
		want *= 2;
	if (want > max + 1)
		want = max + 1;
	bigger = realloc(*buf, want);
	if (!bigger)
		return false;
	*buf = bigger;
	*room = want;
	return true;
}

/* A bit for each of the letters, digits and !#$%&'*+-.^_`|~ */
static const uint64_t token_bits[4] = { UINT64_C(0x03ff6cfa00000000),
					UINT64_C(0x57ffffffc7fffffe) };

static bool is_token(unsigned char c)
{
	return token_bits[c >> 6] >> (c & 63) & 1;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool parse_method(struct http_message *m, const char *name)
{
	for (unsigned i = 0; i < HTTP_METHODS; i++) {
		if (!strcmp(method_names[i], name)) {
			m->method = (enum http_method)i;
			return true;
		}
	}
	return false;
}

/* origin-form, or absolute-form of which the authority is skipped, or "*". */
static const struct http_refusal *parse_target(struct http_parser *p, char *target)
{
	struct http_message *m = &p->msg;
	char *c;

	if (strlen(target) > p->limits.target_bytes)
		return &long_target;
	for (c = target; *c; c++)
		if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 0x7f || *c == '#')
			return &bad_target;
	if (!strncasecmp(target, "http://", 7)) {
		target += 7 + strcspn(target + 7, "/?");
		if (*target != '/')
			return &bad_target;
	}
	if (*target != '/' && strcmp(target, "*") != 0)
		return &bad_target;
	m->path = target;
	m->query = strchr(target, '?');
	if (m->query)
		*m->query++ = '\0';
	return NULL;
}

/* method SP target SP version, and nothing else. */
static const struct http_refusal *parse_request_line(struct http_parser *p, char *line)
{
	char *target = strchr(line, ' ');
	char *version = target ? strchr(target + 1, ' ') : NULL;

	if (!version || target == line || version == target + 1)
		return &bad_line;
	*target++ = '\0';
	*version++ = '\0';
	for (const char *c = line; *c; c++)
		if (!is_token((unsigned char)*c))
			return &bad_line;
	if (strncmp(version, "HTTP/", 5) != 0 || strlen(version) != 8 || version[6] != '.')
		return &bad_line;
	if (version[5] != '1' || (version[7] != '1' && version[7] != '0'))
		return &bad_version;
	p->msg.minor = version[7] == '1';
	if (!parse_method(&p->msg, line))
		return &bad_method;
	return parse_target(p, target);
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* "HTTP/1.1 200 OK"; the reason may be missing. "HTTP/1." is there: is_status_begun(). */
static const struct http_refusal *parse_status_line(struct http_message *m, const char *line)
{
	if (line[7] != '0' && line[7] != '1')
		return &bad_version;
	if (line[8] != ' ' || line[9] < '1' || line[9] > '5' || !is_digit(line[10]) ||
	    !is_digit(line[11]) || (line[12] && line[12] != ' '))
		return &bad_status;
	m->minor = line[7] == '1';
	m->status = (unsigned)((line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0'));
	return NULL;
}

static const struct http_refusal *parse_field(struct http_message *m, char *line)
{
	char *colon = line;
	char *value, *end;

	if (is_blank(*line))
		return &folded;
	while (is_token((unsigned char)*colon))
		colon++;
	if (*colon != ':' || colon == line)
		return &bad_field;
	for (end = colon + 1; *end; end++)
		if (((unsigned char)*end < ' ' && *end != '\t') || *end == 0x7f)
			return &bad_field;
	if (m->n_fields == HTTP_HEADERS_MAX)
		return &many_fields;
	*colon = '\0';
	for (value = colon + 1; is_blank(*value); value++)
		;
	for (; end > value && is_blank(end[-1]); end--)
		;
	*end = '\0';
	m->fields[m->n_fields++] =
		(struct http_field){ (uint16_t)(line - m->head), (uint16_t)(value - m->head) };
	return NULL;
}

bool http_message_lists(const struct http_message *m, const char *name, const char *token)
{
	size_t len = strlen(token);

	for (size_t i = 0; i < m->n_fields; i++) {
		const char *c = value_of(m, i);

		if (!is_named(m, i, name))
			continue;
		while (*c) {
			size_t n;

			c += strspn(c, " \t,");
			n = strcspn(c, " \t,");
			if (n == len && !strncasecmp(c, token, len))
				return true;
			c += n;
		}
	}
	return false;
}

static const struct http_refusal *check_host(const struct http_message *m)
{
	unsigned n;
	const char *host = find_only(m, "Host", &n);

	if (!n)
		return m->minor ? &no_host : NULL;
	if (n > 1)
		return &bad_host;
	for (const char *c = host; *c; c++)
		if (!is_token((unsigned char)*c) && !strchr(":[]", *c))
			return &bad_host;
	return NULL;
}

static bool parse_length(const char *text, uint64_t *out)
{
	uint64_t v = 0;

	if (!*text)
		return false;
	for (; *text; text++) {
		if (*text < '0' || *text > '9' || v > UINT64_MAX / 10 - 1)
			return false;
		v = v * 10 + (uint64_t)(*text - '0');
	}
	*out = v;
	return true;
}

/* How the body is delimited: sets the next phase. */
static const struct http_refusal *parse_framing(struct http_parser *p)
{
	const struct http_message *m = &p->msg;
	unsigned n_lengths, n_codings;
	const char *length = find_only(m, "Content-Length", &n_lengths);
	const char *coding = find_only(m, "Transfer-Encoding", &n_codings);

	p->phase = PHASE_DONE;
	if (n_codings) {
		if (n_lengths)
			return &two_lengths;
		if (!m->minor)
			return &old_coding;
		if (n_codings > 1 || strcasecmp(coding, "chunked") != 0)
			return &bad_coding;
		p->phase = PHASE_CHUNK_LINE;
		return NULL;
	}
	if (!n_lengths) {
		if (p->response)
			p->phase = PHASE_BODY_TO_END;
		return NULL;
	}
	if (n_lengths > 1 || !parse_length(length, &p->left))
		return &bad_length;
	if (p->left > p->limits.body_bytes)
		return &long_body;
	if (p->left)
		p->phase = PHASE_BODY;
	return NULL;
}

static const struct http_refusal *parse_connection(struct http_parser *p)
{
	struct http_message *m = &p->msg;
	unsigned n_expects;
	const char *expect = find_only(m, "Expect", &n_expects);

	m->keep_alive = m->minor && !http_message_lists(m, "Connection", "close");
	m->upgrade = m->minor && http_message_lists(m, "Connection", "upgrade");
	if (p->response)
		return NULL;
	if (n_expects && (!expect || strcasecmp(expect, "100-continue") != 0))
		return &bad_expect;
	p->expect_continue = expect && m->minor;
	return NULL;
}

/* An interim response is forgotten, and the real one follows. */
static const struct http_refusal *skip_interim(struct http_parser *p)
{
	if (++p->n_interim > HTTP_INTERIM_MAX)
		return &many_interim;
	p->msg.n_fields = 0;
	p->head_len = 0;
	p->left = 0;
	p->phase = PHASE_START;
	return NULL;
}

/* What the status of a response says about its body. */
static const struct http_refusal *begin_response(struct http_parser *p)
{
	const struct http_refusal *why = parse_framing(p);

	if (why)
		return why;
	if (p->msg.status < 200 && p->msg.status != 101)
		return skip_interim(p);
	if (p->msg.status == 101 || p->msg.status == 204 || p->msg.status == 304)
		p->phase = PHASE_DONE;
	if (p->phase == PHASE_BODY_TO_END)
		p->msg.keep_alive = false;
	return NULL;
}

/* The head is complete: lines end in CR LF, which the scan has made sure of. */
static const struct http_refusal *parse_head(struct http_parser *p)
{
	const struct http_refusal *why = NULL;
	char *line = p->msg.head;
	bool first = true;

	if (memchr(line, '\0', p->head_len))
		return &bad_field;
	line[p->head_len] = '\0';
	while (!why) {
		char *end = strstr(line, "\r\n");

		assert(end);
		if (end == line)
			break;
		*end = '\0';
		if (!first)
			why = parse_field(&p->msg, line);
		else if (p->response)
			why = parse_status_line(&p->msg, line);
		else
			why = parse_request_line(p, line);
		first = false;
		line = end + 2;
	}
	if (!why && !p->response)
		why = check_host(&p->msg);
	if (!why)
		why = parse_connection(p);
	if (why)
		return why;
	return p->response ? begin_response(p) : parse_framing(p);
}

/* A head that has no end within its limit: the request line tells whether the target is to blame.
 */
static const struct http_refusal *head_too_long(const struct http_parser *p)
{
	if (p->response)
		return &long_head;
	return memchr(p->msg.head, '\n', p->head_len) ? &long_head : &long_target;
}

static const char response_begin[] = "HTTP/1.";
#define RESPONSE_BEGIN_LEN (sizeof(response_begin) - 1)

/* Whether c goes on what every response begins with. */
static bool is_status_begun(const struct http_parser *p, char c)
{
	return p->head_len >= RESPONSE_BEGIN_LEN || response_begin[p->head_len] == c;
}

/* One byte of the head. */
static const struct http_refusal *take_head_byte(struct http_parser *p, char c)
{
	bool line_ends = p->cr && c == '\n';

	if (p->cr && c != '\n')
		return &bare_cr;
	if (c == '\n' && !p->cr)
		return &bare_lf;
	p->cr = c == '\r';
	if (p->phase == PHASE_START && p->response) {
		p->phase = PHASE_HEAD;
	} else if (p->phase == PHASE_START) {
		if (p->cr)
			return NULL;
		p->phase = PHASE_HEAD;
		if (line_ends) /* an empty line before the request, from clients that end bodies
				  with one */
			return NULL;
	}
	/* Input that is no HTTP is refused before its head ends, which might never come: TLS as a
	 * request, the banner of another server as a response. */
	if (p->response ? !is_status_begun(p, c)
			: !p->head_len && !is_token((unsigned char)c) && c != '\r' && c != '\n')
		return p->response ? &bad_status : &bad_line;
	if (p->head_len == p->limits.head_bytes)
		return head_too_long(p);
	if (!grow(&p->msg.head, &p->head_room, p->head_len + 1, FIRST_ROOM, p->limits.head_bytes))
		return &no_memory;
	p->msg.head[p->head_len++] = c;
	if (line_ends && p->head_len >= 4 && p->msg.head[p->head_len - 3] == '\n')
		return parse_head(p);
	if (line_ends && p->head_len == 2)
		return &bad_line;
	return NULL;
}

/* How much of what follows lies within a line of the head, has room, and needs no look. */
static size_t head_run(const struct http_parser *p, const char *data, size_t len)
{
	size_t room = p->head_room ? p->head_room - 1 - p->head_len : 0;
	const char *end;

	if (p->phase != PHASE_HEAD || p->head_len < (p->response ? RESPONSE_BEGIN_LEN : 1) || p->cr)
		return 0;
	if (len > room)
		len = room;
	end = memchr(data, '\r', len);
	if (end)
		len = (size_t)(end - data);
	end = memchr(data, '\n', len);
	return end ? (size_t)(end - data) : len;
}

static const struct http_refusal *append_body(struct http_parser *p, const char *data, size_t len)
{
	struct http_message *m = &p->msg;
	/* Memory for an announced length is allocated as the bytes arrive, unless it is little. */
	size_t first = p->left < FIRST_ROOM ? (size_t)p->left + 1 : FIRST_ROOM;

	if (len > p->limits.body_bytes - m->body_len)
		return &long_body;
	if (!grow(&m->body, &p->body_room, m->body_len + len, first, p->limits.body_bytes))
		return &no_memory;
	memcpy(m->body + m->body_len, data, len);
	m->body_len += len;
	m->body[m->body_len] = '\0';
	if (p->phase != PHASE_BODY_TO_END)
		p->left -= len;
	return NULL;
}

/* size [;extension] CR LF. line_len counts the digits until something else comes; then it is over
 * CHUNK_LINE_MAX. */
static const struct http_refusal *take_chunk_line_byte(struct http_parser *p, char c)
{
	int digit = hex_digit(c);

	if (p->cr) {
		p->cr = false;
		if (c != '\n')
			return &bad_chunk;
		p->phase = p->left ? PHASE_CHUNK_DATA : PHASE_TRAILER;
		p->line_len = 0;
		p->trailer_len = 0;
		return p->left > p->limits.body_bytes - p->msg.body_len ? &long_body : NULL;
	}
	if (c == '\r' && p->line_len) {
		p->cr = true;
		return NULL;
	}
	if (p->line_len >= CHUNK_LINE_MAX) { /* in the extension */
		if (++p->line_len > (size_t)2 * CHUNK_LINE_MAX || (unsigned char)c < ' ')
			return &bad_chunk;
		return NULL;
	}
	if (c == ';' && p->line_len) {
		p->line_len = CHUNK_LINE_MAX;
		return NULL;
	}
	if (digit < 0 || ++p->line_len > 15)
		return &bad_chunk;
	p->left = p->left << 4 | (unsigned)digit;
	return NULL;
}

static const struct http_refusal *take_chunk_end_byte(struct http_parser *p, char c)
{
	if (c != (p->cr ? '\n' : '\r'))
		return &bad_chunk;
	p->cr = !p->cr;
	if (!p->cr)
		p->phase = PHASE_CHUNK_LINE;
	return NULL;
}

/* Trailers are read to their end and forgotten. */
static const struct http_refusal *take_trailer_byte(struct http_parser *p, char c)
{
	if (++p->trailer_len > p->limits.head_bytes)
		return &long_head;
	if (p->cr) {
		p->cr = false;
		if (c != '\n')
			return &bare_cr;
		if (!p->line_len)
			p->phase = PHASE_DONE;
		p->line_len = 0;
		return NULL;
	}
	if (c == '\r') {
		p->cr = true;
		return NULL;
	}
	if (((unsigned char)c < ' ' && c != '\t') || c == 0x7f)
		return c == '\n' ? &bare_lf : &bad_field;
	p->line_len++;
	return NULL;
}

static const struct http_refusal *take_byte(struct http_parser *p, char c)
{
	switch (p->phase) {
	case PHASE_START:
	case PHASE_HEAD:
		return take_head_byte(p, c);
	case PHASE_CHUNK_LINE:
		return take_chunk_line_byte(p, c);
	case PHASE_CHUNK_END:
		return take_chunk_end_byte(p, c);
	default:
		return take_trailer_byte(p, c);
	}
}

static enum http_parse state_of(const struct http_parser *p)
{
	return p->phase == PHASE_REFUSED ? HTTP_REFUSED
	       : p->phase == PHASE_DONE	 ? HTTP_DONE
					 : HTTP_MORE;
}

enum http_parse http_parser_end(struct http_parser *p)
{
	if (p->phase == PHASE_BODY_TO_END)
		p->phase = PHASE_DONE;
	return state_of(p);
}

enum http_parse http_parser_feed(struct http_parser *p, const void *data, size_t len, size_t *used)
{
	const char *from = data;
	size_t at = 0;

	while (at < len && p->phase < PHASE_DONE) {
		size_t run = head_run(p, from + at, len - at);
		const struct http_refusal *why = NULL;

		if (run) {
			memcpy(p->msg.head + p->head_len, from + at, run);
			p->head_len += run;
			at += run;
		} else if (p->phase == PHASE_BODY_TO_END) {
			why = append_body(p, from + at, len - at);
			at = len;
		} else if (p->phase == PHASE_BODY || p->phase == PHASE_CHUNK_DATA) {
			size_t n = p->left < len - at ? (size_t)p->left : len - at;

			why = append_body(p, from + at, n);
			at += n;
			if (!p->left)
				p->phase = p->phase == PHASE_BODY ? PHASE_DONE : PHASE_CHUNK_END;
		} else {
			why = take_byte(p, from[at++]);
		}
		if (why) {
			*used = at;
			return refuse(p, why);
		}
	}
	*used = at;
	return state_of(p);
}
