/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "cli/output/progress.h"
#include "cli/output/table.h"

static const struct cli_column columns[] = {
	{ "peer", "peer", false },
	{ "size", "size_bytes", true },
	{ NULL, "only_csv", false },
	{ "only here", NULL, false },
};

static struct cli_table *t;
static char *out;

static int setup(void **state)
{
	(void)state;
	return cli_table_create(&t, columns, 4);
}

static int teardown(void **state)
{
	(void)state;
	cli_table_destroy(t);
	free(out);
	out = NULL;
	return 0;
}

static const char *print(int style)
{
	size_t len;
	FILE *to;

	free(out);
	to = open_memstream(&out, &len);
	assert_non_null(to);
	assert_int_equal(style < 0 ? cli_table_print_csv(t, to)
				   : cli_table_print(t, (enum cli_table_style)style, to),
			 0);
	fclose(to);
	return out;
}

static void fill(void)
{
	cli_table_cell(t, "node-a");
	cli_table_cell(t, "%d", 1024);
	cli_table_cell(t, "x");
	cli_table_cell(t, "y");
	cli_table_cell(t, "n\xc3\xb6");
	cli_table_cell(t, "%d", 8);
}

static void print__aligns_numbers_right_and_fills_the_last_row(void **state)
{
	(void)state;
	fill();
	assert_int_equal(cli_table_n_rows(t), 2);
	assert_string_equal(print(CLI_TABLE_ASCII), "peer    size  only here\n"
						    "------  ----  ---------\n"
						    "node-a  1024  y\n"
						    "n\xc3\xb6         8  \n");
	assert_non_null(strstr(print(CLI_TABLE_UTF8), "\u2500\u2500\u2500\u2500\u2500\u2500  "));
}

static void print__of_no_rows_is_the_head(void **state)
{
	(void)state;
	assert_string_equal(print(CLI_TABLE_ASCII),
			    "peer  size  only here\n----  ----  ---------\n");
	assert_string_equal(print(-1), "peer,size_bytes,only_csv\n");
}

static void csv__quotes_what_needs_it(void **state)
{
	(void)state;
	cli_table_cell(t, "a,b");
	cli_table_cell(t, "say \"x\"");
	assert_string_equal(print(-1), "peer,size_bytes,only_csv\n\"a,b\",\"say \"\"x\"\"\",\n");
}

static void cell__of_control_characters_drives_no_terminal(void **state)
{
	(void)state;
	cli_table_cell(t, "a\x1b[2J\n\xff\xc2\x9b\u202e");
	assert_string_equal(print(-1), "peer,size_bytes,only_csv\na?[2J???????,,\n");
}

static void style__follows_the_locale(void **state)
{
	(void)state;
	setenv("LC_ALL", "de_DE.utf8", 1);
	assert_int_equal(cli_table_style_of_locale(), CLI_TABLE_UTF8);
	setenv("LC_ALL", "C", 1);
	assert_int_equal(cli_table_style_of_locale(), CLI_TABLE_ASCII);
	setenv("LC_ALL", "", 1);
	setenv("LC_CTYPE", "en_US.UTF-8", 1);
	assert_int_equal(cli_table_style_of_locale(), CLI_TABLE_UTF8);
}

static void print__to_a_full_disk_says_so(void **state)
{
	FILE *full = fopen("/dev/full", "w");

	(void)state;
	assert_non_null(full);
	fill();
	assert_int_equal(cli_table_print(t, CLI_TABLE_ASCII, full), -ENOSPC);
	fclose(full);
}

static void progress__in_a_pipe_says_nothing(void **state)
{
	struct cli_progress p;
	FILE *to = tmpfile();

	(void)state;
	assert_non_null(to);
	cli_progress_init(&p, to);
	cli_progress_say(&p, "half");
	cli_progress_clear(&p);
	assert_int_equal(ftell(to), 0);
	fclose(to);
}

/* A terminal hands out what it has so far: two writes may take two reads. */
static ssize_t read_fully(int fd, char *to, size_t len)
{
	size_t done = 0;
	ssize_t n = 1;

	while (done < len && n > 0) {
		n = read(fd, to + done, len - done);
		done += n > 0 ? (size_t)n : 0;
	}
	return (ssize_t)done;
}

static void progress__on_a_terminal_is_cut_and_taken_away(void **state)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY), slave;
	char name[64], text[512], longest[300];
	struct cli_progress p;
	ssize_t n;
	FILE *to;

	(void)state;
	if (master < 0 || grantpt(master) || unlockpt(master) ||
	    ptsname_r(master, name, sizeof(name)))
		skip();
	slave = open(name, O_RDWR | O_NOCTTY);
	assert_true(slave >= 0);
	to = fdopen(slave, "w");
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	cli_progress_init(&p, to);
	cli_progress_say(&p, "%s", longest);
	cli_progress_say(&p, "too soon");
	cli_progress_clear(&p);
	n = read_fully(master, text, 4 + 79 + 4);
	assert_int_equal(n, 4 + 79 + 4);
	assert_memory_equal(text, "\r\033[Kxxx", 7);
	assert_memory_equal(text + n - 4, "\r\033[K", 4);
	fclose(to);
	close(master);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(print__aligns_numbers_right_and_fills_the_last_row),
		T(print__of_no_rows_is_the_head),
		T(csv__quotes_what_needs_it),
		T(cell__of_control_characters_drives_no_terminal),
		T(style__follows_the_locale),
		T(print__to_a_full_disk_says_so),
		T(progress__in_a_pipe_says_nothing),
		T(progress__on_a_terminal_is_cut_and_taken_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
