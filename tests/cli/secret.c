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

#include "cli/options/secret.h"

static char dir[] = "/tmp/slime-secret-XXXXXX";
static char path[64];

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/token", dir);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(dir);
}

static void write_file(const char *text, mode_t mode)
{
	int fd;

	unlink(path); /* one that was read-only cannot be written again */
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void read__is_the_first_line_without_its_end(void **state)
{
	static const char *const texts[] = { "word", "word\n", "word\r\n", "word\nanother\n" };
	char out[8];

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		write_file(texts[i], 0600);
		assert_int_equal(cli_secret_read(path, out, sizeof(out)), 0);
		assert_string_equal(out, "word");
	}
	write_file("1234567\n", 0400);
	assert_int_equal(cli_secret_read(path, out, sizeof(out)), 0);
	assert_string_equal(out, "1234567");
}

static void read__of_a_file_that_others_can_use_is_refused(void **state)
{
	static const mode_t modes[] = { 0640, 0604, 0620, 0602, 0644 };
	char out[8];

	(void)state;
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		write_file("word\n", modes[i]);
		assert_int_equal(cli_secret_read(path, out, sizeof(out)), -EPERM);
	}
	assert_non_null(strstr(cli_secret_error(-EPERM), "chmod 600"));
}

static void read__of_nothing_or_too_much_is_refused(void **state)
{
	char out[8];

	(void)state;
	write_file("", 0600);
	assert_int_equal(cli_secret_read(path, out, sizeof(out)), -ENODATA);
	write_file("\nword\n", 0600);
	assert_int_equal(cli_secret_read(path, out, sizeof(out)), -ENODATA);
	write_file("12345678", 0600);
	assert_int_equal(cli_secret_read(path, out, sizeof(out)), -E2BIG);
}

static void read__of_no_file_says_why(void **state)
{
	char out[8];

	(void)state;
	unlink(path);
	assert_int_equal(cli_secret_read(path, out, sizeof(out)), -ENOENT);
	assert_string_equal(cli_secret_error(-ENOENT), strerror(ENOENT));
}

/* One that nobody has written waits for nobody. */
static void read__of_a_fifo_without_a_writer_is_enodata(void **state)
{
	char out[8];

	(void)state;
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(cli_secret_read(path, out, sizeof(out)), -ENODATA);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read__is_the_first_line_without_its_end),
		cmocka_unit_test(read__of_a_file_that_others_can_use_is_refused),
		cmocka_unit_test(read__of_nothing_or_too_much_is_refused),
		cmocka_unit_test(read__of_no_file_says_why),
		cmocka_unit_test(read__of_a_fifo_without_a_writer_is_enodata),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
