/* SPDX-License-Identifier: Apache-2.0 */
/* How agents are made and begun, on threads of theirs and on a loop of the caller's. */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <event2/event.h>

#include "tests/peeragent/agents.h"
#include "tests/support/log_lines.h"

static void create__refuses_what_is_out_of_range(void **state)
{
	struct slime_agent_attr nameless = attr_of(""), dotted = attr_of(".."),
				scoped = attr_of("a"), alone = attr_of("a"), looped = attr_of("a");
	struct slime_agent *agent;

	(void)state;
	scoped.scope = "obs";
	alone.n_urls = 0;
	looped.topology.links = &to_a;
	looped.topology.n_links = 1;
	assert_int_equal(slime_agent_create(&nameless, &agent), -EINVAL);
	assert_int_equal(slime_agent_create(&dotted, &agent), -EINVAL);
	assert_int_equal(slime_agent_create(&scoped, &agent), -EINVAL);
	assert_int_equal(slime_agent_create(&alone, &agent), -EINVAL);
	assert_int_equal(slime_agent_create(&looped, &agent), -EINVAL);
}

static void create__refuses_what_no_request_can_have(void **state)
{
	static const char *const bad_urls[] = { "http://fake", "foo" };
	static const char *const no_url[] = { NULL };
	struct slime_agent_attr url = attr_of("a"), none = attr_of("a"), token = attr_of("a");
	struct slime_agent *agent;

	(void)state;
	url.urls = bad_urls;
	url.n_urls = 2;
	none.urls = no_url;
	token.token = "a\r\nX: y";
	log_lines_keep();
	assert_int_equal(slime_agent_create(&url, &agent), -EINVAL);
	assert_int_equal(slime_agent_create(&none, &agent), -EINVAL);
	assert_int_equal(log_lines_with("attr: urls: "), 2);
	assert_int_equal(slime_agent_create(&token, &agent), -EINVAL);
	assert_int_equal(log_lines_with("attr: token: "), 1);
	log_lines_release();
}

static void create__refuses_transports_that_are_none_or_twice(void **state)
{
	struct slime_agent_attr none = attr_of("a"), twice = attr_of("a");
	struct slime_agent *agent;

	(void)state;
	none.transports[0] = (enum slime_transport)77;
	twice.transports[1] = twice.transports[0];
	log_lines_keep();
	assert_int_equal(slime_agent_create(&none, &agent), -EINVAL);
	assert_int_equal(slime_agent_create(&twice, &agent), -EINVAL);
	assert_int_equal(log_lines_with("attr: transports: "), 2);
	log_lines_release();
}

static void create__refuses_an_address_that_is_not_utf8_or_too_long(void **state)
{
	struct slime_agent_attr attr = attr_of("a");
	struct slime_agent *agent;
	char much[255];

	(void)state;
	log_lines_keep();
	attr.address = "h\xff";
	assert_int_equal(slime_agent_create(&attr, &agent), -EINVAL);
	memset(much, 'x', sizeof(much) - 1);
	much[sizeof(much) - 1] = '\0';
	attr.address = much;
	assert_int_equal(slime_agent_create(&attr, &agent), -EINVAL);
	assert_int_equal(log_lines_with("attr: address"), 2);
	log_lines_release();
}

static void create__and_destroy_without_a_start(void **state)
{
	struct slime_agent_attr attr = attr_of("a");
	struct slime_agent *agent;

	(void)state;
	assert_ok(slime_agent_create(&attr, &agent));
	assert_ok(slime_agent_service_add(agent, "echo"));
	assert_int_equal(slime_agent_service_add(agent, "echo"), -EEXIST);
	assert_ok(slime_agent_destroy(agent));
	assert_ok(slime_agent_destroy(NULL));
}

static bool takes_sigusr1(const char *status)
{
	const char *blocked = strstr(status, "SigBlk:");

	assert_non_null(blocked);
	return !(strtoull(blocked + strlen("SigBlk:"), NULL, 16) >> (SIGUSR1 - 1) & 1);
}

