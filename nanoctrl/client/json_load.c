/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of a document. jansson's own goes on where there is no memory for the text of a
 * string, and writes beyond what it has; here each allocation is looked at. What it takes is
 * RFC 8259 without NUL in strings, without doubles among the names of an object, and not too deep.
 */
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <base/utf8.h>

#include "nanoctrl/client/json_load.h"

#define DEPTH_MAX 64

struct reader {
	const char *at, *end;
	char *text; /* room for any string, and any number, of the document */
	unsigned depth;
	int err; /* the first */
};

static json_t *fail(struct reader *r, int err)
{
	if (!r->err)
		r->err = err;
	return NULL;
}

/* A failure of jansson is for lack of memory. */
static json_t *made(struct reader *r, json_t *v)
{
	return v ? v : fail(r, -ENOMEM);
}

static void skip_blanks(struct reader *r)
{
	while (r->at < r->end && memchr(" \t\n\r", *r->at, 4))
		r->at++;
}

/* Whether this comes next, which is taken then. */
static bool take(struct reader *r, const char *word)
{
	size_t len = strlen(word);

	if ((size_t)(r->end - r->at) < len || memcmp(r->at, word, len) != 0)
		return false;
	r->at += len;
	return true;
}

/* ---- strings ---- */

/* Four digits; more than any unit of UTF-16 where they are none. */
static unsigned read_unit(struct reader *r)
{
	static const char digits[] = "0123456789abcdef";
	unsigned unit = 0;

	if (r->end - r->at < 4)
		return UINT32_MAX;
	for (int i = 0; i < 4; i++) {
		char c = *r->at++;
		const char *digit = c ? strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;

		if (!digit)
			return UINT32_MAX;
		unit = unit << 4 | (unsigned)(digit - digits);
	}
	return unit;
}

/* A character from behind "\u"; 0 where it is none. */
static unsigned read_escaped(struct reader *r)
{
	unsigned c = read_unit(r), low;

	if (c < 0xd800 || (c >= 0xe000 && c < 0x10000))
		return c;
	if (c >= 0xdc00 || !take(r, "\\u"))
		return 0;
	low = read_unit(r);
	return low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00) : 0;
}

static char *put_utf8(char *to, unsigned c)
{
	if (c < 0x80) {
		*to++ = (char)c;
		return to;
	}
	if (c < 0x800) {
		*to++ = (char)(0xc0 | c >> 6);
	} else {
		if (c < 0x10000) {
			*to++ = (char)(0xe0 | c >> 12);
		} else {
			*to++ = (char)(0xf0 | c >> 18);
			*to++ = (char)(0x80 | (c >> 12 & 63));
		}
		*to++ = (char)(0x80 | (c >> 6 & 63));
	}
	*to++ = (char)(0x80 | (c & 63));
	return to;
}

/* The character that an escape means, from after its backslash; NULL if it is malformed. */
static char *unescape(struct reader *r, char *to)
{
	static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
	const char *name;
	unsigned c;

	if (take(r, "u")) {
		c = read_escaped(r);
		return c ? put_utf8(to, c) : NULL;
	}
	name = r->at < r->end && *r->at ? strchr(names, *r->at) : NULL;
	if (!name)
		return NULL;
	r->at++;
	*to++ = values[name - names];
	return to;
}

/* The string that begins at its quote, in r->text; its length, or -1. */
static long read_string(struct reader *r)
{
	char *to = r->text;

	r->at++;
	while (to && r->at < r->end && *r->at != '"') {
		unsigned char c = (unsigned char)*r->at++;

		if (c == '\\')
			to = unescape(r, to);
		else if (c < 0x20)
			to = NULL;
		else
			*to++ = (char)c;
	}
	if (!to || r->at == r->end || !sl_utf8_valid(r->text, (size_t)(to - r->text)))
		return -1;
	r->at++;
	*to = '\0';
	return to - r->text;
}

static json_t *load_string(struct reader *r)
{
	long len = read_string(r);

	return len < 0 ? fail(r, -EPROTO) : made(r, json_stringn_nocheck(r->text, (size_t)len));
}

/* ---- numbers ---- */

