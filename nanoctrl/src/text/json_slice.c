/* SPDX-License-Identifier: Apache-2.0 */
#include "text/json_slice.h"

#include <string.h>

#include "base/hex.h"

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static const char *skip_blanks(const char *at, const char *end)
{
	while (at < end && is_blank(*at))
		at++;
	return at;
}

/* Behind the string that begins at its quote. */
static const char *skip_string(const char *at, const char *end)
{
	for (at++; at < end && *at != '"'; at++)
		if (*at == '\\')
			at++;
	return at < end ? at + 1 : end;
}

/* Behind the bracket that closes the one here. */
static const char *skip_brackets(const char *at, const char *end)
{
	size_t depth = 0;

	while (at < end) {
		if (*at == '"') {
			at = skip_string(at, end);
			continue;
		}
		if (*at == '{' || *at == '[')
			depth++;
		if ((*at == '}' || *at == ']') && !--depth)
			return at + 1;
		at++;
	}
	return end;
}

/* Behind the value that begins here. */
static const char *skip_value(const char *at, const char *end)
{
	if (at < end && *at == '"')
		return skip_string(at, end);
	if (at < end && (*at == '{' || *at == '['))
		return skip_brackets(at, end);
	while (at < end && !is_blank(*at) && !strchr(",:]}", *at))
		at++;
	return at;
}

bool json_too_deep(const char *text, size_t len, unsigned max)
{
	const char *end = text + len;
	unsigned depth = 0;

	while (text < end) {
		if (*text == '"') {
			text = skip_string(text, end);
			continue;
		}
		if ((*text == '{' || *text == '[') && ++depth > max)
			return true;
		if ((*text == '}' || *text == ']') && depth)
			depth--;
		text++;
	}
	return false;
}

/* ---- plain texts: each of these is behind what begins here, or NULL when it is not plain ---- */

#define PLAIN_DIGITS 18 /* of a number: fits any type it is read into */

static const char *plain_string(const char *at, const char *end)
{
	if (at == end || *at != '"')
		return NULL;
	for (at++; at < end && *at != '"'; at++)
		if (*at == '\\' || (unsigned char)*at < 0x20 || (unsigned char)*at > 0x7e)
			return NULL;
	return at < end ? at + 1 : NULL;
}

static const char *plain_number(const char *at, const char *end)
{
	const char *digits = at < end && *at == '-' ? at + 1 : at;

	for (at = digits; at < end && *at >= '0' && *at <= '9'; at++)
		;
	if (at == digits || at - digits > PLAIN_DIGITS || (*digits == '0' && at - digits > 1))
		return NULL;
	return at;
}

static const char *plain_word(const char *at, const char *end)
{
	static const char *const words[] = { "null", "true", "false" };

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		size_t len = strlen(words[i]);

		if ((size_t)(end - at) >= len && !memcmp(at, words[i], len))
			return at + len;
	}
	return NULL;
}

static const char *plain_brackets(const char *at, const char *end, unsigned depth);

static const char *plain_value(const char *at, const char *end, unsigned depth)
{
	if (at == end)
		return NULL;
	switch (*at) {
	case '"':
		return plain_string(at, end);
	case '{':
	case '[':
		return depth ? plain_brackets(at, end, depth - 1) : NULL;
	case 'n':
	case 't':
	case 'f':
		return plain_word(at, end);
	default:
		return plain_number(at, end);
	}
}

/* "name": */
static const char *plain_key(const char *at, const char *end)
{
	at = plain_string(at, end);
	if (!at)
		return NULL;
	at = skip_blanks(at, end);
	return at < end && *at == ':' ? skip_blanks(at + 1, end) : NULL;
}

static const char *plain_brackets(const char *at, const char *end, unsigned depth)
{
	bool object = *at == '{';
	char closing = object ? '}' : ']';

	at = skip_blanks(at + 1, end);
	if (at < end && *at == closing)
		return at + 1;
	for (;;) {
		if (object)
			at = plain_key(at, end);
		at = at ? plain_value(at, end, depth) : NULL;
		at = at ? skip_blanks(at, end) : NULL;
		if (!at || at == end || (*at != ',' && *at != closing))
			return NULL;
		if (*at == closing)
			return at + 1;
		at = skip_blanks(at + 1, end);
	}
}

bool json_is_plain(const char *text, size_t len, unsigned max)
{
	const char *end = text + len;
	const char *at = skip_blanks(text, end);

	if (at == end || (*at != '{' && *at != '['))
		return false;
	at = plain_value(at, end, max);
	return at && skip_blanks(at, end) == end;
}

struct json_slice json_of_plain(const char *text, size_t len)
{
	const char *at = skip_blanks(text, text + len);
	const char *end = text + len;

