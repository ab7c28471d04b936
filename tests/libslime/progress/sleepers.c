/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that sleep on their ops while another one has the progress token. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>

#include "src/progress/context.h"
#include <slime/slime.h>

#define PATIENCE_MS 60000

#define assert_ok(expr) assert_int_equal(expr, 0)

struct sleeper {
	struct slime_op *op;
	pthread_t thread;
	int ret; /* of the wait */
};

static struct slime_context *ctx;
static struct sleeper sleepers[2];

static void *sleep_on_op(void *arg)
{
	struct sleeper *s = arg;

	s->ret = slime_op_wait(s->op, PATIENCE_MS);
	return NULL;
}

static void begin(struct sleeper *s)
{
	assert_ok(sl_op_begin(s->op));
	assert_ok(pthread_create(&s->thread, NULL, sleep_on_op, s));
	while (!(atomic_load(&s->op->state) & SL_OP_WAITED))
		sched_yield();
}

static void end(struct sleeper *s)
{
	assert_ok(pthread_join(s->thread, NULL));
	assert_ok(s->ret);
}

/* This thread has the token, and both sleep. */
static int setup(void **state)
{
	struct slime_context_attr manual = SLIME_CONTEXT_ATTR_INIT;

	(void)state;
	manual.manual = true;
	assert_ok(slime_context_create(&manual, &ctx));
	sl_progress_enter(ctx);
	for (int i = 0; i < 2; i++) {
		assert_ok(slime_op_create(ctx, NULL, &sleepers[i].op));
		begin(&sleepers[i]);
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		assert_ok(slime_op_destroy(sleepers[i].op));
	assert_ok(slime_context_destroy(ctx));
	return 0;
}

static void note(void *arg)
{
	++*(int *)arg;
}

static void after__a_quiet_end_wakes_who_fell_asleep_meanwhile(void **state)
{
	int n_notes = 0;

	(void)state;
	for (int i = 0; i < 2; i++) {
		sl_progress_after(&ctx->progress, note, &n_notes);
		sl_op_finish_quietly(sleepers[i].op, 0);
	}
	sl_progress_run_after(&ctx->progress);

	for (int i = 0; i < 2; i++)
		end(&sleepers[i]);
	assert_int_equal(n_notes, 1);
	sl_progress_run_after(&ctx->progress);
	assert_int_equal(n_notes, 1);
	sl_progress_leave(ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(after__a_quiet_end_wakes_who_fell_asleep_meanwhile,
						setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