/* They are the program's: its handlers run on no thread of ours. */
static void start__makes_threads_that_take_no_signals(void **state)
{
	struct slime_agent *a = start("a", NULL, 0);
	char path[300], status[4096];
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *e;
	int n = 0;

	(void)state;
	assert_non_null(tasks);
	while ((e = readdir(tasks))) {
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/status", e->d_name);
		f = fopen(path, "r");
		if (!f)
			continue;
		status[fread(status, 1, sizeof(status) - 1, f)] = '\0';
		fclose(f);
		if (strncmp(status, "Name:\tslime-", 12))
			continue;
		assert_false(takes_sigusr1(status));
		n++;
	}
	closedir(tasks);
	assert_true(n >= 3); /* progress, loop, helper */
	end(a);
}

static void start__after_a_stop_is_refused(void **state)
{
	struct slime_agent_attr attr = attr_of("a");
	struct slime_endpoint *ep = NULL;
	struct slime_agent *agent;

	(void)state;
	assert_ok(slime_agent_create(&attr, &agent));
	assert_ok(slime_agent_stop(agent, LONG_MS));
	assert_int_equal(slime_agent_start(agent), -ESHUTDOWN);
	assert_int_equal(slime_agent_state(agent), SLIME_AGENT_ENDED);
	assert_int_equal(slime_agent_wait_ready(agent, LONG_MS), -ESHUTDOWN);
	assert_int_equal(slime_agent_endpoint_get(agent, "b", NULL, LONG_MS, &ep), -ESHUTDOWN);
	end(agent);
}

static void change__before_the_start_is_not_connected(void **state)
{
	struct slime_agent_attr attr = attr_of("a");
	struct slime_topology empty = { .n_links = 0 };
	struct slime_remote_mr remote;
	struct slime_agent *agent;
	struct slime_mem *mem;
	struct slime_mr *mr;

	(void)state;
	assert_ok(slime_agent_create(&attr, &agent));
	assert_ok(slime_mem_alloc(slime_agent_context(agent), 4096, NULL, &mem));
	assert_ok(slime_mr_create(slime_agent_context(agent), slime_mem_addr(mem), 4096, 3, &mr));
	assert_int_equal(slime_agent_apply(agent, &empty), -ENOTCONN);
	assert_int_equal(slime_agent_link_add(agent, &to_b), -ENOTCONN);
	assert_int_equal(slime_agent_region_offer(agent, "r", mr, 3, NULL, 0), -ENOTCONN);
	assert_int_equal(slime_agent_region_remote(agent, "b", "r", LONG_MS, &remote), -ENOTCONN);
	assert_int_equal(slime_agent_peer_find(agent, "b", LONG_MS), -ENOTCONN);
	assert_ok(slime_mr_destroy(mr));
	assert_ok(slime_mem_destroy(mem));
	end(agent);
}

static void endpoint_put__before_the_start_is_said(void **state)
{
	struct slime_agent_attr attr = attr_of("a");
	struct slime_agent *agent;
	struct slime_endpoint *ep;

	(void)state;
	assert_ok(slime_agent_create(&attr, &agent));
	assert_ok(slime_endpoint_create(slime_agent_context(agent), NULL, &ep));
	log_lines_keep();
	slime_agent_endpoint_put(agent, ep);
	assert_int_equal(log_lines_with("endpoint_put: not an endpoint that was got"), 1);
	log_lines_release();
	assert_ok(slime_endpoint_destroy(ep));
	end(agent);
}

/* Threads may wait before another one starts the agent. */
static void wait_ready__before_the_start_is_a_timeout(void **state)
{
	struct slime_agent_attr attr = attr_of("a");
	struct slime_agent *agent;

	(void)state;
	assert_ok(slime_agent_create(&attr, &agent));
	assert_int_equal(slime_agent_wait_ready(agent, 0), -ETIMEDOUT);
	assert_ok(slime_agent_start(agent));
	assert_ok(slime_agent_wait_ready(agent, LONG_MS));
	end(agent);
}

/* Runs a loop until the agent has ended, and looks what its callbacks may do. */
struct runner {
	struct event_base *base;
	struct slime_agent *agent;
	pthread_t thread;
	sem_t called;
	bool over;
	enum slime_agent_state state;
	int applied, got, destroyed;
};

