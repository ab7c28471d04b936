/* SPDX-License-Identifier: Apache-2.0 */
/* Names of agents, and the keys that prove whose they are. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/peeragent/agents.h"
#include "tests/support/log_lines.h"

/* A directory for the state of agent "a", with the key that it will have there. */
struct home {
	char dir[32];
	char key[64];
};

static struct slime_agent_attr attr_in(struct home *h)
{
	struct slime_agent_attr attr = attr_of("a");

	strcpy(h->dir, "/tmp/slime-agent-XXXXXX");
	assert_non_null(mkdtemp(h->dir));
	snprintf(h->key, sizeof(h->key), "%s/default:a.key", h->dir);
	attr.state_dir = h->dir;
	return attr;
}

static void name__of_another_owner_is_refused(void **state)
{
	struct slime_agent_attr attr = attr_of("a");
	struct slime_agent *first = start("a", NULL, 0), *second;

	(void)state;
	log_lines_keep();
	second = start_with(&attr);
	while (slime_agent_state(second) != SLIME_AGENT_REFUSED)
		poll(NULL, 0, 1);
	assert_int_equal(slime_agent_wait_ready(second, 50), -EADDRINUSE);
	assert_int_equal(slime_agent_state(first), SLIME_AGENT_READY);
	/* Who has it, for whoever looks at warnings alone, as a program does by default. */
	while (!log_lines_with("a is refused"))
		poll(NULL, 0, 1);
	log_lines_release();
	end(second);
	end(first);
}

/* Who reads the last line is not to think that it was there. */
static void end__of_one_that_was_refused_does_not_say_that_it_left(void **state)
{
	struct slime_agent_attr attr = attr_of("a");
	struct slime_agent *first = start("a", NULL, 0), *second;

	(void)state;
	log_lines_keep_from(SLIME_LOG_INFO);
	second = start_with(&attr);
	while (slime_agent_state(second) != SLIME_AGENT_REFUSED)
		poll(NULL, 0, 1);
	end(second);
	assert_int_equal(log_lines_with("a is ended: another process keeps the name"), 1);
	end(first);
	assert_int_equal(log_lines_with("a is ended: left"), 1);
	log_lines_release();
}

static void name__is_taken_over_with_the_owner_key(void **state)
{
	struct home h;
	struct slime_agent_attr attr = attr_in(&h);
	struct slime_agent *first, *second;
	struct stat st;

	(void)state;
	first = start_with(&attr);
	assert_ok(slime_agent_wait_ready(first, LONG_MS));
	second = start_with(&attr);
	assert_ok(slime_agent_wait_ready(second, LONG_MS));
	while (slime_agent_state(first) != SLIME_AGENT_ENDED)
		poll(NULL, 0, 1);
	assert_int_equal(slime_agent_wait_ready(first, LONG_MS), -ESHUTDOWN);

	assert_ok(stat(h.key, &st));
	assert_int_equal(st.st_mode & 0777, 0600);
	end(first);
	end(second);
	assert_ok(unlink(h.key));
	assert_ok(rmdir(h.dir));
}

static void key__that_others_can_read_is_refused(void **state)
{
	struct home h;
	struct slime_agent_attr attr = attr_in(&h);
	struct slime_agent *agent;

	(void)state;
	assert_ok(slime_agent_create(&attr, &agent));
	end(agent);
	assert_ok(chmod(h.key, 0640));
	assert_int_equal(slime_agent_create(&attr, &agent), -EACCES);
	assert_ok(truncate(h.key, 10));
	assert_ok(chmod(h.key, 0600));
	assert_int_equal(slime_agent_create(&attr, &agent), -EPROTO);
	assert_ok(unlink(h.key));
	assert_ok(rmdir(h.dir));
}

static void key__that_is_no_file_is_refused(void **state)
{
	struct home h;
	struct slime_agent_attr attr = attr_in(&h);
	struct slime_agent *agent;

	(void)state;
	assert_ok(mkfifo(h.key, 0600));
	assert_int_equal(slime_agent_create(&attr, &agent), -EPROTO);
	assert_ok(unlink(h.key));
	assert_ok(mkdir(h.key, 0700));
	assert_int_equal(slime_agent_create(&attr, &agent), -EPROTO);
	assert_ok(rmdir(h.key));
	assert_ok(rmdir(h.dir));
}

/* In /sys nobody makes anything, root neither. */
static void key__that_cannot_be_made_says_where(void **state)
{
	struct slime_agent_attr below = attr_of("a"), in = attr_of("a");
	struct slime_agent *agent;

	(void)state;
	below.state_dir = "/sys/none";
	in.state_dir = "/sys";
	log_lines_keep();
	assert_int_not_equal(slime_agent_create(&below, &agent), 0);
	assert_int_equal(log_lines_with("state directory /sys/none: "), 1);
	assert_int_not_equal(slime_agent_create(&in, &agent), 0);
	assert_int_equal(log_lines_with("owner key /sys/default:a.key cannot be made: "), 1);
	assert_int_equal(log_lines_with("chmod"), 0);
	log_lines_release();
}

/* As a process with our number left it that ended while it made the key. */
static void key__half_made_by_another_process_is_no_hindrance(void **state)
{
	struct home h;
	struct slime_agent_attr attr = attr_in(&h);
	char half[96];
	struct slime_agent *agent;
	FILE *f;

	(void)state;
	snprintf(half, sizeof(half), "%s.%ld", h.key, (long)getpid());
	f = fopen(half, "w");
	assert_non_null(f);
	assert_ok(fclose(f));
	assert_ok(slime_agent_create(&attr, &agent));
	end(agent);
	assert_ok(unlink(h.key));
	assert_ok(unlink(half));
	assert_ok(rmdir(h.dir));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(name__of_another_owner_is_refused, reset),
		cmocka_unit_test_setup(end__of_one_that_was_refused_does_not_say_that_it_left,
				       reset),
		cmocka_unit_test_setup(name__is_taken_over_with_the_owner_key, reset),
		cmocka_unit_test_setup(key__that_others_can_read_is_refused, reset),
		cmocka_unit_test_setup(key__that_is_no_file_is_refused, reset),
		cmocka_unit_test_setup(key__that_cannot_be_made_says_where, reset),
		cmocka_unit_test_setup(key__half_made_by_another_process_is_no_hindrance, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
