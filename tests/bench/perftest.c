/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ib_read_bw beside our figures, with a program in its place that takes its options, listens and
 * connects as it does, and prints what perftest 4.5 prints.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "bench/host/perftest.h"

/* Device mlx5_N has N + 1 times 80 Gb/s; "broken" ends with an error, as without a port. */
static const char program[] =
	"#!/usr/bin/env python3\n"
	"import os, socket, sys\n"
	"a = sys.argv[1:]\n"
	"o = {k: a[a.index(k) + 1] for k in ('-d', '-i', '-s', '-t', '-q', '-D', '-p')}\n"
	"client = a[-1] == '127.0.0.1'\n"
	"with open(os.environ['STAND_IN_LOG'], 'a') as log:\n"
	"    log.write(('client ' if client else 'server ') + ' '.join(a) + '\\n')\n"
	"if not client:\n"
	"    s = socket.create_server(('127.0.0.1', int(o['-p'])))\n"
	"    s.accept()[0].recv(1)\n"
	"    sys.exit()\n"
	"c = socket.create_connection(('127.0.0.1', int(o['-p'])))\n"
	"if o['-d'] == 'broken':\n"
	"    print(' Port number 1 state is Down')\n"
	"    sys.exit(1)\n"
	"rate = 80.0 * (int(o['-d'][-1]) + 1)\n"
	"print('---\\n                    RDMA_Read BW Test\\n Dual-port       : OFF')\n"
	"print(' #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]')\n"
	"print(f' {o[\"-s\"]}     1234             0.00               {rate:.2f}                0.18')\n";

struct stand_in {
	char dir[64], program[96], log[96], path[256];
};

static int set_up(void **state)
{
	struct stand_in *s = calloc(1, sizeof(*s));
	FILE *to;

	assert_non_null(s);
	strcpy(s->dir, "/tmp/slime-perftest-XXXXXX");
	assert_non_null(mkdtemp(s->dir));
	snprintf(s->program, sizeof(s->program), "%s/ib_read_bw", s->dir);
	snprintf(s->log, sizeof(s->log), "%s/log", s->dir);
	to = fopen(s->program, "we");
	assert_non_null(to);
	assert_true(fputs(program, to) >= 0 && !fclose(to) && !chmod(s->program, 0755));
	snprintf(s->path, sizeof(s->path), "%s:%s", s->dir, getenv("PATH"));
	assert_int_equal(setenv("PATH", s->path, 1) | setenv("STAND_IN_LOG", s->log, 1), 0);
	*state = s;
	return 0;
}

static int tear_down(void **state)
{
	struct stand_in *s = *state;

	unlink(s->program);
	unlink(s->log);
	rmdir(s->dir);
	setenv("PATH", s->path + strlen(s->dir) + 1, 1);
	free(s);
	return 0;
}

static const struct perftest what = { .size = 131072, .depth = 32, .qps = 4, .duration_s = 2 };

/* How many lines of the log have both texts. */
static int logged(const struct stand_in *s, const char *one, const char *other)
{
	FILE *in = fopen(s->log, "re");
	char line[512];
	int n = 0;

	while (in && fgets(line, sizeof(line), in))
		n += strstr(line, one) && strstr(line, other);
	if (in)
		fclose(in);
	return n;
}

static void perftest_read__of_two_devices_takes_the_average_of_each(void **state)
{
	const struct nic_group groups[] = {
		{ .device = "mlx5_0", .port = 1, .gid_index = 3, .numa_node = -1 },
		{ .device = "mlx5_1", .port = 2, .gid_index = -1, .numa_node = -1 },
	};
	const struct stand_in *s = *state;
	double gb_s[2] = { 0 };
	char why[256] = "";

	assert_int_equal(perftest_read(&what, groups, 2, gb_s, why, sizeof(why)), 0);
	assert_true(gb_s[0] > 9.99 && gb_s[0] < 10.01);
	assert_true(gb_s[1] > 19.99 && gb_s[1] < 20.01);
	assert_string_equal(why, "");
	assert_int_equal(logged(s, "server ", "-d mlx5_0 -i 1 -s 131072 -t 32 -q 4 -D 2"), 1);
	assert_int_equal(logged(s, "client ", "-d mlx5_1 -i 2 -s 131072 -t 32 -q 4 -D 2"), 1);
	assert_int_equal(logged(s, "-d mlx5_0", "-x 3"), 2);
	assert_int_equal(logged(s, "-d mlx5_1", "-x"), 0);
}

static void perftest_read__that_fails_says_what_the_program_said(void **state)
{
	const struct nic_group group = { .device = "broken", .port = 1, .gid_index = -1 };
	char why[256] = "";
	double gb_s = 0;

	(void)state;
	assert_int_equal(perftest_read(&what, &group, 1, &gb_s, why, sizeof(why)), -EIO);
	assert_string_equal(why, "ib_read_bw of broken:  Port number 1 state is Down");
}

static void perftest_read__without_the_program_is_absent(void **state)
{
	const struct nic_group group = { .device = "mlx5_0", .port = 1, .gid_index = -1 };
	const struct stand_in *s = *state;
	char why[256] = "";
	double gb_s = 0;

	assert_int_equal(setenv("PATH", s->dir, 1) | unlink(s->program), 0);
	assert_int_equal(perftest_read(&what, &group, 1, &gb_s, why, sizeof(why)), -ENOENT);
	assert_string_equal(why, "");
}

static void perftest_parse__of_text_without_the_row_is_an_error(void **state)
{
	static const char *const texts[] = {
		"",
		"\n\n",
		" 131072",
		" 131072 1000 0.00",
		" 65536 1000 0.00 80.00 0.1\n",
		" 131072 1000 0.00 0.00 0.0\n",
		" 131072 1000 0.00 nan 0.0\n",
	};
	double gb_s = 7;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_int_equal(perftest_parse(texts[i], 131072, &gb_s), -EPROTO);
	assert_true(gb_s > 6.9 && gb_s < 7.1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			perftest_read__of_two_devices_takes_the_average_of_each, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			perftest_read__that_fails_says_what_the_program_said, set_up, tear_down),
		cmocka_unit_test_setup_teardown(perftest_read__without_the_program_is_absent,
						set_up, tear_down),
		cmocka_unit_test(perftest_parse__of_text_without_the_row_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
