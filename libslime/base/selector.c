/* SPDX-License-Identifier: Apache-2.0 */
#include "base/selector.h"

#include <stdbool.h>
#include <string.h>

struct term {
	const char *key, *value;
	size_t key_len, value_len;
};

/* False at the end. */
static bool next_term(const char **at, struct term *out)
{
	size_t len = strcspn(*at, ",");
	size_t key_len = strcspn(*at, "=,");

	if (!**at)
		return false;
	out->key = *at;
	out->key_len = key_len;
	out->value = *at + key_len + (key_len < len);
	out->value_len = len - key_len - (key_len < len);
	*at += len + ((*at)[len] == ',');
	return true;
}

static const char *slip_of(const struct term *t)
{
	char first = t->value_len ? t->value[0] : 'x';
	char last = t->value_len ? t->value[t->value_len - 1] : 'x';

	if (first == '=' || first == '~')
		return "expected a single = as the only operator";
	if (first == ' ' || last == ' ' ||
	    (t->key_len && (t->key[0] == ' ' || t->key[t->key_len - 1] == ' ')))
		return "expected no blanks around = or around a value";
	if (first == '"' || last == '"' || first == '\'' || last == '\'')
		return "expected no quotes around a value";
	return NULL;
}

static bool is_there_twice(const char *rest, const struct term *t)
{
	struct term other;

	while (next_term(&rest, &other))
		if (other.key_len == t->key_len && !memcmp(other.key, t->key, t->key_len))
			return true;
	return false;
}

const char *sl_selector_slip(const char *selector)
{
	struct term t;

	while (next_term(&selector, &t)) {
		const char *slip = slip_of(&t);

		if (slip)
			return slip;
		if (is_there_twice(selector, &t))
			return "expected each label once: no agent has two values of one";
	}
	return NULL;
}
