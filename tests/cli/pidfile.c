/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "cli/process/pidfile.h"

static char dir[] = "/tmp/slime-pidfile-XXXXXX";
static char path[64];

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/pid", dir);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(dir);
}

static int remove_file(void **state)
{
	(void)state;
	unlink(path);
	return 0;
}

static void create__names_the_process_and_destroy_removes_it(void **state)
{
	struct cli_pidfile_info info;
	struct cli_pidfile p;

	(void)state;
	assert_int_equal(cli_pidfile_read(path, &info), CLI_PIDFILE_FREE);
	assert_int_equal(cli_pidfile_create(&p, path), 0);
	assert_int_equal(cli_pidfile_read(path, &info), 0);
	assert_int_equal(info.process.pid, getpid());
	assert_string_equal(info.note, "");
	assert_true(cli_process_alive(&info.process));
	cli_pidfile_destroy(&p);
	assert_int_equal(access(path, F_OK), -1);
}

static void create__of_a_held_file_is_eexist(void **state)
{
	struct cli_pidfile p, other;

	(void)state;
	assert_int_equal(cli_pidfile_create(&p, path), 0);
	assert_int_equal(cli_pidfile_create(&other, path), -EEXIST);
	cli_pidfile_destroy(&p);
	assert_int_equal(cli_pidfile_create(&other, path), 0);
	cli_pidfile_destroy(&other);
}

static void set_note__is_read_by_others(void **state)
{
	struct cli_pidfile_info info;
	char longest[CLI_PIDFILE_NOTE_MAX + 1];
	struct cli_pidfile p;

	(void)state;
	memset(longest, 'x', sizeof(longest));
	longest[CLI_PIDFILE_NOTE_MAX] = '\0';
	assert_int_equal(cli_pidfile_create(&p, path), 0);
	assert_int_equal(cli_pidfile_set_note(&p, longest), -EMSGSIZE);
	assert_int_equal(cli_pidfile_set_note(&p, "a\nb"), -EINVAL);
	longest[CLI_PIDFILE_NOTE_MAX - 1] = '\0';
	assert_int_equal(cli_pidfile_set_note(&p, longest), 0);
	assert_int_equal(cli_pidfile_read(path, &info), 0);
	assert_string_equal(info.note, longest);
	assert_int_equal(cli_pidfile_set_note(&p, "http://127.0.0.1:3000"), 0);
	assert_int_equal(cli_pidfile_read(path, &info), 0);
	assert_string_equal(info.note, "http://127.0.0.1:3000");
	cli_pidfile_destroy(&p);
}

/* As `kill $(cat FILE)` has them, also after a longer note. */
static void file__has_no_number_but_the_pid_and_that_first(void **state)
{
	struct cli_pidfile p;
	char word[256];
	int n = 0;
	FILE *file;

	(void)state;
	assert_int_equal(cli_pidfile_create(&p, path), 0);
	assert_int_equal(cli_pidfile_set_note(&p, "a 1 longer note"), 0);
	assert_int_equal(cli_pidfile_set_note(&p, "note"), 0);
	file = fopen(path, "r");
	assert_non_null(file);
	while (fscanf(file, "%255s", word) == 1) {
		char *end;
		long number = strtol(word, &end, 10);

		if (n++ == 0)
			assert_int_equal(number, getpid());
		else
			assert_true(end == word);
	}
	assert_int_equal(n, 3);
	assert_int_equal(fgetc(file), EOF);
	fclose(file);
	cli_pidfile_destroy(&p);
}

/* A child that holds the file, ends by SIGKILL and leaves it behind. */
static void leave_behind(void)
{
	int ready[2];
	pid_t child;
	char c;

	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		struct cli_pidfile p;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (!cli_pidfile_create(&p, path) && write(ready[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void read__of_what_a_killed_process_left_is_free(void **state)
{
	struct cli_pidfile_info info;
	struct cli_pidfile p;

	(void)state;
	leave_behind();
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(cli_pidfile_read(path, &info), CLI_PIDFILE_FREE);
	assert_int_equal(cli_pidfile_create(&p, path), 0);
	assert_int_equal(cli_pidfile_read(path, &info), 0);
	assert_int_equal(info.process.pid, getpid());
	cli_pidfile_destroy(&p);
}

static void assert_read(const char *text, int expected)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct cli_pidfile_info info;
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(cli_pidfile_read(path, &info), expected);
	close(fd);
	unlink(path);
}

static void read__of_a_strange_file_is_refused(void **state)
{
	(void)state;
	assert_read("", -EAGAIN);
	assert_read("1234\n", -EPROTO);
	assert_read("1", -EPROTO);
	assert_read("1\nslime-pid/2:", -EPROTO);
	assert_read("1\nslime-pid/2:x:y\nnote\n", -EPROTO);
	assert_read("x\nslime-pid/2:2:boot\nnote\n", -EPROTO);
	assert_read("1\nslime-pid/2:2:boot\nnote without end", -EPROTO);
	assert_read("1\nslime-pid/2:2:boot\nnote\n", 0);
}

static void create__does_not_follow_a_link(void **state)
{
	struct cli_pidfile p;

	(void)state;
	assert_int_equal(symlink("/dev/null", path), 0);
	assert_int_equal(cli_pidfile_create(&p, path), -ELOOP);
	unlink(path);
}

static void destroy__leaves_another_owners_file(void **state)
{
	struct cli_pidfile p, next;

	(void)state;
	assert_int_equal(cli_pidfile_create(&p, path), 0);
	/* Somebody removed the file by hand and another process started. */
	unlink(path);
	assert_int_equal(cli_pidfile_create(&next, path), 0);
	cli_pidfile_destroy(&p);
	assert_int_equal(access(path, F_OK), 0);
	cli_pidfile_destroy(&next);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(create__names_the_process_and_destroy_removes_it,
					  remove_file),
		cmocka_unit_test_teardown(create__of_a_held_file_is_eexist, remove_file),
		cmocka_unit_test_teardown(set_note__is_read_by_others, remove_file),
		cmocka_unit_test_teardown(file__has_no_number_but_the_pid_and_that_first,
					  remove_file),
		cmocka_unit_test_teardown(read__of_what_a_killed_process_left_is_free, remove_file),
		cmocka_unit_test_teardown(read__of_a_strange_file_is_refused, remove_file),
		cmocka_unit_test_teardown(create__does_not_follow_a_link, remove_file),
		cmocka_unit_test_teardown(destroy__leaves_another_owners_file, remove_file),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
