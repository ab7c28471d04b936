/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/yaml/arena.h"
#include "cli/options/quantity.h"
#include "cli/output/quote.h"
#include "cli/options/setting.h"

bool cli_setting_is_list(const struct cli_setting *s)
{
	return s->type == CLI_TYPE_STRINGS || s->type == CLI_TYPE_SIZES ||
	       s->type == CLI_TYPE_ENUMS || s->type == CLI_TYPE_PAIRS;
}

struct cli_setting cli_setting_of_element(const struct cli_setting *s)
{
	struct cli_setting one = *s;

	one.type = s->type == CLI_TYPE_SIZES   ? CLI_TYPE_SIZE
		   : s->type == CLI_TYPE_ENUMS ? CLI_TYPE_ENUM
					       : CLI_TYPE_STRING;
	return one;
}

const struct cli_setting *cli_setting_find(const struct cli_setting *table, const char *name)
{
	for (; table && table->name; table++)
		if (!strcmp(table->name, name))
			return table;
	return NULL;
}

const struct cli_setting *cli_setting_at_path(const struct cli_setting *table, const char *path)
{
	const struct cli_setting *s = NULL;

	while (*path) {
		size_t len = strcspn(path, ".");
		char name[64];

		/* An index of a list is passed over: its elements have one table. */
		if (!s || s->type != CLI_TYPE_LIST || !isdigit((unsigned char)*path)) {
			if (len >= sizeof(name))
				return NULL;
			memcpy(name, path, len);
			name[len] = '\0';
			s = cli_setting_find(s ? s->table : table, name);
			if (!s)
				return NULL;
		}
		path += len + (path[len] == '.');
	}
	return s;
}

static bool has_max(const struct cli_setting *s)
{
	return s->max || s->min < 0;
}

static int64_t max_of(const struct cli_setting *s)
{
	int64_t most = s->type == CLI_TYPE_PORT ? UINT16_MAX : INT64_MAX;

	return has_max(s) ? s->max : most;
}

static size_t n_words(const struct cli_setting *s)
{
	size_t n = 0;

	while (s->words && s->words[n])
		n++;
	return n;
}

static int64_t word_index(const struct cli_setting *s, const char *text)
{
	for (size_t i = 0; i < n_words(s); i++)
		if (!strcmp(s->words[i], text))
			return (int64_t)i;
	return -1;
}

/* --- what a value looks like --- */

struct sentence {
	char *at;
	size_t room;
};

