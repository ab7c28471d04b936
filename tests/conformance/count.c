/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing is allocated between submit and completion, on no thread of the process, and nothing
 * logged. */
#include "fixture.h"

#include <stdatomic.h>
#include <stdlib.h>

#include <slime/log.h>

#include "support/allocations.h"

#define PIECES	    300
#define MANY_PIECES 15000

struct job {
	struct pair *p;
	struct slime_xfer xfers[PIECES];
	struct slime_batch *batch; /* of them */
};

static void transfer(struct job *j)
{
	struct pair *p = j->p;

	assert_ok(slime_read(p->a.ep, j->xfers, PIECES, 0, p->a.op));
	op_end_ok(p->a.op);
	assert_ok(slime_write(p->a.ep, j->xfers, PIECES, 0, p->a.op));
	op_end_ok(p->a.op);
	assert_ok(slime_batch_submit(p->a.ep, j->batch, 0, p->a.op));
	op_end_ok(p->a.op);
	assert_ok(slime_imm_recv(p->b.ep, p->b.op));
	assert_ok(slime_write_imm(p->a.ep, j->xfers, 1, 0, 1, p->a.op));
	op_end_ok(p->a.op);
	op_end_ok(p->b.op);
}

static void message(struct job *j, uint64_t len)
{
	struct pair *p = j->p;

	assert_ok(slime_send(p->a.ep, p->a.mr, 0, len, 1, p->a.op));
	assert_ok(slime_recv(p->b.ep, p->b.mr, 0, len, 1, SLIME_TAG_ALL, p->b.op));
	op_end_ok(p->b.op);
	op_end_ok(p->a.op);
}

static void all(struct job *j)
{
	transfer(j);
	message(j, 100);
	message(j, 100 * KiB);
}

/* The first round may make what a link has for good. */
static void transfers__after_the_first_allocate_nothing(void **state)
{
	struct job j = { .p = *state };
	uint64_t n;

	for (size_t i = 0; i < PIECES; i++)
		j.xfers[i] = a_and_b(j.p, i * 2048, i * 3072, 2048);
	assert_ok(slime_batch_create(j.p->a.ep, SLIME_BATCH_READ, j.xfers, PIECES, &j.batch));
	assert_true(hook_works());
	all(&j);

	n_allocations = 0;
	counting = true;
	for (uint64_t i = 0; i < rounds(100); i++)
		all(&j);
	counting = false;
	n = n_allocations;
	assert_int_equal(n, 0);
	assert_ok(slime_batch_destroy(j.batch));
}

static _Atomic unsigned n_lines;

static void count_line(void *arg, enum slime_log_level level, const char *part, const char *line)
{
	(void)arg;
	(void)level;
	(void)part;
	(void)line;
	n_lines++;
}

/* Whoever does not ask for debugging hears nothing of work that succeeds. */
static void transfers__log_nothing(void **state)
{
	struct job j = { .p = *state };
	unsigned n;

	for (size_t i = 0; i < PIECES; i++)
		j.xfers[i] = a_and_b(j.p, i * 2048, i * 3072, 2048);
	assert_ok(slime_batch_create(j.p->a.ep, SLIME_BATCH_READ, j.xfers, PIECES, &j.batch));
	all(&j);
	n_lines = 0;
	slime_log_set(count_line, NULL, SLIME_LOG_INFO);
	for (int i = 0; i < 10; i++)
		all(&j);
	slime_log_set(NULL, NULL, SLIME_LOG_WARN);
	n = n_lines;
	assert_int_equal(n, 0);
	assert_ok(slime_batch_destroy(j.batch));
}

/* A batch that no queue holds at once. */
static void read__of_15000_pieces_allocates_nothing(void **state)
{
	static struct slime_xfer xfers[MANY_PIECES];
	struct pair *p = *state;
	uint64_t n;

	for (size_t i = 0; i < MANY_PIECES; i++)
		xfers[i] = a_and_b(p, i * 64, (i * 7 % MANY_PIECES) * 64, 64);
	assert_true(hook_works());
	for (int i = 0; i < 3; i++) {
		n_allocations = 0;
		counting = i > 0;
		assert_ok(slime_read(p->a.ep, xfers, MANY_PIECES, 0, p->a.op));
		op_end_ok(p->a.op);
		counting = false;
		n = n_allocations;
		assert_int_equal(n, 0);
	}
}

static const struct CMUnitTest tests[] = {
	IN_PAIR(read__of_15000_pieces_allocates_nothing),
	IN_PAIR(transfers__after_the_first_allocate_nothing),
	IN_PAIR(transfers__log_nothing),
};

FIXTURE_MAIN("count")
