/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An event loop on a thread of its own. Everything that hangs on it is used on its thread only;
 * other threads reach it by loop_post().
 */
#ifndef NANOCTRL_LOOP_H
#define NANOCTRL_LOOP_H

#include <stdbool.h>
#include <stdint.h>

struct event;
struct event_base;
struct loop;

typedef void loop_fn(void *arg);

/* The thread starts with loop_run(). -ENOMEM, or what eventfd says. */
int loop_create(unsigned index, struct loop **out);

/* Before it runs: while it is woken often it looks for ns, after it found something last, before it
 * sleeps (pace.h). 0: it sleeps at once, as without this call. */
void loop_busy_poll(struct loop *loop, uint64_t ns);

/* From any thread: how long it has looked so far without finding anything, in all. */
uint64_t loop_vain_ns(const struct loop *loop);

int loop_run(struct loop *loop);    /* on a new thread */
void loop_serve(struct loop *loop); /* on the calling thread, until loop_stop() */

/* From any thread: the loop ends after what was posted before. */
void loop_stop(struct loop *loop);

/* Stop it and wait for its thread. */
void loop_join(struct loop *loop);

/* After loop_join(), or when it never ran on a thread. What is still posted is run here, so that
 * nothing posted is ever lost. */
void loop_destroy(struct loop *loop);

/* From any thread: call fn(arg) on the loop's thread, in the order of posting. -ENOMEM. */
int loop_post(struct loop *loop, loop_fn *fn, void *arg);

/* On the loop's thread: have the event happen in ms from now, instead of when it was set to before.
 */
void loop_set_timer(struct event *timer, unsigned ms);

struct event_base *loop_base(const struct loop *loop);
unsigned loop_index(const struct loop *loop);
bool loop_is_current(const struct loop *loop);

#endif
