/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "cli/yaml/arena.h"
#include "cli/options/nearest.h"
#include "cli/options/quantity.h"
#include "cli/output/quote.h"
#include "cli/options/setting.h"
#include "cli/output/utf8.h"

enum polling { BUSY, ADAPTIVE, EVENT };
static const char *const pollings[] = { "busy", "adaptive", "event", NULL };
static const char *const autos[] = { "auto", NULL };

struct values {
	bool flag;
	const char *text;
	int64_t number, index, ms, ns;
	uint16_t port;
	uint64_t bytes;
	enum polling polling;
	const char *const *texts;
	size_t n_texts;
	const uint64_t *sizes;
	size_t n_sizes;
	const int *words;
	size_t n_words;
	const struct cli_pair *pairs;
	size_t n_pairs;
};

static const struct cli_setting settings[] = {
	CLI_FLAG(struct values, flag, "flag", .help = ""),
	CLI_STRING(struct values, text, "text", .min = 1, .max = 8),
	CLI_INT(struct values, number, "number", .min = -5, .max = 64),
	CLI_INT(struct values, index, "index", .words = autos),
	CLI_DURATION_MS(struct values, ms, "ms", .min = 10, .max = 3600000),
	CLI_DURATION_NS(struct values, ns, "ns", .help = ""),
	CLI_PORT(struct values, port, "port", .help = ""),
	CLI_SIZE(struct values, bytes, "size", .max = 1 << 20),
	CLI_ENUM(struct values, polling, "polling", pollings, .help = ""),
	CLI_STRINGS(struct values, texts, n_texts, "texts", .help = ""),
	CLI_SIZES(struct values, sizes, n_sizes, "sizes", .help = ""),
	CLI_ENUMS(struct values, words, n_words, "words", pollings, .help = ""),
	CLI_PAIRS(struct values, pairs, n_pairs, "pairs", .help = ""),
	CLI_END,
};

struct fixture {
	struct cli_arena *arena;
	struct values v;
	char why[512];
};

static int setup(void **state)
{
	static struct fixture f;

	f = (struct fixture){ .arena = cli_arena_create() };
	*state = &f;
	return f.arena ? 0 : -1;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	cli_arena_destroy(f->arena);
	return 0;
}

static int parse(struct fixture *f, const char *name, const char *text)
{
	return cli_setting_parse(cli_setting_find(settings, name), text, &f->v, f->arena, f->why,
				 sizeof(f->why));
}

static void assert_refused(struct fixture *f, const char *name, const char *text, const char *why)
{
	assert_int_equal(parse(f, name, text), -EINVAL);
	assert_string_equal(f->why, why);
}

static void parse__of_good_texts_fills_the_fields(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(parse(f, "flag", "true"), 0);
	assert_int_equal(parse(f, "text", "abc"), 0);
	assert_int_equal(parse(f, "number", "-5"), 0);
	assert_int_equal(parse(f, "ms", "1.5s"), 0);
	assert_int_equal(parse(f, "ns", "50us"), 0);
	assert_int_equal(parse(f, "port", "65535"), 0);
	assert_int_equal(parse(f, "size", "128KiB"), 0);
	assert_int_equal(parse(f, "polling", "event"), 0);
	assert_true(f->v.flag);
	assert_string_equal(f->v.text, "abc");
	assert_int_equal(f->v.number, -5);
	assert_int_equal(f->v.ms, 1500);
	assert_int_equal(f->v.ns, 50000);
	assert_int_equal(f->v.port, 65535);
	assert_int_equal(f->v.bytes, 131072);
	assert_int_equal(f->v.polling, EVENT);
}

static void parse__of_a_word_for_an_integer_is_below_zero(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(parse(f, "index", "auto"), 0);
	assert_int_equal(f->v.index, -1);
	assert_int_equal(parse(f, "index", "3"), 0);
	assert_int_equal(f->v.index, 3);
	assert_refused(f, "index", "-1",
		       "expected an integer that is not negative or auto, got \"-1\"");
}