static void say(struct sentence *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(struct sentence *s, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(s->at, s->room, fmt, args);
	va_end(args);
	if (n < 0)
		return;
	if ((size_t)n >= s->room)
		n = s->room ? (int)s->room - 1 : 0;
	s->at += n;
	s->room -= (size_t)n;
}

static void say_words(struct sentence *out, const struct cli_setting *s)
{
	for (size_t i = 0; i < n_words(s); i++)
		say(out, "%s%s", i ? ", " : "", s->words[i]);
}

typedef char *format_fn(char *out, size_t len, int64_t v);

static char *format_ms(char *out, size_t len, int64_t ms)
{
	return cli_duration_format(out, len, ms * (int64_t)SL_NS_PER_MS);
}

static void say_bounds(struct sentence *out, const struct cli_setting *s, format_fn *format)
{
	char text[CLI_QUANTITY_MAX];

	if (s->min)
		say(out, ", at least %s", format(text, sizeof(text), s->min));
	if (has_max(s))
		say(out, ", at most %s", format(text, sizeof(text), s->max));
}

static void say_integer(struct sentence *out, const struct cli_setting *s)
{
	if (has_max(s) && s->min == s->max)
		say(out, "%" PRId64, s->min);
	else if (has_max(s))
		say(out, "an integer from %" PRId64 " to %" PRId64, s->min, s->max);
	else if (s->min)
		say(out, "an integer from %" PRId64 " up", s->min);
	else
		say(out, "an integer that is not negative");
	for (size_t i = 0; i < n_words(s); i++)
		say(out, " or %s", s->words[i]);
}

static void say_string(struct sentence *out, const struct cli_setting *s)
{
	say(out, "a string");
	if (s->min == 1 && !s->max)
		say(out, " that is not empty");
	else if (s->max)
		say(out, " of %" PRId64 " to %" PRId64 " bytes", s->min, s->max);
}

static void say_expected(struct sentence *out, const struct cli_setting *s)
{
	switch (s->type) {
	case CLI_TYPE_FLAG:
		say(out, "true or false");
		break;
	case CLI_TYPE_STRINGS:
		say(out, "a list, each ");
		/* fall through */
	case CLI_TYPE_STRING:
		say_string(out, s);
		break;
	case CLI_TYPE_INT:
		say_integer(out, s);
		break;
	case CLI_TYPE_PORT:
		say(out, "a port from %" PRId64 " to %" PRId64, s->min, max_of(s));
		break;
	case CLI_TYPE_DURATION_MS:
		say(out, "a duration such as 15s or 500ms");
		say_bounds(out, s, format_ms);
		break;
	case CLI_TYPE_DURATION_NS:
		say(out, "a duration such as 15s or 50us");
		say_bounds(out, s, cli_duration_format);
		break;
	case CLI_TYPE_SIZES:
		say(out, "a list, each ");
		/* fall through */
	case CLI_TYPE_SIZE:
		say(out, "a size such as 128KiB");
		say_bounds(out, s, cli_size_format);
		break;
	case CLI_TYPE_ENUMS:
		say(out, "a list, each ");
		/* fall through */
	case CLI_TYPE_ENUM:
		say(out, n_words(s) > 1 ? "one of " : "");
		say_words(out, s);
		break;
	case CLI_TYPE_PAIRS:
		say(out, "a map of strings");
		break;
	case CLI_TYPE_MAP:
		say(out, "a map");
		break;
	case CLI_TYPE_LIST:
		say(out, "a list of maps");
		break;
	case CLI_TYPE_ASSIGN:
		say(out, "KEY.PATH=VALUE");
		break;
	}
}

void cli_setting_expected(const struct cli_setting *s, char *out, size_t len)
{
	struct sentence sentence = { .at = out, .room = len };

	say_expected(&sentence, s);
}

/* --- one value --- */

static int refuse(const struct cli_setting *s, const char *text, char *why, size_t why_len)
{
	struct sentence out = { .at = why, .room = why_len };
	char shown[CLI_QUOTE_MAX];

	say(&out, "expected ");
	say_expected(&out, s);
	say(&out, ", got %s", cli_quote(shown, text));
	return -EINVAL;
}

/* Everything but strings is a number here: flags are 0 and 1, enums their index. */
static int parse_number(const struct cli_setting *s, const char *text, int64_t *out)
{
	int64_t v;
	int ret;

	switch (s->type) {
	case CLI_TYPE_FLAG:
		*out = !strcmp(text, "true");
		return *out || !strcmp(text, "false") ? 0 : -EINVAL;
	case CLI_TYPE_ENUM:
	case CLI_TYPE_ENUMS:
		*out = word_index(s, text);
		return *out < 0 ? -EINVAL : 0;
	case CLI_TYPE_INT:
		v = word_index(s, text);
		if (v >= 0) {
			*out = -1 - v;
			return 0;
		}
		ret = cli_integer_parse(text, &v);
		break;
	case CLI_TYPE_PORT:
		ret = cli_integer_parse(text, &v);
		break;
	case CLI_TYPE_SIZE:
	case CLI_TYPE_SIZES:
		ret = cli_size_parse(text, &v);
		break;
	default:
		ret = cli_duration_parse(text, &v);
		if (!ret && s->type == CLI_TYPE_DURATION_MS) {
			ret = v % (int64_t)SL_NS_PER_MS ? -EINVAL : 0;
			v /= (int64_t)SL_NS_PER_MS;
		}
		break;
	}
	if (ret)
		return ret;
	if (v < s->min || v > max_of(s))
		return -EINVAL;
	*out = v;
	return 0;
}

static int refuse_element(const struct cli_setting *s, const char *text, char *why, size_t why_len)
{
	struct cli_setting one = cli_setting_of_element(s);

	return refuse(&one, text, why, why_len);
}

static int check_string(const struct cli_setting *s, const char *text, char *why, size_t why_len)
{
	int64_t len = (int64_t)strlen(text);
	const char *expected = s->check ? s->check(text) : NULL;

	if (expected) {
		char shown[CLI_QUOTE_MAX];

		snprintf(why, why_len, "expected %s, got %s", expected, cli_quote(shown, text));
		return -EINVAL;
	}
	if (len < s->min || len > max_of(s))
		return refuse_element(s, text, why, why_len);
	return 0;
}

static int store_string(const struct cli_setting *s, const char *text, void *field,
			struct cli_arena *arena, char *why, size_t why_len)
{
	const char *copy;
	int ret = check_string(s, text, why, why_len);

	if (ret)
		return ret;
	copy = cli_arena_strdup(arena, text);
	if (!copy)
		return -ENOMEM;
	memcpy(field, &copy, sizeof(copy));
	return 0;
}

static void store_number(const struct cli_setting *s, int64_t v, void *field)
{
	bool flag = v != 0;
	uint16_t port = (uint16_t)v;
	int word = (int)v;

	if (s->type == CLI_TYPE_FLAG)
		memcpy(field, &flag, sizeof(flag));
	else if (s->type == CLI_TYPE_PORT)
		memcpy(field, &port, sizeof(port));
	else if (s->type == CLI_TYPE_ENUM)
		memcpy(field, &word, sizeof(word));
	else
		memcpy(field, &v, sizeof(v));
}

/* --- lists --- */

static size_t elem_size(const struct cli_setting *s)
{
	switch (s->type) {
	case CLI_TYPE_STRINGS:
		return sizeof(const char *);
	case CLI_TYPE_SIZES:
		return sizeof(uint64_t);
	case CLI_TYPE_ENUMS:
		return sizeof(int);
	default:
		return sizeof(struct cli_pair);
	}
}

static int parse_pair(const struct cli_setting *s, const char *text, struct cli_pair *out,
		      struct cli_arena *arena, char *why, size_t why_len)
{
	const char *equals = strchr(text, '=');
	struct cli_pair pair;
	char shown[CLI_QUOTE_MAX];
	int ret;

	if (!equals || equals == text) {
		snprintf(why, why_len, "expected KEY=VALUE, got %s", cli_quote(shown, text));
		return -EINVAL;
	}
	ret = check_string(s, equals + 1, why, why_len);
	if (ret)
		return ret;
	pair.key = cli_arena_strndup(arena, text, (size_t)(equals - text));
	pair.value = cli_arena_strdup(arena, equals + 1);
	if (!pair.key || !pair.value)
		return -ENOMEM;
	*out = pair;
	return 0;
}

static int parse_element(const struct cli_setting *s, const char *text, void *elem,
			 struct cli_arena *arena, char *why, size_t why_len)
{
	int64_t v;
	int word;

	if (s->type == CLI_TYPE_PAIRS)
		return parse_pair(s, text, elem, arena, why, why_len);
	if (s->type == CLI_TYPE_STRINGS)
		return store_string(s, text, elem, arena, why, why_len);
	if (parse_number(s, text, &v))
		return refuse_element(s, text, why, why_len);
	word = (int)v;
	if (s->type == CLI_TYPE_ENUMS)
		memcpy(elem, &word, sizeof(word));
	else
		memcpy(elem, &v, sizeof(v));
	return 0;
}

/* Enums and the keys of pairs stand once. */
static int check_once(const struct cli_setting *s, const void *elems, size_t n, char *why,
		      size_t why_len)
{
	const struct cli_pair *pairs = elems;
	const int *words = elems;

	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < i; j++) {
			const char *twice = NULL;
			char shown[CLI_QUOTE_MAX];

			if (s->type == CLI_TYPE_ENUMS && words[i] == words[j])
				twice = s->words[words[i]];
			if (s->type == CLI_TYPE_PAIRS && !strcmp(pairs[i].key, pairs[j].key))
				twice = pairs[i].key;
			if (!twice)
				continue;
			snprintf(why, why_len, "expected each once, got %s twice",
				 cli_quote(shown, twice));
			return -EINVAL;
		}
	return 0;
}

