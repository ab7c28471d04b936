/* SPDX-License-Identifier: Apache-2.0 */
/* Futures: reuse, waits, callbacks, the queue and its descriptor, contexts without a thread. */
#include "fixture.h"

#include <sched.h>

#include <poll.h>
#include <semaphore.h>
#include <stdlib.h>

static struct slime_op *op_with(struct end *e, slime_op_fn *fn, void *arg)
{
	struct slime_op_attr attr = { .fn = fn, .arg = arg };
	struct slime_op *op;

	assert_ok(slime_op_create(e->ctx, &attr, &op));
	return op;
}

static void op__is_reused_without_end(void **state)
{
	struct pair *p = *state;
	struct slime_xfer x = a_and_b(p, 0, 0, 64);

	for (uint64_t i = 0; i < 1000; i++) {
		pattern_fill(p->b.bytes, 64, i, 0);
		assert_ok(read_now(p, &x));
		assert_pattern(p->a.bytes, 64, i, 0);
	}
}

static void op_test__of_an_op_never_submitted_is_true(void **state)
{
	struct pair *p = *state;

	assert_true(slime_op_test(p->a.op));
	assert_ok(slime_op_wait(p->a.op, 0));
}

static void op_wait__past_its_time_leaves_the_op_pending(void **state)
{
	struct pair *p = *state;
	uint64_t begin = now_ms();

	assert_ok(slime_imm_recv(p->b.ep, p->b.op));
	assert_int_equal(slime_op_wait(p->b.op, 0), -ETIMEDOUT);
	assert_int_equal(slime_op_wait(p->b.op, 50), -ETIMEDOUT);
	assert_true(now_ms() - begin >= 50);
	assert_false(slime_op_test(p->b.op));

	assert_ok(slime_write_imm(p->a.ep, NULL, 0, 0, 9, p->a.op));
	op_end_ok(p->a.op);
	op_end_ok(p->b.op);
	assert_int_equal(slime_op_imm(p->b.op), 9);
}

static void set_flag(void *arg, struct slime_op *op)
{
	_Atomic bool *flag = arg;

	(void)op;
	*flag = true;
}

/* The context's thread does what its owner does not wait for, also just after he waited for
 * another. */
static void op__that_nobody_waits_for_completes(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	uint64_t end = now_ms() + PATIENCE_MS;
	_Atomic bool done = false;
	struct slime_xfer x;
	struct slime_op *op;
	struct pair *p;

	(void)state;
	attr.len = 4 * MiB;
	p = pair_open(&attr);
	x = a_and_b(p, 0, 0, attr.len);
	op = op_with(&p->a, set_flag, &done);
	assert_ok(read_now(p, &x));
	assert_ok(slime_read(p->a.ep, &x, 1, 0, op));
	while (!done && now_ms() < end)
		sched_yield();
	assert_true(done);
	op_end_ok(op);
	assert_ok(slime_op_destroy(op));
	pair_close(p);
}

/* Nobody else makes progress of a's context. */
static void op_test__of_a_manual_context_makes_progress(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	uint64_t end = now_ms() + PATIENCE_MS;
	struct slime_xfer x;
	struct pair *p;

	(void)state;
	attr.manual_a = true;
	attr.len = 4 * MiB;
	p = pair_open(&attr);
	pattern_fill(p->b.bytes, attr.len, 3, 0);
	x = a_and_b(p, 0, 0, attr.len);
	assert_ok(slime_read(p->a.ep, &x, 1, 0, p->a.op));
	while (!slime_op_test(p->a.op) && now_ms() < end)
		;
	assert_true(slime_op_test(p->a.op));
	assert_ok(slime_op_status(p->a.op));
	assert_pattern(p->a.bytes, attr.len, 3, 0);
	pair_close(p);
}

struct looker {
	struct slime_op *other; /* of the same context, whose end only progress finds */
	_Atomic bool was_pending, done;
};

static void look_at_other(void *arg, struct slime_op *op)
{
	struct looker *l = arg;

	(void)op;
	l->was_pending = true;
	for (int i = 0; i < 1000; i++)
		l->was_pending &= !slime_op_test(l->other);
	l->done = true;
}

