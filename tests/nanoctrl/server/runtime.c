/* SPDX-License-Identifier: Apache-2.0 */
/* Where nanoctrl keeps what is its own when nobody names a directory. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <cmocka.h>

#include "daemon/runtime.h"

#define NOBODY 65534

static int setup(void **state)
{
	(void)state;
	unsetenv("XDG_RUNTIME_DIR");
	unsetenv("XDG_STATE_HOME");
	unsetenv("RUNTIME_DIRECTORY");
	unsetenv("STATE_DIRECTORY");
	unsetenv("LOGS_DIRECTORY");
	return setenv("HOME", "/there/me", 1);
}

static void assert_runtime(const char *given, const char *dir)
{
	struct runtime rt;
	char pid_file[PATH_MAX];

	assert_int_equal(runtime_init(&rt, "nanoctrl", given), 0);
	assert_string_equal(rt.dir, dir);
	snprintf(pid_file, sizeof(pid_file), "%s/nanoctrl.pid", dir);
	assert_string_equal(rt.pid_file, pid_file);
}

static void assert_runtime_of_others(void)
{
	struct runtime rt;

	assert_runtime(NULL, "/there/me/.local/state/nanoctrl/run");
	setenv("XDG_STATE_HOME", "/state", 1);
	assert_runtime(NULL, "/state/nanoctrl/run");
	unsetenv("XDG_STATE_HOME");
	unsetenv("HOME");
	assert_int_equal(runtime_init(&rt, "nanoctrl", NULL), -ENOENT);
}

/* Nowhere that a stranger could make before. */
static void runtime__is_the_users_own(void **state)
{
	(void)state;
	if (geteuid() == 0) {
		assert_runtime(NULL, "/run/nanoctrl");
		assert_int_equal(seteuid(NOBODY), 0);
		assert_runtime_of_others();
		assert_int_equal(seteuid(0), 0);
		prctl(PR_SET_DUMPABLE, 1); /* for the look for leaks, as before */
	} else {
		assert_runtime_of_others();
	}
	setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
	assert_runtime(NULL, "/run/user/7/nanoctrl");
	assert_runtime("/there//", "/there");
}

static void assert_data(const char *given, const char *dir)
{
	char out[PATH_MAX];

	assert_int_equal(runtime_data_dir(given, out), 0);
	assert_string_equal(out, dir);
}

static void assert_data_of_others(void)
{
	char out[PATH_MAX];

	assert_data(NULL, "/there/me/.local/state/nanoctrl");
	setenv("XDG_STATE_HOME", "relative", 1);
	assert_data(NULL, "/there/me/.local/state/nanoctrl");
	setenv("XDG_STATE_HOME", "/state", 1);
	assert_data(NULL, "/state/nanoctrl");
	assert_data("/there/", "/there");
	unsetenv("XDG_STATE_HOME");
	unsetenv("HOME");
	assert_int_equal(runtime_data_dir(NULL, out), -ENOENT);
}

/* Not where a reboot removes it; of root where the system's are, whatever its environment says. */
static void data__are_with_the_state_of_whose_they_are(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		assert_data_of_others();
		return;
	}
	setenv("XDG_STATE_HOME", "/state", 1);
	assert_data(NULL, "/var/lib/nanoctrl");
	assert_data("/there/", "/there");
	unsetenv("XDG_STATE_HOME");
	assert_int_equal(seteuid(NOBODY), 0);
	assert_data_of_others();
	assert_int_equal(seteuid(0), 0);
	prctl(PR_SET_DUMPABLE, 1); /* for the look for leaks, as before */
}

static void directories__of_a_service_manager_come_before_the_users(void **state)
{
	struct runtime rt;

	(void)state;
	setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
	setenv("RUNTIME_DIRECTORY", "/run/one:/run/two", 1);
	setenv("STATE_DIRECTORY", "/var/lib/one", 1);
	assert_runtime(NULL, "/run/one");
	assert_runtime("/there", "/there");
	assert_data(NULL, "/var/lib/one");
	assert_data("/there", "/there");

	assert_int_equal(runtime_init(&rt, "nanoctrl", NULL), 0);
	assert_false(rt.log_is_given);
	setenv("LOGS_DIRECTORY", "/var/log/one", 1);
	assert_int_equal(runtime_init(&rt, "nanoctrl", NULL), 0);
	assert_true(rt.log_is_given);
	assert_string_equal(rt.log_file, "/var/log/one/nanoctrl.log");
	unsetenv("RUNTIME_DIRECTORY");
	unsetenv("STATE_DIRECTORY");
	unsetenv("LOGS_DIRECTORY");
	unsetenv("XDG_RUNTIME_DIR");
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(runtime__is_the_users_own),
		TEST(directories__of_a_service_manager_come_before_the_users),
		TEST(data__are_with_the_state_of_whose_they_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
