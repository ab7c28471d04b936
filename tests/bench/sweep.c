/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "bench/rpc/results.h"

#define HEADING "size,avg_us,p50_us,p99_us,bw_gb_s\n"
#define NOBODY	65534 /* a user without rights over the files of others */

static struct sweep sweep;

/* Parse a text that may be written to. */
static int parse(const char *text)
{
	char *copy = strdup(text);
	int ret;

	assert_non_null(copy);
	ret = sweep_parse(&sweep, "test.csv", copy, NULL);
	free(copy);
	return ret;
}

static void parse__takes_columns_by_their_names(void **state)
{
	(void)state;
	assert_int_equal(parse("# host a\n#flags\nbw_gb_s,size,max_us,p99_us,p50_us,avg_us\r\n"
			       "1.5,1024,9,4,3,2\n\n0,2048,9,40,30,2e1"),
			 0);
	assert_string_equal(sweep.head, "host a\nflags\n");
	assert_int_equal(sweep.n, 2);
	assert_int_equal(sweep.points[0].size, 1024);
	assert_true(sweep.points[0].avg_us == 2 && sweep.points[0].p50_us == 3);
	assert_true(sweep.points[0].p99_us == 4 && sweep.points[0].bw_gb_s == 1.5);
	assert_true(sweep_at(&sweep, 2048) == &sweep.points[1]);
	assert_null(sweep_at(&sweep, 4096));
}

static void parse__of_both_directions_halves_the_bandwidth(void **state)
{
	(void)state;
	assert_int_equal(parse("size,avg_us,p50_us,p99_us,bw_gbps\n1024,2,2,2,1.5\n"), 0);
	assert_true(sweep.points[0].bw_gb_s == 0.75);
}

static void parse__makes_comments_printable(void **state)
{
	(void)state;
	assert_int_equal(parse("# a\033[2Jb\n" HEADING "8,1,1,1,1\n"), 0);
	assert_string_equal(sweep.head, "a?[2Jb\n");
}

static void parse__of_what_is_no_sweep_is_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"# only words\n",
		HEADING,
		"size,avg_us,p50_us,p99_us\n8,1,1,1\n",
		HEADING "8,1,1,1\n",
		HEADING "8,1,1,1,1,1\n",
		HEADING "0,1,1,1,1\n",
		HEADING "-8,1,1,1,1\n",
		HEADING " 8,1,1,1,1\n",
		HEADING "8 ,1,1,1,1\n",
		HEADING "99999999999999999999,1,1,1,1\n",
		HEADING "8,1,1,1,1\n8,1,1,1,1\n",
		HEADING "16,1,1,1,1\n8,1,1,1,1\n",
		HEADING "8,,1,1,1\n",
		HEADING "8,nan,1,1,1\n",
		HEADING "8,1,inf,1,1\n",
		HEADING "8,1,1e16,1,1\n",
		HEADING "8,1,1,-1,1\n",
		HEADING "8,1,1,1,1us\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(parse(bad[i]), -EINVAL);
}

/* Text of so many repeated parts behind a heading. */
static char *many(const char *start, const char *part, size_t n)
{
	char *text = malloc(strlen(start) + n * (strlen(part) + 24) + 1);
	char *at = text;

	assert_non_null(text);
	at += sprintf(at, "%s", start);
	for (size_t i = 1; i <= n; i++)
		at += sprintf(at, "%zu%s", i, part);
	return text;
}

static void parse__is_bounded(void **state)
{
	char *rows = many(HEADING, ",1,1,1,1\n", SWEEP_MAX_POINTS);
	char *more_rows = many(HEADING, ",1,1,1,1\n", SWEEP_MAX_POINTS + 1);
	char *columns = many("", ",", 100);
	char *words = many("# ", "word ", 1000);

	(void)state;
	assert_int_equal(sweep_parse(&sweep, "test.csv", rows, NULL), 0);
	assert_int_equal(sweep_parse(&sweep, "test.csv", more_rows, NULL), -EINVAL);
	assert_int_equal(sweep_parse(&sweep, "test.csv", columns, NULL), -EINVAL);
	assert_int_equal(sweep_parse(&sweep, "test.csv", words, NULL), -EINVAL);
	free(rows);
	free(more_rows);
	free(columns);
	free(words);
}

/* ---- a directory of them ---- */

static int write_head(void *arg, FILE *to)
{
	(void)arg;
	fprintf(to, "host      a\033b\nflags     rpc\n");
	return 0;
}