static void op_test__inside_a_callback_only_looks(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	uint64_t end = now_ms() + PATIENCE_MS;
	struct looker l = { 0 };
	struct slime_op *op;
	struct slime_xfer x;
	struct pair *p;

	(void)state;
	attr.manual_a = true;
	attr.len = 4 * MiB;
	p = pair_open(&attr);
	x = a_and_b(p, 0, 0, 8);
	l.other = p->a.op;
	op = op_with(&p->a, look_at_other, &l);
	assert_ok(slime_imm_recv(p->a.ep, p->a.op));
	assert_ok(slime_read(p->a.ep, &x, 1, 0, op));
	while (!l.done && now_ms() < end)
		assert_true(slime_context_poll(p->a.ctx) >= 0);
	assert_true(l.was_pending);
	assert_ok(slime_write_imm(p->b.ep, NULL, 0, 0, 9, p->b.op));
	while (!slime_op_test(p->a.op) && now_ms() < end)
		;
	op_end_ok(p->a.op);
	op_end_ok(p->b.op);
	assert_ok(slime_op_destroy(op));
	pair_close(p);
}

static void submit__of_a_pending_op_is_busy(void **state)
{
	struct pair *p = *state;
	struct slime_xfer x = a_and_b(p, 0, 0, 64);

	assert_ok(slime_imm_recv(p->a.ep, p->a.op));
	assert_int_equal(slime_read(p->a.ep, &x, 1, 0, p->a.op), -EBUSY);
	assert_int_equal(slime_write(p->a.ep, &x, 1, 0, p->a.op), -EBUSY);
	assert_int_equal(slime_write_imm(p->a.ep, &x, 1, 0, 1, p->a.op), -EBUSY);
	assert_int_equal(slime_imm_recv(p->a.ep, p->a.op), -EBUSY);
	assert_int_equal(slime_send(p->a.ep, p->a.mr, 0, 1, 0, p->a.op), -EBUSY);
	assert_int_equal(slime_recv(p->a.ep, p->a.mr, 0, 1, 0, 0, p->a.op), -EBUSY);
	assert_int_equal(slime_op_destroy(p->a.op), -EBUSY);

	slime_endpoint_close(p->a.ep);
	assert_int_equal(op_end(p->a.op), -ECANCELED);
}

/* Who waits for it would look after the wrong context. */
static void submit__of_an_op_of_another_context_is_refused(void **state)
{
	struct pair *p = *state;
	struct slime_xfer x = a_and_b(p, 0, 0, 64);
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	int len = slime_endpoint_export(p->b.ep, desc, sizeof(desc));

	assert_true(len > 0);
	assert_int_equal(slime_endpoint_connect(p->a.ep, desc, (size_t)len, 0, p->b.op), -EINVAL);
	assert_int_equal(slime_read(p->a.ep, &x, 1, 0, p->b.op), -EINVAL);
	assert_int_equal(slime_write(p->a.ep, &x, 1, 0, p->b.op), -EINVAL);
	assert_int_equal(slime_write_imm(p->a.ep, &x, 1, 0, 1, p->b.op), -EINVAL);
	assert_int_equal(slime_imm_recv(p->a.ep, p->b.op), -EINVAL);
	assert_int_equal(slime_send(p->a.ep, p->a.mr, 0, 1, 0, p->b.op), -EINVAL);
	assert_int_equal(slime_recv(p->a.ep, p->a.mr, 0, 1, 0, 0, p->b.op), -EINVAL);
	assert_true(slime_op_test(p->b.op));
}

static void op_create__with_nonsense_is_refused(void **state)
{
	struct pair *p = *state;
	struct slime_op_attr unknown = { .flags = 1u << 30 };
	struct slime_op *op;

	assert_int_equal(slime_op_create(p->a.ctx, &unknown, &op), -EINVAL);
	assert_ok(slime_op_destroy(NULL));
}