static void parse__of_bad_texts_says_what_was_expected(void **state)
{
	struct fixture *f = *state;

	assert_refused(f, "flag", "yes", "expected true or false, got \"yes\"");
	assert_refused(f, "text", "", "expected a string of 1 to 8 bytes, got \"\"");
	assert_refused(f, "number", "65", "expected an integer from -5 to 64, got \"65\"");
	assert_refused(f, "number", "1x", "expected an integer from -5 to 64, got \"1x\"");
	assert_refused(f, "port", "65536", "expected a port from 0 to 65535, got \"65536\"");
	assert_refused(
		f, "ms", "9ms",
		"expected a duration such as 15s or 500ms, at least 10ms, at most 1h, got \"9ms\"");
	assert_refused(f, "size", "2MiB",
		       "expected a size such as 128KiB, at most 1MiB, got \"2MiB\"");
	assert_refused(f, "size", "-1", "expected a size such as 128KiB, at most 1MiB, got \"-1\"");
	assert_refused(f, "polling", "lazy", "expected one of busy, adaptive, event, got \"lazy\"");
}

static void parse__of_a_refused_text_leaves_the_field(void **state)
{
	struct fixture *f = *state;

	f->v.number = 7;
	assert_int_equal(parse(f, "number", "1000"), -EINVAL);
	assert_int_equal(f->v.number, 7);
}

static void parse__of_a_list_splits_at_commas(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(parse(f, "sizes", "1KiB,64MiB"), 0);
	assert_int_equal(f->v.n_sizes, 2);
	assert_int_equal(f->v.sizes[1], 64 << 20);
	assert_int_equal(parse(f, "words", "event,busy"), 0);
	assert_int_equal(f->v.n_words, 2);
	assert_int_equal(f->v.words[0], EVENT);
	assert_int_equal(parse(f, "texts", ""), 0);
	assert_int_equal(f->v.n_texts, 0);
	assert_refused(f, "sizes", "1KiB,", "expected a size such as 128KiB, got \"\"");
	assert_refused(f, "words", "busy,busy", "expected each once, got \"busy\" twice");
}

static void parse__of_pairs_wants_a_key(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(parse(f, "pairs", "role=prefill,zone=a=b"), 0);
	assert_string_equal(f->v.pairs[0].key, "role");
	assert_string_equal(f->v.pairs[1].value, "a=b");
	assert_refused(f, "pairs", "role", "expected KEY=VALUE, got \"role\"");
	assert_refused(f, "pairs", "=x", "expected KEY=VALUE, got \"=x\"");
	assert_refused(f, "pairs", "a=1,a=2", "expected each once, got \"a\" twice");
}

static void duration__exact_or_refused(void **state)
{
	int64_t ns;

	(void)state;
	assert_int_equal(cli_duration_parse("2", &ns), 0);
	assert_int_equal(ns, 2000000000);
	assert_int_equal(cli_duration_parse("0.25h", &ns), 0);
	assert_int_equal(ns, 900 * INT64_C(1000000000));
	for (const char *const *bad =
		     (const char *const[]){ "", "s", ".5s", "1.s", "1.5ns", "1 s", "1S", "+1s",
					    "-1s", "1.0000001s", "0x1s", "99999999999999999999s",
					    "200000d", NULL };
	     *bad; bad++)
		assert_int_equal(cli_duration_parse(*bad, &ns), -EINVAL);
}

static void size__exact_or_refused(void **state)
{
	int64_t bytes;

	(void)state;
	assert_int_equal(cli_size_parse("1.5KiB", &bytes), 0);
	assert_int_equal(bytes, 1536);
	assert_int_equal(cli_size_parse("8388607TiB", &bytes), 0);
	for (const char *const *bad =
		     (const char *const[]){ "1KB", "1K", "1kib", "1.3B", "8388608TiB",
					    "9223372036854775808", NULL };
	     *bad; bad++)
		assert_int_equal(cli_size_parse(*bad, &bytes), -EINVAL);
}

