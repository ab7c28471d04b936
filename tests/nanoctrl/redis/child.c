/* SPDX-License-Identifier: Apache-2.0 */
/* The private Redis in the test's own process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "redis/child.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <event2/event.h>

#define START_MS 60000

static int watches_to_fail; /* the next so many */

int __real_event_add(struct event *ev, const struct timeval *tv);
__attribute__((visibility("default"))) int __wrap_event_add(struct event *ev,
							    const struct timeval *tv);
int __wrap_event_add(struct event *ev, const struct timeval *tv)
{
	if (tv || !watches_to_fail)
		return __real_event_add(ev, tv);
	watches_to_fail--;
	errno = ENOSPC;
	return -1;
}

static bool told_to_end(void *arg)
{
	(void)arg;
	return false;
}

/* Which process the directory says it is. */
static int pid_in(const char *dir)
{
	char path[64];
	FILE *in;
	int pid;

	snprintf(path, sizeof(path), "%s/redis.pid", dir);
	in = fopen(path, "r");
	assert_non_null(in);
	assert_int_equal(fscanf(in, "%d", &pid), 1);
	fclose(in);
	return pid;
}

static void remove_all(const char *dir)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	assert_int_equal(system(command), 0);
}

static int start(const char *dir, struct redis_child **out, char why[REDIS_CHILD_WHY_MAX])
{
	const struct redis_child_attr attr = { .data_dir = dir,
					       .server = "redis-server",
					       .wait_ms = START_MS,
					       .told_to_end = told_to_end };

	return redis_child_create(&attr, out, why);
}

static void redis__that_cannot_be_watched_at_once_stays_the_only_one(void **state)
{
	char dir[] = "/tmp/slime-child-XXXXXX", why[REDIS_CHILD_WHY_MAX];
	struct event_base *base = event_base_new();
	struct redis_child *c;
	int pid, ret;

	(void)state;
	assert_non_null(mkdtemp(dir));
	ret = start(dir, &c, why);
	if (ret == -ENOENT) {
		remove_all(dir);
		event_base_free(base);
		print_message("skipped: %s\n", why);
		exit(77);
	}
	assert_int_equal(ret, 0);
	pid = pid_in(dir);

	watches_to_fail = 1;
	assert_int_equal(redis_child_watch(c, base), 0);
	assert_int_equal(watches_to_fail, 0);
	event_base_loop(base, EVLOOP_ONCE);
	assert_int_equal(pid_in(dir), pid);

	/* It is watched by now: another one takes its place. */
	kill(pid, SIGKILL);
	while (pid_in(dir) == pid)
		event_base_loop(base, EVLOOP_ONCE);
	redis_child_destroy(c);
	event_base_free(base);
	remove_all(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(redis__that_cannot_be_watched_at_once_stays_the_only_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
