/* SPDX-License-Identifier: Apache-2.0 */
#include "http/route.h"

#include <stdbool.h>
#include <string.h>

/* The length of the segment at path, which ends at '/' or at the end. */
static size_t segment_len(const char *path, size_t len)
{
	const char *slash = memchr(path, '/', len);

	return slash ? (size_t)(slash - path) : len;
}

static bool is_param(const char *segment, size_t len)
{
	return len > 2 && segment[0] == '{' && segment[len - 1] == '}';
}

/* The text before the first parameter has to be in the path, too. That is rarely so, therefore it
 * is compared first; most often the letter behind the slash differs. */
static bool begins_alike(const char *pattern, const char *path, size_t len)
{
	size_t i = 0;

	if (len > 1 && *pattern && pattern[1] != path[1] && pattern[1] != '{')
		return false;

	while (i < len && pattern[i] && pattern[i] != '{' && pattern[i] == path[i])
		i++;
	return pattern[i] == '{' || (i == len && !pattern[i]);
}

/* Whether path matches the route; fills the parameters. */
static bool matches(const char *pattern, const char *path, size_t len, struct route_match *m)
{
	size_t left;

	if (!begins_alike(pattern, path, len))
		return false;
	left = strlen(pattern);
	m->n_params = 0;
	for (;;) {
		size_t p = segment_len(pattern, left);
		size_t s = segment_len(path, len);

		if (is_param(pattern, p)) {
			if (!s || m->n_params == ROUTE_PARAMS_MAX)
				return false;
			m->params[m->n_params++] =
				(struct route_param){ pattern + 1, path, (unsigned)p - 2,
						      (unsigned)s };
		} else if (p != s || memcmp(pattern, path, p) != 0) {
			return false;
		}
		pattern += p, left -= p;
		path += s, len -= s;
		if (!left || !len)
			return left == len;
		pattern++, left--;
		path++, len--;
	}
}

/* Of two patterns that match one path: does a have a literal segment where b first has a parameter?
 */
static bool more_literal(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *b == '{' && *a != '{';
}

void route_find(const struct route *table, size_t n, enum http_method method, const char *path,
		size_t len, struct route_match *out)
{
	enum http_method wanted = method == HTTP_HEAD ? HTTP_GET : method;
	struct route_match m;
	const char *best = NULL;

	memset(out, 0, sizeof(*out));
	for (size_t i = 0; i < n; i++) {
		if (!matches(table[i].path, path, len, &m))
			continue;
		if (best && strcmp(best, table[i].path) != 0) {
			if (!more_literal(table[i].path, best))
				continue;
			memset(out, 0, sizeof(*out));
		}
		best = table[i].path;
		out->allowed |= 1u << table[i].method;
		if (table[i].method != wanted)
			continue;
		m.allowed = out->allowed;
		m.route = &table[i];
		*out = m;
	}
	if (out->allowed & 1u << HTTP_GET)
		out->allowed |= 1u << HTTP_HEAD;
}
