/* SPDX-License-Identifier: Apache-2.0 */
/* Many threads that call, cancel, run out of time and answer later, on both sides of one link; then
 * the link goes while they are at it. Every call must end, once, with bytes that are right. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/libslime/rpc/pair.h"
#include "support/random.h"

enum { CALLERS = 3, IN_FLIGHT = 12, BYTES_MAX = 60000, ROUNDS = 250 };

struct caller {
	struct side *side;
	uint64_t seed;
	unsigned n_ended;
	unsigned n_good;
	unsigned n_wrong;
	bool link_ended;
	pthread_t thread;
};

struct answerer {
	struct shelf *shelf;
	_Atomic bool stop;
	pthread_t thread;
};

/* One of the caller's calls and its memory. */
struct job {
	struct slime_call *call;
	uint32_t seed;
	size_t len;
	bool pending;
	uint8_t *out;
	uint8_t *in;
};

static const char *const methods[] = { "echo", "echo_inline", "echo_in_place", "defer",
				       "defer_pool" };

/* Short ones mostly, as in life. */
static size_t some_length(uint64_t *seed)
{
	uint64_t kind = next_random(seed) % 10;

	if (kind < 6)
		return next_random(seed) % 1100;
	return kind < 9 ? next_random(seed) % 20000 : next_random(seed) % BYTES_MAX;
}

static bool start_job(struct caller *c, struct job *j)
{
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;

	j->seed = (uint32_t)next_random(&c->seed);
	j->len = some_length(&c->seed);
	pattern_fill(j->out, j->len, j->seed);
	args.method = slime_rpc_method_id(methods[next_random(&c->seed) % 5]);
	args.request = j->out;
	args.request_len = j->len;
	args.reply = next_random(&c->seed) % 4 ? j->in : NULL;
	args.reply_cap = j->len;
	if (next_random(&c->seed) % 8 == 0)
		args.timeout_ms = (int64_t)(next_random(&c->seed) % 3);
	if (slime_call_start(c->side->ep, &args, j->call))
		return false;
	j->pending = true;
	if (next_random(&c->seed) % 8 == 0)
		slime_call_cancel(j->call);
	return true;
}

static void end_job(struct caller *c, struct job *j)
{
	int ret;

	do {
		ret = slime_call_wait(j->call, PAIR_TIMEOUT_MS);
	} while (ret == -ETIMEDOUT && !slime_call_test(j->call));
	j->pending = false;
	c->n_ended++;
	switch (slime_call_status(j->call)) {
	case 0:
		c->n_good++;
		if (slime_call_reply_len(j->call) != j->len ||
		    !pattern_ok(slime_call_reply_data(j->call), j->len, j->seed))
			c->n_wrong++;
		break;
	case -ETIMEDOUT:
	case -ECANCELED:
		break;
	case -ECONNRESET:
	case -ENOTCONN:
		c->link_ended = true;
		break;
	default:
		c->n_wrong++;
		break;
	}
}

static void *call_much(void *arg)
{
	struct caller *c = arg;
	struct job jobs[IN_FLIGHT] = { 0 };

	for (int i = 0; i < IN_FLIGHT; i++) {
		jobs[i].out = malloc(BYTES_MAX);
		jobs[i].in = malloc(BYTES_MAX);
		if (slime_call_create(c->side->ctx, NULL, &jobs[i].call))
			abort();
	}
	for (int i = 0; i < ROUNDS; i++) {
		struct job *j = &jobs[i % IN_FLIGHT];

		if (j->pending)
			end_job(c, j);
		if (c->link_ended || !start_job(c, j))
			break;
	}
	for (int i = 0; i < IN_FLIGHT; i++) {
		if (jobs[i].pending)
			end_job(c, &jobs[i]);
		if (slime_call_destroy(jobs[i].call))
			c->n_wrong++;
		free(jobs[i].out);
		free(jobs[i].in);
	}
	return NULL;
}

/* Answers what was deferred, the newest first now and then. */
static void *answer_much(void *arg)
{
	struct answerer *a = arg;
	struct shelf *f = a->shelf;

	for (;;) {
		struct slime_rpc_request *req;

		pthread_mutex_lock(&f->lock);
		while (!f->n && !atomic_load(&a->stop))
			pthread_cond_wait(&f->changed, &f->lock);
		req = f->n ? f->requests[--f->n] : NULL;
		pthread_mutex_unlock(&f->lock);
		if (!req)
			return NULL;
		slime_rpc_reply(req, slime_rpc_request_data(req), slime_rpc_request_len(req));
	}
}

static void answerer_stop(struct answerer *a)
{
	pthread_mutex_lock(&a->shelf->lock);
	atomic_store(&a->stop, true);
	pthread_cond_broadcast(&a->shelf->changed);
	pthread_mutex_unlock(&a->shelf->lock);
	pthread_join(a->thread, NULL);
}

struct crowd {
	struct caller callers[2 * CALLERS];
	struct answerer answerers[2];
};

static void crowd_start(struct crowd *w, struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		w->answerers[i].shelf = i ? &p->b.shelf : &p->a.shelf;
		assert_int_equal(pthread_create(&w->answerers[i].thread, NULL, answer_much,
						&w->answerers[i]),
				 0);
	}
	for (uint32_t i = 0; i < 2 * CALLERS; i++) {
		struct caller *c = &w->callers[i];

		*c = (struct caller){ .side = i % 2 ? &p->b : &p->a, .seed = 7919 * (i + 1) };
		assert_int_equal(pthread_create(&c->thread, NULL, call_much, c), 0);
	}
}

static void crowd_join(struct crowd *w)
{
	for (int i = 0; i < 2 * CALLERS; i++) {
		pthread_join(w->callers[i].thread, NULL);
		assert_int_equal(w->callers[i].n_wrong, 0);
	}
}

static void calls__of_many_threads_both_ways_all_end(void **state)
{
	struct pair *p = *state;
	struct crowd *w = calloc(1, sizeof(*w));

	crowd_start(w, p);
	crowd_join(w);
	for (int i = 0; i < 2 * CALLERS; i++) {
		assert_int_equal(w->callers[i].n_ended, ROUNDS);
		assert_true(w->callers[i].n_good > 0);
	}
	for (int i = 0; i < 2; i++)
		answerer_stop(&w->answerers[i]);
	free(w);
}

static void close__while_many_threads_call_ends_all_calls(void **state)
{
	struct pair *p = *state;
	struct crowd *w = calloc(1, sizeof(*w));
	struct slime_endpoint_stats stats;

	crowd_start(w, p);
	do {
		slime_endpoint_stats(p->a.ep, &stats);
	} while (stats.kinds[SLIME_KIND_SERVE].completed < 30);
	slime_endpoint_close(p->a.ep);
	crowd_join(w);
	pair_drop(&p->a);
	pair_drop(&p->b);
	for (int i = 0; i < 2; i++)
		answerer_stop(&w->answerers[i]);
	free(w);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		IN_PAIR(calls__of_many_threads_both_ways_all_end),
		IN_PAIR(close__while_many_threads_call_ends_all_calls),
	};

	return PAIR_RUN("rpc threads", tests);
}