static void submit__beyond_max_pending_ops_is_refused_until_one_completed(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	struct slime_op *ops[3];
	struct pair *p;

	(void)state;
	attr.max_pending_ops = 2;
	p = pair_open(&attr);
	for (int i = 0; i < 3; i++)
		ops[i] = op_new(p->a.ctx);

	assert_ok(slime_imm_recv(p->a.ep, ops[0]));
	assert_ok(slime_imm_recv(p->a.ep, ops[1]));
	assert_int_equal(slime_imm_recv(p->a.ep, ops[2]), -EAGAIN);
	assert_int_equal(slime_recv(p->a.ep, p->a.mr, 0, 1, 0, 0, ops[2]), -EAGAIN);
	assert_true(slime_op_test(ops[2]));

	assert_ok(slime_write_imm(p->b.ep, NULL, 0, 0, 1, p->b.op));
	op_end_ok(ops[0]);
	assert_ok(slime_imm_recv(p->a.ep, ops[2]));
	slime_endpoint_close(p->a.ep);
	for (int i = 0; i < 3; i++)
		(void)op_end(ops[i]);
	op_end_ok(p->b.op);
	for (int i = 0; i < 3; i++)
		assert_ok(slime_op_destroy(ops[i]));
	pair_close(p);
}

/* ---- callbacks ---- */

struct seen {
	struct pair *p;
	struct slime_op *op;
	struct slime_xfer x;
	_Atomic int n;
	int left;
	int status;
	int inner_wait;
	int inner_poll;
	int inner_destroy;
	_Atomic bool submitting;
	_Atomic bool inside_submit;
};

static bool await(_Atomic int *n, int want)
{
	uint64_t end = now_ms() + PATIENCE_MS;

	while (*n < want && now_ms() < end)
		poll(NULL, 0, 1);
	return *n == want;
}

static void count_it(void *arg, struct slime_op *op)
{
	struct seen *s = arg;

	s->inside_submit = s->submitting;
	s->status = slime_op_status(op);
	s->n++;
}

static void callback__runs_once_with_the_result(void **state)
{
	struct pair *p = *state;
	struct seen s = { .p = p, .x = a_and_b(p, 0, 0, 64) };
	struct slime_op *op = op_with(&p->a, count_it, &s);

	assert_ptr_equal(slime_op_arg(op), &s);
	for (int i = 1; i <= 100; i++) {
		assert_ok(slime_read(p->a.ep, &s.x, 1, 0, op));
		assert_true(await(&s.n, i));
		assert_ok(s.status);
		op_end_ok(op);
	}
	assert_ok(slime_op_destroy(op));
}

/* A context without a thread: whoever runs the callback is the one who polls. */
static void callback__of_a_manual_context_waits_for_a_poll(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	struct seen s = { 0 };
	struct slime_op *op;
	uint64_t end = now_ms() + PATIENCE_MS;

	(void)state;
	attr.manual_a = true;
	s.p = pair_open(&attr);
	s.x = a_and_b(s.p, 0, 0, 64);
	op = op_with(&s.p->a, count_it, &s);
	s.submitting = true;
	assert_ok(slime_read(s.p->a.ep, &s.x, 1, 0, op));
	s.submitting = false;
	assert_int_equal(s.n, 0);
	while (!s.n && now_ms() < end)
		assert_true(slime_context_poll(s.p->a.ctx) >= 0);
	assert_int_equal(s.n, 1);
	assert_false(s.inside_submit);
	assert_ok(slime_op_destroy(op));
	pair_close(s.p);
}

static void resubmit(void *arg, struct slime_op *op)
{
	struct seen *s = arg;

	if (--s->left > 0 && slime_read(s->p->a.ep, &s->x, 1, 0, op))
		return;
	s->n++;
}

static void callback__may_submit_its_op_again(void **state)
{
	struct pair *p = *state;
	struct seen s = { .p = p, .x = a_and_b(p, 0, 0, 64), .left = 1000 };
	struct slime_op *op = op_with(&p->a, resubmit, &s);

	assert_ok(slime_read(p->a.ep, &s.x, 1, 0, op));
	assert_true(await(&s.n, 1000));
	op_end_ok(op);
	assert_ok(slime_op_destroy(op));
}

static void destroy_it(void *arg, struct slime_op *op)
{
	struct seen *s = arg;

	s->inner_destroy = slime_op_destroy(op);
	s->n++;
}

static void callback__may_destroy_its_op(void **state)
{
	struct pair *p = *state;
	struct seen s = { .p = p, .x = a_and_b(p, 0, 0, 64) };
	struct slime_op *op = op_with(&p->a, destroy_it, &s);

	assert_ok(slime_read(p->a.ep, &s.x, 1, 0, op));
	assert_true(await(&s.n, 1));
	assert_ok(s.inner_destroy);
}

