/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that strangers provoke, and what they may hold. */
#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#define BURST	 3
#define INTERVAL 3600000 /* it does not pass by itself */

static unsigned n_allowed(struct sl_log_limit *limit, unsigned n_lines)
{
	unsigned n = 0;

	for (unsigned i = 0; i < n_lines; i++) {
		uint32_t held_back;

		n += sl_log_allow(limit, &held_back);
		assert_int_equal(held_back, 0);
	}
	return n;
}

static void end_interval(struct sl_log_limit *limit)
{
	limit->next_ns = 0;
}

static void log_allow__lets_a_burst_pass_in_an_interval(void **state)
{
	struct sl_log_limit limit = SL_LOG_LIMIT_INIT(BURST, INTERVAL);

	(void)state;
	assert_int_equal(n_allowed(&limit, 10 * BURST), BURST);
}

static void log_allow__says_in_the_next_interval_how_many_were_held_back(void **state)
{
	struct sl_log_limit limit = SL_LOG_LIMIT_INIT(BURST, INTERVAL);
	uint32_t held_back;

	(void)state;
	n_allowed(&limit, BURST + 5);
	end_interval(&limit);
	assert_true(sl_log_allow(&limit, &held_back));
	assert_int_equal(held_back, 5);
	/* It was the first of this interval's burst. */
	assert_int_equal(n_allowed(&limit, 10), BURST - 1);
}

static void log_allow__after_a_silence_has_nothing_to_tell(void **state)
{
	struct sl_log_limit limit = SL_LOG_LIMIT_INIT(BURST, INTERVAL);

	(void)state;
	assert_int_equal(n_allowed(&limit, BURST), BURST);
	end_interval(&limit);
	assert_int_equal(n_allowed(&limit, 1), 1);
}

static void keep_line(void *arg, enum slime_log_level level, const char *part, const char *line)
{
	(void)level;
	(void)part;
	strcpy(arg, line);
}

static void log__foreign_bytes_drive_no_terminal_and_forge_no_line(void **state)
{
	char line[SL_LOG_LINE_MAX];
	char what[2 * SL_LOG_LINE_MAX];

	(void)state;
	slime_log_set(keep_line, line, SLIME_LOG_WARN);
	sl_error("test", "a\nb\x1b[2Jc\x7f d\xc2\x9b"
			 "31m e\x9b f\xff\xfe g\xc3\xa9 h\xed\xa0\x80 i\xc3");
	assert_string_equal(line, "a?b?[2Jc? d??31m e? f?? g\xc3\xa9 h??? i?");
	/* What turns the text around it, and other ends of a line; others like them stay. */
	sl_error("test",
		 "\u061c \u200e\u200f \u2028\u202e \u2066\u2069 \u061b\u2027\u202f\u206a\u2000");
	assert_string_equal(line, "?? ?????? ?????? ?????? \u061b\u2027\u202f\u206a\u2000");

	memset(what, 'x', sizeof(what) - 1);
	what[sizeof(what) - 1] = '\0';
	what[SL_LOG_LINE_MAX - 2] = '\xc3'; /* its second half does not fit */
	what[SL_LOG_LINE_MAX - 1] = '\xa9';
	sl_error("test", "%s", what);
	assert_int_equal(strlen(line), SL_LOG_LINE_MAX - 1);
	assert_int_equal(line[SL_LOG_LINE_MAX - 2], '?');
	slime_log_set(NULL, NULL, SLIME_LOG_WARN);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(log_allow__lets_a_burst_pass_in_an_interval),
		cmocka_unit_test(log_allow__says_in_the_next_interval_how_many_were_held_back),
		cmocka_unit_test(log_allow__after_a_silence_has_nothing_to_tell),
		cmocka_unit_test(log__foreign_bytes_drive_no_terminal_and_forge_no_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