static int write_row(void *arg, FILE *to)
{
	fprintf(to, HEADING "8,1,1,1,1\n");
	return *(int *)arg;
}

static void results__are_read_as_they_were_written(void **state)
{
	static struct results r;
	char dir[] = "/tmp/slime-results-XXXXXX";
	int good = 0, bad = -EIO;

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(results_create(dir), 0);
	assert_int_equal(results_read(&r, dir), -ENOENT);
	assert_int_equal(results_write(dir, SYSTEM_SLIME, write_head, write_row, &good), 0);
	assert_int_equal(results_write(dir, SYSTEM_RAY, write_head, write_row, &bad), -EIO);
	assert_int_equal(results_read(&r, dir), 0);
	assert_int_equal(r.sweeps[SYSTEM_SLIME].n, 1);
	assert_int_equal(r.sweeps[SYSTEM_RAY].n, 0);
	assert_string_equal(r.sweeps[SYSTEM_SLIME].head, "host      a?b\nflags     rpc\n");
	results_remove(dir, SYSTEM_SLIME);
	assert_int_equal(rmdir(dir), 0); /* what could not be written left nothing */
}

static void results__that_cannot_be_written_leave_the_earlier_ones(void **state)
{
	static struct results r;
	char dir[] = "/tmp/slime-results-XXXXXX";
	int good = 0, bad = -EIO;

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(results_write(dir, SYSTEM_SLIME, write_head, write_row, &good), 0);
	assert_int_equal(results_write(dir, SYSTEM_SLIME, write_row, write_row, &bad), -EIO);
	assert_int_equal(results_read(&r, dir), 0);
	assert_string_equal(r.sweeps[SYSTEM_SLIME].head, "host      a?b\nflags     rpc\n");
	results_remove(dir, SYSTEM_SLIME);
	assert_int_equal(rmdir(dir), 0);
}

static int print_sweep(void *arg, FILE *to)
{
	sweep_print(arg, to);
	return 0;
}

/* As DLSlime's benchmarks write and read them. */
static void results__of_a_baseline_begin_with_their_columns(void **state)
{
	char dir[] = "/tmp/slime-results-XXXXXX", file[64], text[256];
	FILE *f;

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(parse("# ray\n" HEADING "1024,4.5,3,2e1,1.5\n2048,1,1,1,0\n"), 0);
	assert_int_equal(results_write(dir, SYSTEM_RAY, write_head, print_sweep, &sweep), 0);
	snprintf(file, sizeof(file), "%s/ray_rpc.csv", dir);
	f = fopen(file, "re");
	assert_non_null(f);
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	assert_int_equal(fclose(f), 0);
	assert_string_equal(text, "size,avg_us,p50_us,p99_us,bw_gbps\n"
				  "1024,4.50,3.00,20.00,3\n2048,1.00,1.00,1.00,0\n");
	results_remove(dir, SYSTEM_RAY);
	assert_int_equal(rmdir(dir), 0);
}

/* root may make files in every directory: as somebody else, in a child. */
static int create_as_a_user(const char *dir)
{
	int status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (!child)
		_exit(!geteuid() && setuid(NOBODY) ? EPERM : -results_create(dir));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return -WEXITSTATUS(status);
}

static void results__of_a_directory_without_search_permission_are_refused(void **state)
{
	char dir[] = "/tmp/slime-results-XXXXXX";

	(void)state;
	assert_non_null(mkdtemp(dir));
	if (!geteuid())
		assert_int_equal(chown(dir, NOBODY, (gid_t)-1), 0);
	assert_int_equal(create_as_a_user(dir), 0);
	assert_int_equal(chmod(dir, 0600), 0);
	assert_int_equal(create_as_a_user(dir), -EACCES);
	assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parse__takes_columns_by_their_names),
		cmocka_unit_test(parse__of_both_directions_halves_the_bandwidth),
		cmocka_unit_test(parse__makes_comments_printable),
		cmocka_unit_test(parse__of_what_is_no_sweep_is_refused),
		cmocka_unit_test(parse__is_bounded),
		cmocka_unit_test(results__are_read_as_they_were_written),
		cmocka_unit_test(results__that_cannot_be_written_leave_the_earlier_ones),
		cmocka_unit_test(results__of_a_baseline_begin_with_their_columns),
		cmocka_unit_test(results__of_a_directory_without_search_permission_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