static void wait_inside(void *arg, struct slime_op *op)
{
	struct seen *s = arg;

	(void)op;
	s->inner_wait = slime_op_wait(s->op, -1);
	s->inner_poll = slime_context_poll(s->p->a.ctx);
	s->inner_destroy = slime_endpoint_destroy(s->p->a.ep);
	s->n++;
}

static void callback__that_waits_is_told_of_the_deadlock(void **state)
{
	struct pair *p = *state;
	struct seen s = { .p = p, .x = a_and_b(p, 0, 0, 64), .op = p->a.op };
	struct slime_op *op = op_with(&p->a, wait_inside, &s);

	assert_ok(slime_imm_recv(p->a.ep, p->a.op));
	assert_ok(slime_read(p->a.ep, &s.x, 1, 0, op));
	assert_true(await(&s.n, 1));
	assert_int_equal(s.inner_wait, -EDEADLK);
	assert_int_equal(s.inner_poll, -EDEADLK);
	assert_int_equal(s.inner_destroy, -EDEADLK);
	op_end_ok(op);
	assert_ok(slime_op_destroy(op));
	slime_endpoint_close(p->a.ep);
	(void)op_end(p->a.op);
}

static void callback__of_a_failed_op_has_its_status(void **state)
{
	struct pair *p = *state;
	struct seen s = { .p = p };
	struct slime_op *op = op_with(&p->a, count_it, &s);

	assert_ok(slime_imm_recv(p->a.ep, op));
	slime_endpoint_close(p->a.ep);
	assert_true(await(&s.n, 1));
	assert_int_equal(s.status, -ECANCELED);
	assert_int_equal(op_end(op), -ECANCELED);
	assert_ok(slime_op_destroy(op));
}

/* ---- other threads while a callback runs ---- */

/* Another thread looks at an op each time that its callback asks for it. */
struct onlooker {
	struct pair *p;
	struct slime_op *op;
	struct slime_xfer x;
	sem_t look, looked;
	_Atomic bool over; /* it looks no more */
	bool saw_pending;
	int left;     /* times that the callback submits the op again */
	bool refused; /* before that the callback submits it in vain */
	_Atomic int n_wrong;
	_Atomic bool returned; /* the last callback is at its end */
};

static void *look_on(void *arg)
{
	struct onlooker *o = arg;

	for (;;) {
		sem_wait(&o->look);
		if (o->over)
			return NULL;
		o->saw_pending = !slime_op_test(o->op) && slime_op_destroy(o->op) == -EBUSY &&
				 slime_read(o->p->a.ep, &o->x, 1, 0, o->op) == -EBUSY &&
				 slime_op_wait(o->op, 0) == -ETIMEDOUT;
		sem_post(&o->looked);
	}
}

static void expect(struct onlooker *o, bool right)
{
	o->n_wrong += !right;
}

static void expect_pending(struct onlooker *o)
{
	sem_post(&o->look);
	sem_wait(&o->looked);
	expect(o, o->saw_pending);
}

/* To the callback itself the op is idle until it submits it. */
static void be_looked_at(void *arg, struct slime_op *op)
{
	struct onlooker *o = arg;
	struct slime_xfer outside = o->x;

	expect(o, slime_op_test(op) && slime_op_wait(op, 0) == 0);
	expect_pending(o);
	outside.remote_offset = MiB;
	if (o->refused) {
		expect(o, slime_read(o->p->a.ep, &outside, 1, 0, op) == -ERANGE);
		expect(o, slime_op_test(op));
		expect_pending(o);
	}
	if (o->left-- > 0) {
		expect(o, slime_read(o->p->a.ep, &o->x, 1, 0, op) == 0);
		expect(o, !slime_op_test(op) && slime_op_destroy(op) == -EBUSY);
		expect(o, slime_read(o->p->a.ep, &o->x, 1, 0, op) == -EBUSY);
		expect_pending(o);
		return;
	}
	o->returned = true;
}

static void look_while_called_back(struct pair *p, int resubmits, bool refused)
{
	struct onlooker o = { .p = p, .x = a_and_b(p, 0, 0, 64), .left = resubmits };
	pthread_t thread;

	o.refused = refused;
	o.op = op_with(&p->a, be_looked_at, &o);
	sem_init(&o.look, 0, 0);
	sem_init(&o.looked, 0, 0);
	assert_ok(pthread_create(&thread, NULL, look_on, &o));
	assert_ok(slime_read(p->a.ep, &o.x, 1, 0, o.op));
	op_end_ok(o.op);
	assert_true(o.returned);
	assert_int_equal(o.n_wrong, 0);
	assert_ok(slime_op_destroy(o.op));
	o.over = true;
	sem_post(&o.look);
	pthread_join(thread, NULL);
	sem_destroy(&o.look);
	sem_destroy(&o.looked);
}