int cli_setting_parse_list(const struct cli_setting *s, const char *const *texts, size_t n,
			   void *base, struct cli_arena *arena, char *why, size_t why_len)
{
	size_t size = elem_size(s);
	char *elems = cli_arena_alloc(arena, n, size);
	int ret;

	if (!elems)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		ret = parse_element(s, texts[i], elems + i * size, arena, why, why_len);
		if (ret)
			return ret;
	}
	if (s->type == CLI_TYPE_ENUMS || s->type == CLI_TYPE_PAIRS) {
		ret = check_once(s, elems, n, why, why_len);
		if (ret)
			return ret;
	}
	memcpy((char *)base + s->at, &elems, sizeof(elems));
	memcpy((char *)base + s->n_at, &n, sizeof(n));
	return 0;
}

static int parse_commas(const struct cli_setting *s, const char *text, void *base,
			struct cli_arena *arena, char *why, size_t why_len)
{
	const char **texts;
	size_t n = 0;

	texts = cli_setting_split(arena, text, &n);
	if (!texts)
		return -ENOMEM;
	return cli_setting_parse_list(s, texts, n, base, arena, why, why_len);
}

const char **cli_setting_split(struct cli_arena *arena, const char *text, size_t *n)
{
	const char **texts;
	size_t count = 1;

	for (const char *c = text; *c; c++)
		count += *c == ',';
	texts = cli_arena_alloc(arena, count, sizeof(*texts));
	if (!texts)
		return NULL;
	*n = 0;
	if (!*text)
		return texts;
	for (size_t i = 0; i < count; i++) {
		size_t len = strcspn(text, ",");

		texts[i] = cli_arena_strndup(arena, text, len);
		if (!texts[i])
			return NULL;
		text += len + 1;
	}
	*n = count;
	return texts;
}

int cli_setting_parse(const struct cli_setting *s, const char *text, void *base,
		      struct cli_arena *arena, char *why, size_t why_len)
{
	void *field = (char *)base + s->at;
	int64_t v;

	assert(s->type != CLI_TYPE_MAP && s->type != CLI_TYPE_LIST && s->type != CLI_TYPE_ASSIGN);
	if (cli_setting_is_list(s))
		return parse_commas(s, text, base, arena, why, why_len);
	if (s->type == CLI_TYPE_STRING)
		return store_string(s, text, field, arena, why, why_len);
	if (parse_number(s, text, &v))
		return refuse(s, text, why, why_len);
	store_number(s, v, field);
	return 0;
}