static void use_inside(struct runner *r, struct slime_agent *agent)
{
	struct slime_topology empty = { .n_links = 0 };
	struct slime_endpoint *ep = NULL;

	r->state = slime_agent_state(agent);
	r->applied = slime_agent_apply(agent, &empty);
	r->got = slime_agent_endpoint_get(agent, "b", NULL, LONG_MS, &ep);
	r->destroyed = slime_agent_destroy(agent);
	sem_post(&r->called);
}

static void on_ready(void *arg, struct slime_agent *agent, enum slime_agent_state state, int cause,
		     const char *text)
{
	struct runner *r = arg;

	(void)cause;
	(void)text;
	if (state == SLIME_AGENT_READY)
		use_inside(r, agent);
	r->over = state == SLIME_AGENT_ENDED;
}

static void note_end(void *arg, struct slime_agent *agent, enum slime_agent_state state, int cause,
		     const char *text)
{
	struct runner *r = arg;

	(void)agent;
	(void)cause;
	(void)text;
	r->over = state == SLIME_AGENT_ENDED;
}

static void on_event(evutil_socket_t fd, short what, void *arg)
{
	struct runner *r = arg;

	(void)fd;
	(void)what;
	use_inside(r, r->agent);
}

static void *run(void *arg)
{
	struct runner *r = arg;

	while (!r->over)
		event_base_loop(r->base, EVLOOP_ONCE);
	return NULL;
}

static void begin_runner(struct runner *r, slime_agent_fn *on_state)
{
	struct slime_agent_attr attr = attr_of("a");

	r->base = event_base_new();
	assert_non_null(r->base);
	assert_ok(sem_init(&r->called, 0, 0));
	attr.loop = r->base;
	attr.on_state = on_state;
	attr.arg = r;
	assert_ok(slime_agent_create(&attr, &r->agent));
	assert_ok(slime_agent_start(r->agent));
}

/* Beside the thread that runs the loop, and after it. */
static void end_runner(struct runner *r)
{
	assert_int_equal(slime_agent_state(r->agent), SLIME_AGENT_READY);
	assert_ok(slime_agent_stop(r->agent, LONG_MS));
	assert_ok(pthread_join(r->thread, NULL));
	assert_int_equal(r->state, SLIME_AGENT_READY);
	assert_ok(r->applied);
	assert_int_equal(r->got, -EDEADLK);
	assert_int_equal(r->destroyed, -EDEADLK);
	end(r->agent);
	event_base_free(r->base);
	sem_destroy(&r->called);
}

static void create__of_a_loop_that_another_thread_runs(void **state)
{
	struct runner r = { .over = false };

	(void)state;
	begin_runner(&r, on_ready);
	assert_ok(pthread_create(&r.thread, NULL, run, &r));
	assert_ok(sem_wait(&r.called));
	end_runner(&r);
}

static void wait_ready__on_a_loop_that_another_thread_runs_later(void **state)
{
	static const struct timeval at_once = { 0 };
	struct runner r = { .over = false };

	(void)state;
	begin_runner(&r, note_end);
	assert_ok(slime_agent_wait_ready(r.agent, LONG_MS));
	assert_ok(event_base_once(r.base, -1, EV_TIMEOUT, on_event, &r, &at_once));
	assert_ok(pthread_create(&r.thread, NULL, run, &r));
	assert_ok(sem_wait(&r.called));
	end_runner(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(create__refuses_what_is_out_of_range, reset),
		cmocka_unit_test_setup(create__refuses_what_no_request_can_have, reset),
		cmocka_unit_test_setup(create__refuses_transports_that_are_none_or_twice, reset),
		cmocka_unit_test_setup(create__refuses_an_address_that_is_not_utf8_or_too_long,
				       reset),
		cmocka_unit_test_setup(create__and_destroy_without_a_start, reset),
		cmocka_unit_test_setup(change__before_the_start_is_not_connected, reset),
		cmocka_unit_test_setup(start__makes_threads_that_take_no_signals, reset),
		cmocka_unit_test_setup(start__after_a_stop_is_refused, reset),
		cmocka_unit_test_setup(endpoint_put__before_the_start_is_said, reset),
		cmocka_unit_test_setup(create__of_a_loop_that_another_thread_runs, reset),
		cmocka_unit_test_setup(wait_ready__on_a_loop_that_another_thread_runs_later, reset),
		cmocka_unit_test_setup(wait_ready__before_the_start_is_a_timeout, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
