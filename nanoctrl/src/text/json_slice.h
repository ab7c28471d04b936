/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values inside a JSON text as pieces of that text: a piece keeps integers of any size, and floats,
 * as they were written. For texts that a parser has found to be well-formed; a malformed one ends a
 * walk early and is never read beyond its end.
 */
#ifndef NANOCTRL_JSON_SLICE_H
#define NANOCTRL_JSON_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_slice {
	const char *at; /* NULL: there is none */
	size_t len;
};

/* Whether brackets nest deeper than max; for any text. */
bool json_too_deep(const char *text, size_t len, unsigned max);

/*
 * Whether all of the text is an object or an array, no deeper than max, of what next to all bodies
 * are made of: strings of ASCII without escapes, integers of up to 18 digits, the words. Then it is
 * well-formed, and no parser need look at it. What is not plain may be well-formed, too.
 */
bool json_is_plain(const char *text, size_t len, unsigned max);

/* All of a plain text but the blanks around it: what json_first() would look for. */
struct json_slice json_of_plain(const char *text, size_t len);

/* The members of an object, or the elements of an array, one after the other. */
struct json_walk {
	const char *at, *end;
	bool object;
};

/* False when the value is neither. */
bool json_walk_init(struct json_walk *w, struct json_slice value);

/* key is the member's name with its quotes, and has no text in an array. False at the end. */
bool json_walk_next(struct json_walk *w, struct json_slice *key, struct json_slice *value);

/* The first value of a text, without blanks around it. */
struct json_slice json_first(const char *text, size_t len);

/* A string without quotes and escapes, in out (room for value.len bytes and a NUL); its length, or
 * -1 when the value is no string. */
long json_unquote(struct json_slice value, char *out);

/* Whether the value is these bytes: "null", "true". */
bool json_is(struct json_slice value, const char *literal);

/* An integer from 0 to max without sign, fraction or exponent. */
bool json_u64(struct json_slice value, uint64_t max, uint64_t *out);

/* Copies the value without the blanks between its tokens, NUL-terminated; out has room for
 * value.len
 * + 1. Returns its length. */
size_t json_compact(struct json_slice value, char *out);

#endif
