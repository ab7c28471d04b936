/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's event loop: on a thread of its own, or the caller's. Everything that hangs on it is
 * used on its thread only; other threads reach it by a queue and an eventfd.
 */
#ifndef AGENT_LOOP_H
#define AGENT_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct event_base;
struct loop;

typedef void loop_fn(void *arg);

/* Something to do on the loop. Embedded in what it is about, so that posting cannot fail; a task
 * that waits already is not queued twice. */
struct loop_task {
	struct sl_list node;
	bool queued; /* under the loop's lock */
	loop_fn *fn;
	void *arg;
};

void loop_task_init(struct loop_task *task, loop_fn *fn, void *arg);

/* base NULL: a thread of our own, running when this returns. Else the caller's, which belongs to
 * the calling thread until another one takes a turn of it. -ENOMEM, -EMFILE, -EAGAIN. */
int loop_create(struct event_base *base, struct loop **out);

/* Ends our own thread after what was posted before. The caller's base stays, without us. */
void loop_destroy(struct loop *loop);

struct event_base *loop_base(const struct loop *loop);
bool loop_is_current(const struct loop *loop);

/*
 * Before the loop is destroyed: whether this thread may. A caller's loop is given a turn, and is
 * this thread's from here on. -EDEADLK inside a callback, on our own loop's thread, and while
 * another thread runs the caller's.
 */
int loop_take(struct loop *loop);

/* From any thread: run the task on the loop, in the order of posting. */
void loop_post(struct loop *loop, struct loop_task *task);

/* On the loop's thread: run what is posted now. */
void loop_flush(struct loop *loop);

/* Run fn(arg) on the loop and wait for its end; at once on the loop's own thread. */
void loop_call(struct loop *loop, loop_fn *fn, void *arg);

/*
 * Wait until *done, which the loop's thread sets with loop_signal(). On the thread of a caller's
 * loop it runs that loop meanwhile: not from inside one of its callbacks. 0, -ETIMEDOUT, -EDEADLK
 * on the loop's own thread, -ENOMEM.
 */
int loop_wait(struct loop *loop, const bool *done, int64_t timeout_ms);
void loop_signal(struct loop *loop, bool *done);

#endif
