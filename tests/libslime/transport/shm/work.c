/* SPDX-License-Identifier: Apache-2.0 */
/* How much of a transfer over shm is done inside its submit, and what is left to progress. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/core/op.h"
#include "tests/libslime/transport/shm/raw.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* Pieces of a long op, each all of our memory. */
#define TURN	 131072 /* of an op among several */
#define PIECES	 32
#define LONG_LEN ((size_t)PIECES * RAW_SHM_LEN)

struct theirs {
	struct slime_remote_mr remote;
	uint8_t *bytes;
	size_t len;
};

/* A region of the peer's that our end has mapped. */
static struct theirs map_region(struct raw_shm *r, struct slime_xfer *x, size_t len)
{
	struct theirs t = { .len = len,
			    .remote = { .owner = RAW_SHM_FIRST,
					.len = len,
					.generation = 5,
					.id = 3,
					.access = SLIME_ACCESS_REMOTE_WRITE,
					.kind = r->remote.kind } };
	struct shm_packet mapped = { .kind = SHM_MAPPED,
				     .id = 3,
				     .a = 5,
				     .access = SLIME_ACCESS_REMOTE_WRITE,
				     .c = len,
				     .len = len,
				     .n_fds = 1 };
	int fd = memfd_create("a test's", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_ok(ftruncate(fd, (off_t)len));
	assert_ok(fcntl(fd, F_ADD_SEALS, SEALS));
	t.bytes = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(t.bytes, MAP_FAILED);

	*x = (struct slime_xfer){ .local = r->mr, .remote = &t.remote, .len = 1 };
	assert_ok(slime_write(r->ep, x, 1, 0, r->op));
	assert_int_equal(raw_shm_hear(r).kind, SHM_MAP);
	mapped.fds[0] = fd;
	raw_shm_say(r, &mapped);
	assert_ok(slime_op_wait(r->op, PATIENCE_MS));
	assert_ok(slime_op_status(r->op));
	close(fd);
	return t;
}

/* Of those behind the first. */
static size_t n_copied_at(const struct theirs *t, size_t first, size_t len)
{
	size_t n = 0;

	while (n < len && t->bytes[first + n] == 7)
		n++;
	for (size_t i = n; i < len; i++)
		assert_int_equal(t->bytes[first + i], 0);
	return n;
}

static size_t n_copied(const struct theirs *t)
{
	return n_copied_at(t, 0, t->len);
}

static void submit__copies_its_share_and_leaves_the_rest_to_progress(void **state)
{
	struct raw_shm *r = *state;
	struct slime_xfer x;
	struct theirs t;

	raw_shm_link(r);
	t = map_region(r, &x, RAW_SHM_LEN);
	memset(r->bytes, 7, RAW_SHM_LEN);
	x.remote = &t.remote;
	x.len = RAW_SHM_LEN;
	assert_ok(slime_write(r->ep, &x, 1, 0, r->op));
	assert_false(sl_op_is_idle(r->op));
	assert_int_equal(n_copied(&t), RAW_SHM_SHARE);

	assert_ok(slime_op_wait(r->op, PATIENCE_MS));
	assert_ok(slime_op_status(r->op));
	assert_int_equal(n_copied(&t), RAW_SHM_LEN);
	munmap(t.bytes, RAW_SHM_LEN);
}

static void submit__of_no_more_than_its_share_is_done_at_once(void **state)
{
	struct raw_shm *r = *state;
	struct slime_xfer x;
	struct theirs t;

	raw_shm_link(r);
	t = map_region(r, &x, RAW_SHM_LEN);
	memset(r->bytes, 7, RAW_SHM_LEN);
	x.remote = &t.remote;
	x.len = RAW_SHM_SHARE;
	assert_ok(slime_write(r->ep, &x, 1, 0, r->op));
	assert_true(sl_op_is_idle(r->op));
	assert_int_equal(n_copied(&t), RAW_SHM_SHARE);
	munmap(t.bytes, RAW_SHM_LEN);
}

/* Pieces of a long op, the first of which goes to that place of theirs. */
static void make_long(struct raw_shm *r, const struct theirs *t, size_t first,
		      struct slime_xfer x[PIECES])
{
	for (size_t i = 0; i < PIECES; i++)
		x[i] = (struct slime_xfer){ .local = r->mr,
					    .remote = &t->remote,
					    .remote_offset = first + i * RAW_SHM_LEN,
					    .len = RAW_SHM_LEN };
}

static void progress__gives_two_long_ops_turns(void **state)
{
	struct raw_shm *r = *state;
	struct slime_xfer x, first[PIECES], second[PIECES];
	struct slime_op *op;
	struct theirs t;
	size_t a, b;

	raw_shm_link(r);
	t = map_region(r, &x, 2 * LONG_LEN);
	assert_ok(slime_op_create(r->ctx, NULL, &op));
	memset(r->bytes, 7, RAW_SHM_LEN);
	make_long(r, &t, 0, first);
	make_long(r, &t, LONG_LEN, second);
	assert_ok(slime_write(r->ep, first, PIECES, 0, r->op));
	assert_ok(slime_write(r->ep, second, PIECES, 0, op));

	assert_true(slime_context_poll(r->ctx) > 0);
	a = n_copied_at(&t, 0, LONG_LEN);
	b = n_copied_at(&t, LONG_LEN, LONG_LEN);
	assert_true(a < LONG_LEN && b > RAW_SHM_SHARE);
	assert_true(a <= b + TURN && b <= a + TURN);

	assert_ok(slime_op_wait(r->op, PATIENCE_MS));
	assert_ok(slime_op_wait(op, PATIENCE_MS));
	assert_int_equal(n_copied(&t), t.len);
	assert_ok(slime_op_destroy(op));
	munmap(t.bytes, t.len);
}

/* Those behind a fence wait for it, and it for those before it: there are no turns. */
static void progress__lets_no_op_pass_a_fence(void **state)
{
	struct raw_shm *r = *state;
	struct slime_xfer x, first[PIECES], second[PIECES];
	struct slime_op *op;
	struct theirs t;

	raw_shm_link(r);
	t = map_region(r, &x, 2 * LONG_LEN);
	assert_ok(slime_op_create(r->ctx, NULL, &op));
	memset(r->bytes, 7, RAW_SHM_LEN);
	make_long(r, &t, 0, first);
	make_long(r, &t, LONG_LEN, second);
	assert_ok(slime_write(r->ep, first, PIECES, 0, r->op));
	assert_ok(slime_write(r->ep, second, PIECES, SLIME_FENCE, op));
	while (!sl_op_is_idle(op)) {
		if (n_copied_at(&t, LONG_LEN, LONG_LEN))
			assert_int_equal(n_copied_at(&t, 0, LONG_LEN), LONG_LEN);
		assert_true(slime_context_poll(r->ctx) >= 0);
	}
	assert_int_equal(n_copied(&t), t.len);
	assert_ok(slime_op_destroy(op));
	munmap(t.bytes, t.len);
}

struct next {
	struct raw_shm *r;
	struct theirs *t;
	struct slime_xfer pieces[PIECES];
	size_t copied; /* when the submit returned */
	bool submitted;
};

static void submit_long(void *arg, struct slime_op *op)
{
	struct next *n = arg;

	(void)op;
	assert_ok(slime_write(n->r->ep, n->pieces, PIECES, 0, n->r->op));
	n->copied = n_copied_at(n->t, 0, LONG_LEN);
	n->submitted = true;
}

static void submit__of_a_long_op_in_a_callback_leaves_all_of_it_to_progress(void **state)
{
	struct raw_shm *r = *state;
	struct next n = { .r = r };
	struct slime_op_attr attr = { .fn = submit_long, .arg = &n };
	struct slime_xfer x;
	struct slime_op *op;
	struct theirs t;

	raw_shm_link(r);
	t = map_region(r, &x, LONG_LEN + RAW_SHM_LEN);
	n.t = &t;
	assert_ok(slime_op_create(r->ctx, &attr, &op));
	make_long(r, &t, 0, n.pieces);
	x = (struct slime_xfer){
		.local = r->mr, .remote = &t.remote, .remote_offset = LONG_LEN, .len = 1
	};
	memset(r->bytes, 7, RAW_SHM_LEN);
	assert_ok(slime_write(r->ep, &x, 1, 0, op));
	while (!n.submitted)
		assert_true(slime_context_poll(r->ctx) >= 0);
	/* The link was made with a write of its first byte. */
	assert_true(n.copied <= 1);
	assert_ok(slime_op_wait(r->op, PATIENCE_MS));
	assert_int_equal(n_copied_at(&t, 0, LONG_LEN), LONG_LEN);
	assert_ok(slime_op_destroy(op));
	munmap(t.bytes, t.len);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_RAW_SHM(submit__copies_its_share_and_leaves_the_rest_to_progress),
		IN_RAW_SHM(progress__gives_two_long_ops_turns),
		IN_RAW_SHM(progress__lets_no_op_pass_a_fence),
		IN_RAW_SHM(submit__of_a_long_op_in_a_callback_leaves_all_of_it_to_progress),
		IN_RAW_SHM(submit__of_no_more_than_its_share_is_done_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
