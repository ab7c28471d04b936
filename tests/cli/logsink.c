/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/log.h"
#include "cli/logsink.h"

static char dir[] = "/tmp/slime-log-XXXXXX";
static char file[64], rotated[64];

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(file, sizeof(file), "%s/log", dir);
	snprintf(rotated, sizeof(rotated), "%s/log.1", dir);
	return 0;
}

static int clean(void **state)
{
	(void)state;
	cli_log_close();
	unlink(file);
	unlink(rotated);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	return rmdir(dir);
}

static char *read_file(const char *name)
{
	static char text[65536];
	FILE *f = fopen(name, "r");

	assert_non_null(f);
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	fclose(f);
	return text;
}

static void open_as(int format)
{
	struct cli_log_attr attr = { .file = file, .format = format, .level = SLIME_LOG_INFO };

	assert_int_equal(cli_log_open(&attr), 0);
}

static void text__has_time_level_and_part(void **state)
{
	char *text;

	(void)state;
	open_as(CLI_LOG_TEXT);
	sl_info("shm", "hello %d", 1);
	sl_debug("shm", "not this");
	text = read_file(file);
	assert_int_equal(text[4], '-');
	assert_int_equal(text[10], 'T');
	assert_string_equal(text + 23, "Z info shm: hello 1\n");
}

static void json__escapes_what_is_foreign(void **state)
{
	char *text;

	(void)state;
	open_as(CLI_LOG_JSON);
	sl_warn("http", "quote \" slash \\ bad \xff good \xc3\xa9");
	text = read_file(file);
	assert_int_equal(strncmp(text, "{\"time\":\"", 9), 0);
	assert_string_equal(text + 33,
			    "\",\"level\":\"warn\",\"part\":\"http\",\"message\":\"quote \\\" "
			    "slash \\\\ bad ? good \xc3\xa9\"}\n");
}

static void json__about_a_request_has_its_id(void **state)
{
	char *text;

	(void)state;
	open_as(CLI_LOG_JSON);
	sl_log_set_request("a\"1");
	sl_info("http", "about it");
	sl_log_set_request(NULL);
	text = read_file(file);
	assert_string_equal(text + 33, "\",\"level\":\"info\",\"part\":\"http\",\"request_id\":"
				       "\"a\\\"1\",\"message\":\"about it\"}\n");
}

static void json__of_the_longest_line_is_whole(void **state)
{
	char line[4 * SL_LOG_LINE_MAX];
	char *text;

	(void)state;
	memset(line, '"', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\0';
	open_as(CLI_LOG_JSON);
	sl_warn("x", "%s", line);
	text = read_file(file);
	assert_string_equal(text + strlen(text) - 5, "\\\"\"}\n");
}

static void reopen__follows_a_rotation(void **state)
{
	(void)state;
	open_as(CLI_LOG_TEXT);
	sl_info("x", "one");
	assert_int_equal(rename(file, rotated), 0);
	sl_info("x", "two");
	assert_int_equal(cli_log_reopen(), 0);
	sl_info("x", "three");
	assert_non_null(strstr(read_file(rotated), "two"));
	assert_non_null(strstr(read_file(file), "three"));
	assert_null(strstr(read_file(file), "two"));
}

static void open__of_what_cannot_be_opened_changes_nothing(void **state)
{
	struct cli_log_attr attr = { .file = "/nonexistent/log" };

	(void)state;
	open_as(CLI_LOG_TEXT);
	assert_int_equal(cli_log_open(&attr), -ENOENT);
	sl_info("x", "still here");
	assert_non_null(strstr(read_file(file), "still here"));
}

static void open__of_a_fifo_waits_for_no_reader(void **state)
{
	struct cli_log_attr attr = { .file = file, .level = SLIME_LOG_INFO };
	char line[256] = "";
	int fd;

	(void)state;
	assert_int_equal(mkfifo(file, 0600), 0);
	assert_int_equal(cli_log_open(&attr), -ENXIO);
	assert_non_null(strstr(cli_log_error(-ENXIO), "a FIFO that nobody reads"));
	fd = open(file, O_RDONLY | O_NONBLOCK);
	assert_int_equal(cli_log_open(&attr), 0);
	assert_int_equal(cli_log_reopen(), 0);
	sl_info("x", "read");
	assert_true(read(fd, line, sizeof(line) - 1) > 0);
	assert_non_null(strstr(line, "read"));
	/* Nor for one that reads nothing any more. */
	for (int i = 0; i < 20000; i++)
		sl_info("x", "not read");
	close(fd);
	assert_int_equal(cli_log_reopen(), -ENXIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(text__has_time_level_and_part, clean),
		cmocka_unit_test_teardown(json__escapes_what_is_foreign, clean),
		cmocka_unit_test_teardown(json__about_a_request_has_its_id, clean),
		cmocka_unit_test_teardown(json__of_the_longest_line_is_whole, clean),
		cmocka_unit_test_teardown(reopen__follows_a_rotation, clean),
		cmocka_unit_test_teardown(open__of_what_cannot_be_opened_changes_nothing, clean),
		cmocka_unit_test_teardown(open__of_a_fifo_waits_for_no_reader, clean),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