static void callback__keeps_its_op_pending_to_other_threads(void **state)
{
	look_while_called_back(*state, 0, false);
}

static void callback__whose_submit_is_refused_keeps_its_op_pending_to_other_threads(void **state)
{
	look_while_called_back(*state, 0, true);
}

static void callback__that_submits_its_op_again_keeps_it_pending_to_other_threads(void **state)
{
	look_while_called_back(*state, 3, true);
}

/* An op that one thread submits and another destroys as soon as it may. */
struct reaped {
	struct slime_op *_Atomic op; /* to be destroyed; NULL: it was */
	_Atomic bool returned;
	_Atomic bool early; /* one was destroyed before its callback had returned */
	_Atomic bool over;
};

static void read_it_slowly(void *arg, struct slime_op *op)
{
	struct reaped *r = arg;

	for (int i = 0; i < 3; i++) {
		sched_yield();
		(void)slime_op_status(op);
		(void)slime_op_bytes(op);
	}
	r->returned = slime_op_arg(op) == r;
}

static void *reap(void *arg)
{
	struct reaped *r = arg;

	while (!r->over) {
		struct slime_op *op = r->op;

		if (!op || slime_op_destroy(op) == -EBUSY) {
			sched_yield();
			continue;
		}
		r->early |= !r->returned;
		r->op = NULL;
	}
	return NULL;
}

static void callback__beside_a_thread_that_destroys_its_op_has_it_until_it_returns(void **state)
{
	struct pair *p = *state;
	struct reaped r = { 0 };
	struct slime_xfer x = a_and_b(p, 0, 0, 64);
	pthread_t thread;

	assert_ok(pthread_create(&thread, NULL, reap, &r));
	for (uint64_t i = 0; i < rounds(300); i++) {
		struct slime_op *op = op_with(&p->a, read_it_slowly, &r);
		uint64_t end = now_ms() + PATIENCE_MS;

		r.returned = false;
		x.len = i % 3 ? 64 : 0;
		assert_ok(slime_read(p->a.ep, &x, 1, 0, op));
		r.op = op;
		while (r.op && now_ms() < end)
			sched_yield();
		assert_null(r.op);
	}
	r.over = true;
	pthread_join(thread, NULL);
	assert_false(r.early);
}

/* ---- callbacks that submit for ever ---- */

#define STORM_OPS 8
#define STORM_LEN (MiB / STORM_OPS)
/* Callbacks end by themselves then, so that a wait that they hold up comes back. */
#define STORM_MS 20000
/* A wait may be late by so much, under a sanitizer on a busy machine. */
#define LATE_MS 5000

struct storm {
	struct pair *p;
	struct slime_op *ops[STORM_OPS];
	struct slime_xfer x[STORM_OPS];
	uint64_t end_ms;
	_Atomic bool over;
};

static void submit_for_ever(void *arg, struct slime_op *op)
{
	struct storm *s = arg;
	int i = 0;

	while (s->ops[i] != op)
		i++;
	if (s->over || slime_op_status(op) || now_ms() > s->end_ms)
		return;
	if (i % 2)
		(void)!slime_read(s->p->a.ep, &s->x[i], 1, 0, op);
	else
		(void)!slime_write(s->p->a.ep, &s->x[i], 1, 0, op);
}

static void storm_begin(struct storm *s, struct pair *p)
{
	*s = (struct storm){ .p = p, .end_ms = now_ms() + STORM_MS };
	for (int i = 0; i < STORM_OPS; i++) {
		uint64_t at = (uint64_t)i * STORM_LEN;

		s->x[i] = a_and_b(p, at, at, STORM_LEN);
		s->ops[i] = op_with(&p->a, submit_for_ever, s);
	}
	for (int i = 0; i < STORM_OPS; i++)
		assert_ok(slime_read(p->a.ep, &s->x[i], 1, 0, s->ops[i]));
}

