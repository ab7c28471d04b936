/* SPDX-License-Identifier: Apache-2.0 */
/* Several threads on one link and one context; run under the thread sanitizer, too. */
#include "fixture.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#define THREADS 4
#define ROUNDS	500
#define SHARE	(64 * KiB)

struct worker {
	struct pair *p;
	pthread_t thread;
	uint64_t id;
	struct slime_op *op;
	struct slime_op *op_b;
	uint64_t n_bad;
};

/* How a submission went, and if it was accepted, how it ended. */
static int in_the_end(int ret, struct slime_op *op)
{
	if (!ret)
		ret = slime_op_wait(op, PATIENCE_MS);
	return ret ? ret : slime_op_status(op);
}

static void run_threads(struct pair *p, void *(*fn)(void *arg))
{
	struct worker workers[THREADS];

	for (uint64_t i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .p = p, .id = i };
		workers[i].op = op_new(p->a.ctx);
		workers[i].op_b = op_new(p->b.ctx);
		assert_ok(pthread_create(&workers[i].thread, NULL, fn, &workers[i]));
	}
	for (int i = 0; i < THREADS; i++)
		assert_ok(pthread_join(workers[i].thread, NULL));
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(workers[i].n_bad, 0);
		assert_ok(slime_op_destroy(workers[i].op));
		assert_ok(slime_op_destroy(workers[i].op_b));
	}
}

/* Each writes its pattern to its share of the peer, reads it back elsewhere and compares. */
static void *write_and_read(void *arg)
{
	struct worker *w = arg;
	uint64_t seed = w->id, mine = w->id * 2 * SHARE;

	for (uint64_t i = 0; i < rounds(ROUNDS); i++) {
		uint64_t len = next_random(&seed) % SHARE;
		struct slime_xfer out = a_and_b(w->p, mine, mine, len);
		struct slime_xfer back = a_and_b(w->p, mine + SHARE, mine, len);

		pattern_fill(w->p->a.bytes + mine, len, seed, 0);
		w->n_bad += in_the_end(slime_write(w->p->a.ep, &out, 1, 0, w->op), w->op) != 0;
		w->n_bad += in_the_end(slime_read(w->p->a.ep, &back, 1, 0, w->op), w->op) != 0;
		w->n_bad += !pattern_matches(w->p->a.bytes + mine + SHARE, len, seed, 0);
	}
	return NULL;
}

static void submit__from_several_threads_keeps_every_byte(void **state)
{
	run_threads(*state, write_and_read);
}

/* Each thread talks to itself across the link under its own tag. */
static void *send_and_receive(void *arg)
{
	struct worker *w = arg;
	struct pair *p = w->p;
	uint64_t seed = w->id, mine = w->id * SHARE;

	for (uint64_t i = 0; i < rounds(ROUNDS); i++) {
		uint64_t len = next_random(&seed) % (i % 2 ? SHARE : 1200);

		pattern_fill(p->a.bytes + mine, len, seed, 0);
		w->n_bad += slime_send(p->a.ep, p->a.mr, mine, len, w->id, w->op) != 0;
		w->n_bad += in_the_end(slime_recv(p->b.ep, p->b.mr, mine, SHARE, w->id,
						  SLIME_TAG_ALL, w->op_b),
				       w->op_b) != 0;
		w->n_bad += slime_op_bytes(w->op_b) != len;
		w->n_bad += !pattern_matches(p->b.bytes + mine, len, seed, 0);
		w->n_bad += in_the_end(0, w->op) != 0;
	}
	return NULL;
}

static void send__from_several_threads_reaches_each_receiver(void **state)
{
	run_threads(*state, send_and_receive);
}

/* Who takes which immediate is open; each is taken once, so the counts agree. */
static void *count_immediates(void *arg)
{
	struct worker *w = arg;

	for (uint64_t i = 0; i < rounds(ROUNDS); i++) {
		w->n_bad += slime_write_imm(w->p->a.ep, NULL, 0, 0, (uint32_t)w->id, w->op) != 0;
		w->n_bad += in_the_end(slime_imm_recv(w->p->b.ep, w->op_b), w->op_b) != 0;
		w->n_bad += slime_op_imm(w->op_b) >= THREADS;
		w->n_bad += in_the_end(0, w->op) != 0;
	}
	return NULL;
}

static void write_imm__from_several_threads_is_delivered_each_once(void **state)
{
	struct pair *p = *state;
	struct slime_endpoint_stats stats;

	run_threads(p, count_immediates);
	slime_endpoint_stats(p->b.ep, &stats);
	assert_int_equal(stats.kinds[SLIME_KIND_IMM_RECV].completed, THREADS * rounds(ROUNDS));
}