	while (end > at && is_blank(end[-1]))
		end--;
	return (struct json_slice){ at, (size_t)(end - at) };
}

struct json_slice json_first(const char *text, size_t len)
{
	const char *at = skip_blanks(text, text + len);

	return (struct json_slice){ at, (size_t)(skip_value(at, text + len) - at) };
}

bool json_walk_init(struct json_walk *w, struct json_slice value)
{
	if (value.len < 2 || (*value.at != '{' && *value.at != '['))
		return false;
	*w = (struct json_walk){ value.at + 1, value.at + value.len - 1, *value.at == '{' };
	return true;
}

static struct json_slice take_value(struct json_walk *w)
{
	struct json_slice v = json_first(w->at, (size_t)(w->end - w->at));

	w->at = skip_blanks(v.at + v.len, w->end);
	return v;
}

bool json_walk_next(struct json_walk *w, struct json_slice *key, struct json_slice *value)
{
	*key = (struct json_slice){ NULL, 0 };
	w->at = skip_blanks(w->at, w->end);
	if (w->at < w->end && *w->at == ',')
		w->at++;
	if (w->object) {
		*key = take_value(w);
		if (w->at < w->end)
			w->at++; /* the colon */
	}
	*value = take_value(w);
	return value->len > 0;
}

static unsigned hex4(const char *at)
{
	unsigned v = 0;

	for (int i = 0; i < 4; i++)
		v = v << 4 | ((unsigned)hex_digit(at[i]) & 15);
	return v;
}

static char *put_utf8(char *out, unsigned c)
{
	if (c < 0x80) {
		*out++ = (char)c;
	} else if (c < 0x800) {
		*out++ = (char)(0xc0 | c >> 6);
		*out++ = (char)(0x80 | (c & 63));
	} else if (c < 0x10000) {
		*out++ = (char)(0xe0 | c >> 12);
		*out++ = (char)(0x80 | (c >> 6 & 63));
		*out++ = (char)(0x80 | (c & 63));
	} else {
		*out++ = (char)(0xf0 | c >> 18);
		*out++ = (char)(0x80 | (c >> 12 & 63));
		*out++ = (char)(0x80 | (c >> 6 & 63));
		*out++ = (char)(0x80 | (c & 63));
	}
	return out;
}

/* The character after a backslash; never longer than the escape itself. */
static const char *unescape(const char *at, const char *end, char **out)
{
	static const char from[] = "bfnrt";
	static const char to[] = "\b\f\n\r\t";
	const char *simple;
	unsigned c;

	if (*at != 'u') {
		simple = strchr(from, *at);
		*(*out)++ = simple ? to[simple - from] : *at;
		return at + 1;
	}
	if (end - at < 5)
		return end;
	c = hex4(at + 1);
	at += 5;
	if (c >= 0xd800 && c < 0xdc00 && end - at >= 6 && at[0] == '\\' && at[1] == 'u') {
		c = 0x10000 + ((c - 0xd800) << 10) + ((hex4(at + 2) - 0xdc00) & 0x3ff);
		at += 6;
	}
	*out = put_utf8(*out, c);
	return at;
}

long json_unquote(struct json_slice value, char *out)
{
	const char *at = value.at + 1;
	const char *end = value.at + value.len - 1;
	char *to = out;

	if (value.len < 2 || *value.at != '"')
		return -1;
	while (at < end) {
		/* The last character begins no escape. */
		const char *escape = memchr(at, '\\', (size_t)(end - at - 1));
		size_t n = (size_t)((escape ? escape : end) - at);

		memcpy(to, at, n);
		to += n;
		at = escape ? unescape(escape + 1, end, &to) : end;
	}
	*to = '\0';
	return to - out;
}

bool json_is(struct json_slice value, const char *literal)
{
	return value.len == strlen(literal) && !memcmp(value.at, literal, value.len);
}

bool json_u64(struct json_slice value, uint64_t max, uint64_t *out)
{
	uint64_t n = 0;

	if (!value.len)
		return false;
	for (size_t i = 0; i < value.len; i++) {
		unsigned digit = (unsigned)(value.at[i] - '0');

		if (digit > 9 || n > (max - digit) / 10)
			return false;
		n = n * 10 + digit;
	}
	*out = n;
	return true;
}

size_t json_compact(struct json_slice value, char *out)
{
	const char *at = value.at, *end = value.at + value.len;
	char *to = out;

	while (at < end) {
		const char *from = at;

		if (is_blank(*at)) {
			at++;
			continue;
		}
		at = *at == '"' ? skip_string(at, end) : at + 1;
		memcpy(to, from, (size_t)(at - from));
		to += at - from;
	}
	*to = '\0';
	return (size_t)(to - out);
}
