/* SPDX-License-Identifier: Apache-2.0 */
/* How much of a transfer over shm is done inside its submit, and what is left to progress. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/core/op.h"
#include "tests/libslime/transport/shm/raw.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

struct theirs {
	struct slime_remote_mr remote;
	uint8_t *bytes;
};

/* A region of the peer's that our end has mapped. */
static struct theirs map_region(struct raw_shm *r, struct slime_xfer *x)
{
	struct theirs t = { .remote = { .owner = RAW_SHM_FIRST,
					.len = RAW_SHM_LEN,
					.generation = 5,
					.id = 3,
					.access = SLIME_ACCESS_REMOTE_WRITE,
					.kind = r->remote.kind } };
	struct shm_packet mapped = { .kind = SHM_MAPPED,
				     .id = 3,
				     .a = 5,
				     .access = SLIME_ACCESS_REMOTE_WRITE,
				     .c = RAW_SHM_LEN,
				     .len = RAW_SHM_LEN,
				     .n_fds = 1 };
	int fd = memfd_create("a test's", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_ok(ftruncate(fd, RAW_SHM_LEN));
	assert_ok(fcntl(fd, F_ADD_SEALS, SEALS));
	t.bytes = mmap(NULL, RAW_SHM_LEN, PROT_READ, MAP_SHARED, fd, 0);
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

static size_t n_copied(const struct theirs *t)
{
	size_t n = 0;

	while (n < RAW_SHM_LEN && t->bytes[n] == 7)
		n++;
	for (size_t i = n; i < RAW_SHM_LEN; i++)
		assert_int_equal(t->bytes[i], 0);
	return n;
}

static void submit__copies_its_share_and_leaves_the_rest_to_progress(void **state)
{
	struct raw_shm *r = *state;
	struct slime_xfer x;
	struct theirs t;

	raw_shm_link(r);
	t = map_region(r, &x);
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
	t = map_region(r, &x);
	memset(r->bytes, 7, RAW_SHM_LEN);
	x.remote = &t.remote;
	x.len = RAW_SHM_SHARE;
	assert_ok(slime_write(r->ep, &x, 1, 0, r->op));
	assert_true(sl_op_is_idle(r->op));
	assert_int_equal(n_copied(&t), RAW_SHM_SHARE);
	munmap(t.bytes, RAW_SHM_LEN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_RAW_SHM(submit__copies_its_share_and_leaves_the_rest_to_progress),
		IN_RAW_SHM(submit__of_no_more_than_its_share_is_done_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