static bool take_digits(struct reader *r)
{
	const char *from = r->at;

	while (r->at < r->end && *r->at >= '0' && *r->at <= '9')
		r->at++;
	return r->at > from;
}

/* As the C library reads it, which has another decimal point in some places. */
static json_t *load_real(struct reader *r)
{
	char *point = strchr(r->text, '.');
	double v;

	if (point)
		*point = *localeconv()->decimal_point;
	v = strtod(r->text, NULL);
	return isinf(v) ? fail(r, -EPROTO) : made(r, json_real(v));
}

static json_t *load_number(struct reader *r)
{
	const char *from = r->at;
	bool real, ok;
	long long n;

	take(r, "-");
	ok = take(r, "0") || take_digits(r);
	real = take(r, ".");
	if (real)
		ok = ok && take_digits(r);
	if (take(r, "e") || take(r, "E")) {
		real = true;
		if (!take(r, "+"))
			take(r, "-");
		ok = ok && take_digits(r);
	}
	if (!ok)
		return fail(r, -EPROTO);
	memcpy(r->text, from, (size_t)(r->at - from));
	r->text[r->at - from] = '\0';
	if (real)
		return load_real(r);
	errno = 0;
	n = strtoll(r->text, NULL, 10);
	return errno ? fail(r, -EPROTO) : made(r, json_integer(n));
}

/* ---- what has others in it ---- */

static json_t *load_value(struct reader *r);

static bool add_element(struct reader *r, json_t *array)
{
	json_t *v = load_value(r);

	if (v && json_array_append_new(array, v))
		fail(r, -ENOMEM);
	return !r->err;
}

/* The name is copied, since the value may have strings of its own. */
static bool add_member(struct reader *r, json_t *object)
{
	char *name = NULL;
	json_t *v = NULL;

	if (r->at == r->end || *r->at != '"' || read_string(r) < 0 ||
	    json_object_get(object, r->text)) {
		fail(r, -EPROTO);
		return false;
	}
	name = strdup(r->text);
	skip_blanks(r);
	if (!name)
		fail(r, -ENOMEM);
	else if (!take(r, ":"))
		fail(r, -EPROTO);
	else
		v = load_value(r);
	if (v && json_object_set_new_nocheck(object, name, v))
		fail(r, -ENOMEM);
	free(name);
	return !r->err;
}

static json_t *load_items(struct reader *r, json_t *whole, const char *closing,
			  bool (*add)(struct reader *r, json_t *whole))
{
	if (!made(r, whole))
		return NULL;
	skip_blanks(r);
	if (take(r, closing))
		return whole;
	do {
		skip_blanks(r);
		if (!add(r, whole))
			break;
		skip_blanks(r);
	} while (take(r, ","));
	if (!r->err && !take(r, closing))
		fail(r, -EPROTO);
	if (!r->err)
		return whole;
	json_decref(whole);
	return NULL;
}

static json_t *load_bracket(struct reader *r)
{
	bool object = *r->at++ == '{';
	json_t *v;

	if (++r->depth > DEPTH_MAX)
		return fail(r, -EPROTO);
	v = object ? load_items(r, json_object(), "}", add_member)
		   : load_items(r, json_array(), "]", add_element);
	r->depth--;
	return v;
}

static json_t *load_value(struct reader *r)
{
	skip_blanks(r);
	if (r->at == r->end)
		return fail(r, -EPROTO);
	if (*r->at == '{' || *r->at == '[')
		return load_bracket(r);
	if (*r->at == '"')
		return load_string(r);
	if (take(r, "true"))
		return json_true();
	if (take(r, "false"))
		return json_false();
	return take(r, "null") ? json_null() : load_number(r);
}

int nc_json_load(const char *text, size_t len, json_t **out)
{
	struct reader r = { .at = text, .end = text + len, .text = malloc(len + 1) };
	json_t *root = r.text ? load_value(&r) : fail(&r, -ENOMEM);

	skip_blanks(&r);
	if (root && r.at != r.end)
		fail(&r, -EPROTO);
	free(r.text);
	if (r.err)
		json_decref(root);
	else
		*out = root;
	return r.err;
}
