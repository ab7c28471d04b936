/* SPDX-License-Identifier: Apache-2.0 */
/* The event loop: its tasks, its timers, and threads that wait for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <string.h>
#include <pthread.h>
#include <cmocka.h>

#include <event2/event.h>
#include "nanoctrl/net/loop.h"

static int fail_at; /* the n-th event_add from here on; 0: none */

int __real_event_add(struct event *ev, const struct timeval *tv);
int __wrap_event_add(struct event *ev, const struct timeval *tv);

__attribute__((visibility("default"))) int __wrap_event_add(struct event *ev,
							    const struct timeval *tv)
{
	return fail_at && --fail_at == 0 ? -1 : __real_event_add(ev, tv);
}

static char order[16];

static void append(void *arg)
{
	strcat(order, arg);
}

static void stop(void *loop)
{
	loop_stop(loop);
}

static void post__runs_tasks_in_order_and_one_that_waits_once(void **state)
{
	struct loop_task a, b, c, end;
	struct loop *loop;

	(void)state;
	order[0] = '\0';
	assert_int_equal(loop_create(&loop), 0);
	loop_task_init(&a, append, "a");
	loop_task_init(&b, append, "b");
	loop_task_init(&c, append, "c");
	loop_task_init(&end, stop, loop);
	loop_post(loop, &a);
	loop_post(loop, &b);
	loop_post(loop, &a);
	loop_post(loop, &c);
	loop_cancel(loop, &b);
	loop_post(loop, &end);
	loop_serve(loop);
	assert_string_equal(order, "ac");
	loop_post(loop, &b);
	loop_destroy(loop);
	assert_string_equal(order, "acb"); /* what is still posted is run */
}

static void stop__lets_what_was_posted_before_run(void **state)
{
	struct loop_task a;
	struct loop *loop;

	(void)state;
	order[0] = '\0';
	assert_int_equal(loop_create(&loop), 0);
	assert_int_equal(loop_run(loop, "test"), 0);
	loop_task_init(&a, append, "a");
	loop_post(loop, &a);
	loop_join(loop);
	assert_string_equal(order, "a");
	loop_destroy(loop);
}

static void create__fails_when_its_event_cannot_be_added(void **state)
{
	struct event_base *base = event_base_new();
	struct loop *loop;

	(void)state;
	fail_at = 1;
	assert_int_equal(loop_create(&loop), -ENOMEM);
	fail_at = 1;
	assert_int_equal(loop_adopt(base, &loop), -ENOMEM);
	event_base_free(base);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	assert_true(what & EV_TIMEOUT);
	loop_stop(arg);
}

/* It is an hour, or at once. */
static void set_timer__that_cannot_be_added_happens_at_once(void **state)
{
	struct event *timer;
	struct loop *loop;

	(void)state;
	assert_int_equal(loop_create(&loop), 0);
	timer = evtimer_new(loop_base(loop), on_timer, loop);
	fail_at = 1;
	loop_set_timer(timer, 3600000);
	loop_serve(loop);
	event_free(timer);
	loop_destroy(loop);
}

struct waiting {
	struct loop *loop;
	bool done;
};

static void signal_it(void *arg)
{
	struct waiting *w = arg;

	assert_true(loop_is_current(w->loop));
	assert_int_equal(loop_wait(w->loop, &w->done, 0), -EDEADLK);
	loop_signal(w->loop, &w->done);
}

static void call__runs_on_the_loop_and_wait_sees_its_signal(void **state)
{
	struct waiting w = { .done = false };
	bool never = false;

	(void)state;
	assert_int_equal(loop_create(&w.loop), 0);
	assert_int_equal(loop_run(w.loop, "test"), 0);
	assert_false(loop_is_current(w.loop));
	loop_call(w.loop, signal_it, &w);
	assert_int_equal(loop_wait(w.loop, &w.done, 0), 0);
	assert_int_equal(loop_wait(w.loop, &never, 1), -ETIMEDOUT);
	loop_destroy(w.loop);
}

/* Without a timer for the deadline the wait would have no end. */
static void wait__on_the_callers_loop_without_a_timer_is_refused(void **state)
{
	struct event_base *base = event_base_new();
	struct loop *loop;
	bool never = false;

	(void)state;
	assert_int_equal(loop_adopt(base, &loop), 0);
	assert_int_equal(loop_take(loop), 0);
	assert_int_equal(loop_wait(loop, &never, 1), -ETIMEDOUT);
	fail_at = 1;
	assert_int_equal(loop_wait(loop, &never, 1), -ENOMEM);
	loop_destroy(loop);
	event_base_free(base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(post__runs_tasks_in_order_and_one_that_waits_once),
		cmocka_unit_test(stop__lets_what_was_posted_before_run),
		cmocka_unit_test(create__fails_when_its_event_cannot_be_added),
		cmocka_unit_test(set_timer__that_cannot_be_added_happens_at_once),
		cmocka_unit_test(call__runs_on_the_loop_and_wait_sees_its_signal),
		cmocka_unit_test(wait__on_the_callers_loop_without_a_timer_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