static void storm_end(struct storm *s)
{
	assert_true(now_ms() < s->end_ms);
	s->over = true;
	for (int i = 0; i < STORM_OPS; i++) {
		op_end_ok(s->ops[i]);
		assert_ok(slime_op_destroy(s->ops[i]));
	}
}

/* One that nobody answers, and one of the storm's own. */
static void waits_end_in_time(struct storm *s)
{
	struct slime_op *waited[] = { s->p->a.op, s->ops[0] };
	const int64_t timeouts_ms[] = { 0, 1, 100 };

	assert_ok(slime_imm_recv(s->p->a.ep, s->p->a.op));
	for (int i = 0; i < 2; i++) {
		for (int k = 0; k < 3; k++) {
			uint64_t began = now_ms();

			assert_int_equal(slime_op_wait(waited[i], timeouts_ms[k]), -ETIMEDOUT);
			assert_in_range(now_ms() - began, 0, (uint64_t)timeouts_ms[k] + LATE_MS);
			assert_true(slime_context_poll(s->p->a.ctx) >= 0);
			assert_in_range(now_ms() - began, 0, (uint64_t)timeouts_ms[k] + LATE_MS);
		}
	}
}

/* A may have no thread. */
static void end_imm_recv(struct pair *p)
{
	uint64_t end = now_ms() + PATIENCE_MS;

	assert_ok(slime_write_imm(p->b.ep, NULL, 0, 0, 1, p->b.op));
	while (!slime_op_test(p->b.op) && now_ms() < end)
		assert_true(slime_context_poll(p->a.ctx) >= 0);
	op_end_ok(p->b.op);
	op_end_ok(p->a.op);
}

static void op_wait__beside_callbacks_that_submit_for_ever_ends_in_time(void **state)
{
	struct storm s;

	storm_begin(&s, *state);
	waits_end_in_time(&s);
	end_imm_recv(*state);
	storm_end(&s);
}

/* Nobody else makes progress. */
static void
op_wait__of_a_manual_context_beside_callbacks_that_submit_for_ever_ends_in_time(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	struct pair *p;
	struct storm s;

	(void)state;
	attr.manual_a = true;
	p = pair_open(&attr);
	storm_begin(&s, p);
	waits_end_in_time(&s);
	end_imm_recv(p);
	storm_end(&s);
	pair_close(p);
}

/* ---- the queue ---- */

#define QUEUED_OPS 50

static void queued_ops__come_out_of_the_context_each_once(void **state)
{
	struct pair *p = *state;
	struct slime_op_attr attr = { .flags = SLIME_OP_QUEUED };
	struct pollfd fd = { .fd = slime_context_fd(p->a.ctx), .events = POLLIN };
	struct slime_op *ops[QUEUED_OPS];
	struct slime_xfer x = a_and_b(p, 0, 0, 64);
	int seen[QUEUED_OPS] = { 0 };
	struct slime_event event;
	int n = 0;

	assert_false(slime_context_next(p->a.ctx, &event));
	for (int i = 0; i < QUEUED_OPS; i++) {
		attr.arg = &seen[i];
		assert_ok(slime_op_create(p->a.ctx, &attr, &ops[i]));
		assert_ok(slime_read(p->a.ep, &x, 1, 0, ops[i]));
	}
	while (n < QUEUED_OPS && poll(&fd, 1, PATIENCE_MS) == 1) {
		while (slime_context_next(p->a.ctx, &event)) {
			assert_int_equal(event.kind, SLIME_EVENT_OP);
			assert_ok(slime_op_status(event.op));
			++*(int *)slime_op_arg(event.op);
			n++;
		}
	}
	assert_int_equal(n, QUEUED_OPS);
	for (int i = 0; i < QUEUED_OPS; i++) {
		assert_int_equal(seen[i], 1);
		assert_ok(slime_op_destroy(ops[i]));
	}
}

static void queued_op__stays_pending_until_it_was_taken(void **state)
{
	struct pair *p = *state;
	struct slime_op_attr attr = { .flags = SLIME_OP_QUEUED };
	struct pollfd fd = { .fd = slime_context_fd(p->a.ctx), .events = POLLIN };
	struct slime_xfer x = a_and_b(p, 0, 0, 64);
	struct slime_event event;
	struct slime_op *op;

	assert_ok(slime_op_create(p->a.ctx, &attr, &op));
	assert_ok(slime_read(p->a.ep, &x, 1, 0, op));
	assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
	assert_int_equal(slime_op_destroy(op), -EBUSY);
	assert_true(slime_context_next(p->a.ctx, &event));
	assert_ptr_equal(event.op, op);
	assert_ok(slime_op_destroy(op));
}

