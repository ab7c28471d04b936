/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An event loop: one of our own, which runs on a thread of its own or on the caller's, or one that
 * a program has already. Everything that hangs on it is used on its thread only; other threads
 * reach it by tasks.
 */
#ifndef NC_LOOP_H
#define NC_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct event;
struct event_base;
struct loop;

typedef void loop_fn(void *arg);

/* Something to do on the loop. It is embedded in what it is about, so that posting cannot fail; a
 * task that waits already is not queued twice. */
struct loop_task {
	struct sl_list node;
	bool queued; /* under the loop's lock */
	loop_fn *fn;
	void *arg;
};

void loop_task_init(struct loop_task *task, loop_fn *fn, void *arg);

/* A loop of our own, for loop_run() or loop_serve(). -ENOMEM, -EMFILE. */
int loop_create(struct loop **out);

/* The caller's loop, which belongs to the calling thread until another one takes a turn of it.
 * -ENOMEM, -EMFILE. */
int loop_adopt(struct event_base *base, struct loop **out);

/* For a loop of our own, before it runs: while it is woken often, it polls again for ns after it
 * found something last, before it sleeps (busy_poll.h). 0, as without this call: it sleeps at once.
 */
void loop_busy_poll(struct loop *loop, uint64_t ns);

/* From any thread: how long it has polled so far without finding anything, in all. */
uint64_t loop_vain_ns(const struct loop *loop);

/* Run it on a new thread of this name (sl_thread_create()); it may be running when this returns. */
int loop_run(struct loop *loop, const char *name);

/* Run it on the calling thread, until loop_stop(). */
void loop_serve(struct loop *loop);

/* From any thread: a loop of our own ends after what was posted before. */
void loop_stop(struct loop *loop);

/* Stop it and wait for its thread. Nothing for a loop without one. */
void loop_join(struct loop *loop);

/* Joins it, and runs what is still posted, so that no task is lost. The caller's loop goes on
 * without us. NULL is nothing. */
void loop_destroy(struct loop *loop);

/* From any thread: run the task on the loop, in the order of posting. */
void loop_post(struct loop *loop, struct loop_task *task);

/* On the loop's thread: the task does not run, unless it is posted again. */
void loop_cancel(struct loop *loop, struct loop_task *task);

/* On the loop's thread: run what is posted now. */
void loop_flush(struct loop *loop);

/*
 * On the loop's thread: have the event happen in ms from now, instead of when it was set to before.
 * It cannot fail: where libevent has no memory for the timer the event happens in this turn of the
 * loop (logged), so that what it was set for is early and never forgotten.
 */
void loop_set_timer(struct event *timer, uint64_t ms);
void loop_set_timer_us(struct event *timer, uint64_t us);

struct event_base *loop_base(const struct loop *loop);
bool loop_is_current(const struct loop *loop);

/*
 * Before the loop is destroyed: whether this thread may. A caller's loop is given a turn, and is
 * this thread's from here on. -EDEADLK inside a callback, on our own loop's thread, and while
 * another thread runs the caller's.
 */
int loop_take(struct loop *loop);

/* Run fn(arg) on the loop and wait for its end; at once on the loop's own thread. */
void loop_call(struct loop *loop, loop_fn *fn, void *arg);

/*
 * Wait until *done, which the loop's thread sets with loop_signal(). On the thread of a caller's
 * loop it runs that loop meanwhile: not from inside one of its callbacks. 0, -ETIMEDOUT, -EDEADLK
 * on the thread of a loop of our own, -ENOMEM.
 */
int loop_wait(struct loop *loop, const bool *done, int64_t timeout_ms);
void loop_signal(struct loop *loop, bool *done);

#endif
