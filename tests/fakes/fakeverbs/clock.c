/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time: the clock's, with a thread that comes when something is due later, or one that a test
 * moves. Everything here is under the lab's lock.
 */
#include "tests/fakes/fakeverbs/lab.h"

#include <stdlib.h>

#include "base/clock.h"

static struct {
	bool held;
	uint64_t held_now;
	uint64_t next; /* nothing is due before */
	uint64_t delay_min, delay_max, seed;
	bool running;
	uintptr_t generation; /* of the thread that may run */
	pthread_t thread;
	pthread_cond_t wake;
} clk = { .next = FV_NEVER, .wake = PTHREAD_COND_INITIALIZER };

uint64_t fv_now(void)
{
	return clk.held ? clk.held_now : sl_clock_ns();
}

uint64_t fv_delay(void)
{
	if (clk.delay_max <= clk.delay_min)
		return clk.delay_min;
	clk.seed ^= clk.seed << 13;
	clk.seed ^= clk.seed >> 7;
	clk.seed ^= clk.seed << 17;
	return clk.delay_min + clk.seed % (clk.delay_max - clk.delay_min + 1);
}

/* The queue pair whose turn is first; NULL when none waits for time. */
static struct fv_qp *first_due(void)
{
	struct fv_qp *first = NULL;

	for (unsigned d = 0; d < FAKEVERBS_DEVICES; d++) {
		struct fv_device *dev = &fv_lab.devices[d];

		if (!dev->n_objects[FV_QP])
			continue;
		for (unsigned i = 0; i < FV_QPS; i++) {
			struct fv_qp *qp = dev->qps[i];

			if (qp && qp->run_at != FV_NEVER && (!first || qp->run_at < first->run_at))
				first = qp;
		}
	}
	return first;
}

/* Everything until then, in its order; then when the next is due. */
static uint64_t run_until(uint64_t until)
{
	struct fv_qp *qp;

	while ((qp = first_due()) && qp->run_at <= until) {
		if (clk.held && qp->run_at > clk.held_now)
			clk.held_now = qp->run_at;
		fv_qp_run(qp);
	}
	return qp ? qp->run_at : FV_NEVER;
}

void fv_clock_catch_up(void)
{
	if (clk.held || clk.next == FV_NEVER || clk.next > sl_clock_ns())
		return;
	clk.next = FV_NEVER;
	fv_clock_want(run_until(sl_clock_ns()));
}

static void *run(void *arg)
{
	uintptr_t generation = (uintptr_t)arg;

	fv_lock();
	while (clk.generation == generation) {
		struct timespec until;

		if (clk.held || clk.next == FV_NEVER) {
			pthread_cond_wait(&clk.wake, &fv_lab.lock);
		} else if (clk.next <= sl_clock_ns()) {
			fv_clock_catch_up();
		} else {
			until.tv_sec = (time_t)(clk.next / SL_NS_PER_S);
			until.tv_nsec = (long)(clk.next % SL_NS_PER_S);
			pthread_cond_clockwait(&clk.wake, &fv_lab.lock, CLOCK_MONOTONIC, &until);
		}
	}
	fv_unlock();
	return NULL;
}

void fv_clock_want(uint64_t at)
{
	if (at >= clk.next)
		return;
	clk.next = at;
	if (clk.held)
		return;
	if (!clk.running) {
		if (pthread_create(&clk.thread, NULL, run, (void *)clk.generation))
			abort();
		clk.running = true;
	}
	pthread_cond_signal(&clk.wake);
}

void fv_clock_stop(void)
{
	pthread_t thread;
	bool running;

	fv_lock();
	running = clk.running;
	thread = clk.thread;
	clk.running = false;
	clk.generation++;
	clk.next = FV_NEVER;
	pthread_cond_broadcast(&clk.wake);
	fv_unlock();
	if (running)
		pthread_join(thread, NULL);
}

void fakeverbs_set_delay(uint64_t min_ns, uint64_t max_ns, uint64_t seed)
{
	fv_lock();
	clk.delay_min = min_ns;
	clk.delay_max = max_ns;
	clk.seed = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
	fv_unlock();
}

void fakeverbs_hold_time(bool held)
{
	fv_lock();
	if (held && !clk.held)
		clk.held_now = sl_clock_ns();
	clk.held = held;
	if (!held) {
		/* What waits finds out whether the clock is beyond it. */
		struct fv_qp *qp = first_due();

		clk.next = FV_NEVER;
		fv_clock_want(qp ? qp->run_at : FV_NEVER);
	}
	fv_unlock();
}

void fakeverbs_advance(uint64_t ns)
{
	uint64_t until;

	fv_lock();
	until = clk.held_now + ns;
	run_until(until);
	clk.held_now = until;
	fv_unlock();
}

bool fakeverbs_step(void)
{
	struct fv_qp *qp;

	fv_lock();
	qp = first_due();
	if (qp) {
		if (qp->run_at > clk.held_now)
			clk.held_now = qp->run_at;
		fv_qp_run(qp);
	}
	fv_unlock();
	return qp;
}