static void op_create__queued_with_a_callback_is_refused(void **state)
{
	struct pair *p = *state;
	struct slime_op_attr attr = { .fn = count_it, .flags = SLIME_OP_QUEUED };
	struct slime_op *op;

	assert_int_equal(slime_op_create(p->a.ctx, &attr, &op), -EINVAL);
}

/* ---- manual contexts ---- */

/* As slime/context.h shows it. */
static void sleep_armed(struct slime_context *ctx, struct slime_op *op)
{
	struct pollfd fd = { .fd = slime_context_fd(ctx), .events = POLLIN };
	uint64_t end = now_ms() + PATIENCE_MS;

	while (!slime_op_test(op) && now_ms() < end) {
		while (slime_context_poll(ctx) > 0 || slime_context_arm(ctx) == -EAGAIN)
			;
		if (!slime_op_test(op))
			poll(&fd, 1, PATIENCE_MS);
	}
	assert_true(slime_op_test(op));
}

/* Those that completed in the submit, or in the last poll before the sleep. */
static void manual_context__descriptor_tells_of_queued_ops(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	struct slime_op_attr queued = { .flags = SLIME_OP_QUEUED };
	struct slime_event event;
	struct pair *p;
	struct pollfd fd;
	struct slime_op *op;
	struct slime_xfer x;

	(void)state;
	attr.manual_a = true;
	p = pair_open(&attr);
	fd = (struct pollfd){ .fd = slime_context_fd(p->a.ctx), .events = POLLIN };
	x = a_and_b(p, 0, 0, 64);
	assert_ok(slime_op_create(p->a.ctx, &queued, &op));
	for (int i = 0; i < 100; i++) {
		assert_ok(slime_read(p->a.ep, &x, 1, 0, op));
		do {
			while (slime_context_poll(p->a.ctx) > 0 ||
			       slime_context_arm(p->a.ctx) == -EAGAIN)
				;
			assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
		} while (!slime_context_next(p->a.ctx, &event));
		assert_ok(slime_op_status(op));
	}
	assert_ok(slime_op_destroy(op));
	pair_close(p);
}

static void manual_context__is_woken_through_its_descriptor(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	struct pair *p;

	(void)state;
	attr.manual_a = true;
	p = pair_open(&attr);
	for (uint32_t i = 0; i < 50; i++) {
		assert_ok(slime_imm_recv(p->a.ep, p->a.op));
		assert_ok(slime_write_imm(p->b.ep, NULL, 0, 0, i, p->b.op));
		sleep_armed(p->a.ctx, p->a.op);
		assert_ok(slime_op_status(p->a.op));
		assert_int_equal(slime_op_imm(p->a.op), i);
		op_end_ok(p->b.op);
	}
	pair_close(p);
}

#define BURST 60

/* All of it has come before anybody looks, with nothing after it that would wake a sleeper again.
 */
static void check_burst(enum slime_polling polling)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	struct slime_op *sent[BURST], *received[BURST];
	struct pair *p;

	attr.manual_a = true;
	attr.polling = polling;
	p = pair_open(&attr);
	for (size_t i = 0; i < BURST; i++) {
		received[i] = op_new(p->a.ctx);
		assert_ok(slime_recv(p->a.ep, p->a.mr, i * 64, 64, i, SLIME_TAG_ALL, received[i]));
	}
	for (size_t i = 0; i < BURST; i++) {
		sent[i] = op_new(p->b.ctx);
		assert_ok(slime_send(p->b.ep, p->b.mr, i * 64, 64, i, sent[i]));
	}
	for (size_t i = BURST; i-- > 0;)
		sleep_armed(p->a.ctx, received[i]);
	for (size_t i = 0; i < BURST; i++) {
		assert_ok(slime_op_status(received[i]));
		assert_ok(slime_op_destroy(received[i]));
		op_end_ok(sent[i]);
		assert_ok(slime_op_destroy(sent[i]));
	}
	pair_close(p);
}