/* Several wait for the same op, which ends once. */
struct waiter {
	struct slime_op *op;
	pthread_t thread;
	int ret;
};

static void *wait_for_it(void *arg)
{
	struct waiter *w = arg;

	w->ret = slime_op_wait(w->op, PATIENCE_MS);
	return NULL;
}

static void op_wait__by_several_threads_wakes_them_all(void **state)
{
	struct pair *p = *state;

	for (int round = 0; round < 50; round++) {
		struct waiter waiters[THREADS];

		assert_ok(slime_imm_recv(p->b.ep, p->b.op));
		for (int i = 0; i < THREADS; i++) {
			waiters[i].op = p->b.op;
			assert_ok(
				pthread_create(&waiters[i].thread, NULL, wait_for_it, &waiters[i]));
		}
		assert_ok(slime_write_imm(p->a.ep, NULL, 0, 0, 1, p->a.op));
		op_end_ok(p->a.op);
		for (int i = 0; i < THREADS; i++) {
			assert_ok(pthread_join(waiters[i].thread, NULL));
			assert_ok(waiters[i].ret);
		}
	}
}

/* Submits until the link is gone; every op that was accepted ends. */
static void *submit_until_closed(void *arg)
{
	struct worker *w = arg;
	struct slime_xfer x = a_and_b(w->p, w->id * SHARE, w->id * SHARE, SHARE);
	uint64_t own = THREADS * SHARE + w->id * 64;
	int ret;

	do {
		ret = slime_read(w->p->a.ep, &x, 1, 0, w->op);
		if (!ret)
			ret = in_the_end(0, w->op);
		if (!ret) {
			ret = slime_send(w->p->a.ep, w->p->a.mr, own, 8, 0, w->op);
			if (!ret)
				ret = in_the_end(
					slime_recv(w->p->b.ep, w->p->b.mr, own, 8, 0, 0, w->op_b),
					w->op_b);
			(void)in_the_end(0, w->op);
			(void)in_the_end(0, w->op_b);
		}
	} while (!ret);
	w->n_bad += ret != -ENOTCONN && ret != -ECANCELED && ret != -ECONNRESET;
	w->n_bad += !slime_op_test(w->op) || !slime_op_test(w->op_b);
	return NULL;
}

static void *close_soon(void *arg)
{
	struct pair *p = arg;
	struct slime_endpoint_stats stats;

	do {
		sched_yield();
		slime_endpoint_stats(p->a.ep, &stats);
	} while (stats.kinds[SLIME_KIND_READ].completed < 50);
	slime_endpoint_close(p->a.ep);
	return NULL;
}

static void close__while_others_submit_ends_all_they_submitted(void **state)
{
	(void)state;
	for (int round = 0; round < 5; round++) {
		struct pair *p = pair_open(NULL);
		pthread_t closer;

		assert_ok(pthread_create(&closer, NULL, close_soon, p));
		run_threads(p, submit_until_closed);
		assert_ok(pthread_join(closer, NULL));
		pair_close(p);
	}
}

/* Links come and go in several threads while one of them works. */
static void *open_and_close(void *arg)
{
	struct worker *w = arg;
	for (int i = 0; i < 10; i++) {
		struct slime_endpoint *ep;
		uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
		struct slime_endpoint_attr ep_attr = SLIME_ENDPOINT_ATTR_INIT;

		ep_attr.transports[0] = fixture_transport;
		if (slime_endpoint_create(w->p->a.ctx, &ep_attr, &ep)) {
			w->n_bad++;
			continue;
		}
		w->n_bad += slime_endpoint_export(ep, desc, sizeof(desc)) <= 0;
		w->n_bad += slime_endpoint_destroy(ep) != 0;
		w->n_bad += write_and_read(w) != NULL;
		if (w->id)
			break;
	}
	return NULL;
}

static void endpoint_create__beside_working_threads_disturbs_none(void **state)
{
	run_threads(*state, open_and_close);
}

static const struct CMUnitTest tests[] = {
	IN_PAIR(submit__from_several_threads_keeps_every_byte),
	IN_PAIR(send__from_several_threads_reaches_each_receiver),
	IN_PAIR(write_imm__from_several_threads_is_delivered_each_once),
	IN_PAIR(op_wait__by_several_threads_wakes_them_all),
	cmocka_unit_test(close__while_others_submit_ends_all_they_submitted),
	IN_PAIR(endpoint_create__beside_working_threads_disturbs_none),
};

FIXTURE_MAIN("threads")
