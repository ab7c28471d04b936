/* SPDX-License-Identifier: Apache-2.0 */
/* An op of more bytes than 32 bits can count, in little memory. */
#include "fixture.h"

#include <sys/mman.h>
#include <unistd.h>

#define HUGE_LEN   ((UINT64_C(4) << 30) + 12345)
#define PERIOD	   (8 * MiB)
#define WINDOW	   (64 * KiB)
#define HUGE_TAKES 100000 /* ms: gigabytes, on a busy machine */

/* These bytes are there once: at the beginning, and where 31 and 32 bits end. */
static const uint64_t windows[] = { 0, (UINT64_C(1) << 31) - WINDOW / 2,
				    (UINT64_C(1) << 32) - WINDOW / 2 };
#define N_WINDOWS (sizeof(windows) / sizeof(windows[0]))

static size_t huge_room(void)
{
	return (HUGE_LEN + PERIOD - 1) / PERIOD * PERIOD;
}

/* The same few MiB again and again but for the windows: much address space, little memory. */
static uint8_t *map_huge(void)
{
	int fd = memfd_create("again", MFD_CLOEXEC);
	uint8_t *at = mmap(NULL, huge_room(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	assert_true(fd >= 0);
	assert_ok(ftruncate(fd, PERIOD));
	for (size_t i = 0; i < huge_room(); i += PERIOD)
		assert_ptr_equal(
			mmap(at + i, PERIOD, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0),
			at + i);
	for (size_t i = 0; i < N_WINDOWS; i++)
		assert_ptr_equal(mmap(at + windows[i], WINDOW, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
				 at + windows[i]);
	close(fd);
	return at;
}

static void fill_huge(uint8_t *at)
{
	/* Between the windows: one whole period. */
	pattern_fill(at + PERIOD, PERIOD, 4, 0);
	for (size_t i = 0; i < N_WINDOWS; i++)
		pattern_fill(at + windows[i], WINDOW, 5, windows[i]);
}

static void assert_huge(const uint8_t *at)
{
	assert_pattern(at + PERIOD, PERIOD, 4, 0);
	for (size_t i = 0; i < N_WINDOWS; i++) {
		size_t len = HUGE_LEN - windows[i] < WINDOW ? HUGE_LEN - windows[i] : WINDOW;

		assert_pattern(at + windows[i], len, 5, windows[i]);
	}
}

static void read__of_more_than_4_gib_is_one_op(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	uint8_t *source = map_huge(), *sink = map_huge();
	struct slime_remote_mr remote;
	struct slime_xfer x = { .remote = &remote, .len = HUGE_LEN };
	struct slime_mr *theirs, *ours;
	struct pair *p;

	(void)state;
	attr.foreign_memory = true;
	p = pair_open(&attr);
	fill_huge(source);
	theirs = end_mr(&p->b, source, HUGE_LEN, SLIME_ACCESS_REMOTE_READ);
	ours = end_mr(&p->a, sink, HUGE_LEN, 0);
	remote = remote_of(theirs);
	x.local = ours;
	assert_ok(slime_read(p->a.ep, &x, 1, 0, p->a.op));
	assert_ok(slime_op_wait(p->a.op, HUGE_TAKES));
	assert_ok(slime_op_status(p->a.op));
	assert_true(slime_op_bytes(p->a.op) == HUGE_LEN);
	assert_huge(sink);

	assert_ok(slime_mr_destroy(ours));
	assert_ok(slime_endpoint_destroy(p->a.ep));
	p->a.ep = NULL;
	assert_ok(slime_mr_destroy(theirs));
	pair_close(p);
	munmap(source, huge_room());
	munmap(sink, huge_room());
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(read__of_more_than_4_gib_is_one_op),
};

FIXTURE_MAIN("wide")