static void manual_context__finds_all_of_a_burst_before_it_sleeps(void **state)
{
	(void)state;
	check_burst(SLIME_POLLING_EVENT);
	check_burst(SLIME_POLLING_ADAPTIVE);
}

static void manual_context__moves_bytes_while_it_is_waited_on(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	struct slime_xfer x;
	struct pair *p;

	(void)state;
	attr.manual_a = true;
	attr.len = 8 * MiB;
	p = pair_open(&attr);
	x = a_and_b(p, 0, 0, 8 * MiB);
	pattern_fill(p->b.bytes, 8 * MiB, 3, 0);
	assert_ok(read_now(p, &x));
	assert_pattern(p->a.bytes, 8 * MiB, 3, 0);
	pair_close(p);
}

/* ---- ways of waiting ---- */

static void check_polling(enum slime_polling polling)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	struct slime_xfer x;
	struct pair *p;

	attr.polling = polling;
	p = pair_open(&attr);
	x = a_and_b(p, 0, 0, 100 * KiB);
	for (uint64_t i = 0; i < 50; i++) {
		pattern_fill(p->b.bytes, x.len, i, 0);
		assert_ok(read_now(p, &x));
		assert_pattern(p->a.bytes, x.len, i, 0);
		assert_ok(slime_imm_recv(p->b.ep, p->b.op));
		assert_ok(slime_write_imm(p->a.ep, &x, 1, 0, 1, p->a.op));
		op_end_ok(p->b.op);
		op_end_ok(p->a.op);
	}
	pair_close(p);
}

static void context__that_sleeps_at_once_works(void **state)
{
	(void)state;
	check_polling(SLIME_POLLING_EVENT);
}

static void context__that_never_sleeps_works(void **state)
{
	(void)state;
	check_polling(SLIME_POLLING_BUSY);
}

static const struct CMUnitTest tests[] = {
	IN_PAIR(op__is_reused_without_end),
	IN_PAIR(op_test__of_an_op_never_submitted_is_true),
	IN_PAIR(op_wait__past_its_time_leaves_the_op_pending),
	cmocka_unit_test(op__that_nobody_waits_for_completes),
	cmocka_unit_test(op_test__of_a_manual_context_makes_progress),
	cmocka_unit_test(op_test__inside_a_callback_only_looks),
	IN_PAIR(submit__of_a_pending_op_is_busy),
	IN_PAIR(submit__of_an_op_of_another_context_is_refused),
	IN_PAIR(op_create__with_nonsense_is_refused),
	cmocka_unit_test(submit__beyond_max_pending_ops_is_refused_until_one_completed),
	IN_PAIR(callback__runs_once_with_the_result),
	cmocka_unit_test(callback__of_a_manual_context_waits_for_a_poll),
	IN_PAIR(callback__may_submit_its_op_again),
	IN_PAIR(callback__may_destroy_its_op),
	IN_PAIR(callback__that_waits_is_told_of_the_deadlock),
	IN_PAIR(callback__of_a_failed_op_has_its_status),
	IN_PAIR(callback__keeps_its_op_pending_to_other_threads),
	IN_PAIR(callback__whose_submit_is_refused_keeps_its_op_pending_to_other_threads),
	IN_PAIR(callback__that_submits_its_op_again_keeps_it_pending_to_other_threads),
	IN_PAIR(callback__beside_a_thread_that_destroys_its_op_has_it_until_it_returns),
	IN_PAIR(op_wait__beside_callbacks_that_submit_for_ever_ends_in_time),
	cmocka_unit_test(
		op_wait__of_a_manual_context_beside_callbacks_that_submit_for_ever_ends_in_time),
	IN_PAIR(queued_ops__come_out_of_the_context_each_once),
	IN_PAIR(queued_op__stays_pending_until_it_was_taken),
	IN_PAIR(op_create__queued_with_a_callback_is_refused),
	cmocka_unit_test(manual_context__descriptor_tells_of_queued_ops),
	cmocka_unit_test(manual_context__is_woken_through_its_descriptor),
	cmocka_unit_test(manual_context__finds_all_of_a_burst_before_it_sleeps),
	cmocka_unit_test(manual_context__moves_bytes_while_it_is_waited_on),
	cmocka_unit_test(context__that_sleeps_at_once_works),
	cmocka_unit_test(context__that_never_sleeps_works),
};

FIXTURE_MAIN("op")