static void format__takes_the_largest_exact_unit(void **state)
{
	char text[CLI_QUANTITY_MAX];

	(void)state;
	assert_string_equal(cli_size_format(text, sizeof(text), 131072), "128KiB");
	assert_string_equal(cli_size_format(text, sizeof(text), 1000), "1000B");
	assert_string_equal(cli_size_format(text, sizeof(text), 0), "0B");
	assert_string_equal(cli_duration_format(text, sizeof(text), 1500000000), "1500ms");
	assert_string_equal(cli_duration_format(text, sizeof(text), 3600 * INT64_C(1000000000)),
			    "1h");
}

static const char *nearest(const char *word, const char *const *offers)
{
	struct cli_nearest n = { .word = word };

	for (; *offers; offers++)
		cli_nearest_offer(&n, *offers);
	return n.best;
}

static void nearest__finds_slips_and_nothing_else(void **state)
{
	static const char *const offers[] = { "port", "redis-url", "data-dir", "host", NULL };

	(void)state;
	assert_string_equal(nearest("prot", offers), "port");
	assert_string_equal(nearest("redis-ulr", offers), "redis-url");
	assert_string_equal(nearest("datadir", offers), "data-dir");
	assert_null(nearest("verbose", offers));
	assert_null(nearest("", offers));
	assert_null(nearest("x", offers));
}

static void quote__hides_controls_and_cuts(void **state)
{
	char out[CLI_QUOTE_MAX], full[300];

	(void)state;
	assert_string_equal(cli_quote(out, "a\x1b[0m\xff\xc3\xa9\u202e"), "\"a?[0m?\xc3\xa9?\"");
	memset(full, 'x', sizeof(full) - 1);
	full[sizeof(full) - 1] = '\0';
	cli_quote(out, full);
	assert_true(strlen(out) < CLI_QUOTE_MAX);
	assert_string_equal(out + strlen(out) - 5, "x...\"");
}

static void utf8_len__refuses_what_is_no_character(void **state)
{
	(void)state;
	assert_int_equal(cli_utf8_len(""), 0);
	assert_int_equal(cli_utf8_len("\xc3\xa9"), 2);
	assert_int_equal(cli_utf8_len("\xf0\x9f\x98\x80"), 4);
	for (const char *const *bad =
		     (const char *const[]){ "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80",
					    "\xf4\x90\x80\x80", "\xc3", "\xe2\x82", "\x80", "\xff",
					    NULL };
	     *bad; bad++)
		assert_int_equal(cli_utf8_len(*bad), 0);
}

static void at_path__passes_over_indexes(void **state)
{
	static const struct cli_setting inner[] = { { .name = "to" }, CLI_END };
	static const struct cli_setting outer[] = {
		{ .name = "links", .type = CLI_TYPE_LIST, .table = inner },
		{ .name = "map", .type = CLI_TYPE_MAP, .table = inner },
		CLI_END,
	};

	(void)state;
	assert_ptr_equal(cli_setting_at_path(outer, "links.0.to"), &inner[0]);
	assert_ptr_equal(cli_setting_at_path(outer, "map.to"), &inner[0]);
	assert_null(cli_setting_at_path(outer, "map.0.to"));
	assert_null(cli_setting_at_path(outer, "links.0.from"));
	assert_null(cli_setting_at_path(outer, "nothing"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parse__of_good_texts_fills_the_fields),
		cmocka_unit_test(parse__of_a_word_for_an_integer_is_below_zero),
		cmocka_unit_test(parse__of_bad_texts_says_what_was_expected),
		cmocka_unit_test(parse__of_a_refused_text_leaves_the_field),
		cmocka_unit_test(parse__of_a_list_splits_at_commas),
		cmocka_unit_test(parse__of_pairs_wants_a_key),
		cmocka_unit_test(duration__exact_or_refused),
		cmocka_unit_test(size__exact_or_refused),
		cmocka_unit_test(format__takes_the_largest_exact_unit),
		cmocka_unit_test(nearest__finds_slips_and_nothing_else),
		cmocka_unit_test(quote__hides_controls_and_cuts),
		cmocka_unit_test(utf8_len__refuses_what_is_no_character),
		cmocka_unit_test(at_path__passes_over_indexes),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
