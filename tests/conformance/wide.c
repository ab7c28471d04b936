/* SPDX-License-Identifier: Apache-2.0 */
/* An op of more bytes than 32 bits can count, and offsets that are, in little memory. */
#include "fixture.h"

#include <sys/mman.h>
#include <unistd.h>

#define HUGE_LEN   ((UINT64_C(4) << 30) + 12345)
#define PERIOD	   (8 * MiB)
#define WINDOW	   (64 * KiB)
#define HUGE_TAKES 400000 /* ms: gigabytes, on a busy machine that is emulated */

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

/* Both ends' bytes, in regions of a pair. */
struct huge {
	struct pair *p;
	uint8_t *source, *sink;
	struct slime_mr *theirs, *ours;
	struct slime_remote_mr remote;
};

static struct huge huge_open(void)
{
	struct huge h = { .source = map_huge(), .sink = map_huge() };
	struct pair_attr attr = PAIR_ATTR_INIT;

	attr.foreign_memory = SLIME_FOREIGN_REQUIRE;
	h.p = pair_open(&attr);
	fill_huge(h.source);
	h.theirs = end_mr(&h.p->b, h.source, HUGE_LEN,
			  SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE);
	h.ours = end_mr(&h.p->a, h.sink, HUGE_LEN, 0);
	h.remote = remote_of(h.theirs);
	return h;
}

static void huge_close(struct huge *h)
{
	assert_ok(slime_mr_destroy(h->ours));
	assert_ok(slime_endpoint_destroy(h->p->a.ep));
	h->p->a.ep = NULL;
	assert_ok(slime_mr_destroy(h->theirs));
	pair_close(h->p);
	munmap(h->source, huge_room());
	munmap(h->sink, huge_room());
}

static void assert_ends(struct slime_op *op, uint64_t bytes)
{
	assert_ok(slime_op_wait(op, HUGE_TAKES));
	assert_ok(slime_op_status(op));
	assert_true(slime_op_bytes(op) == bytes);
}

static void read__of_more_than_4_gib_is_one_op(void **state)
{
	struct slime_xfer x = { .len = HUGE_LEN };
	struct huge h;

	(void)state;
	h = huge_open();
	x.local = h.ours;
	x.remote = &h.remote;
	assert_ok(slime_read(h.p->a.ep, &x, 1, 0, h.p->a.op));
	assert_ends(h.p->a.op, HUGE_LEN);
	assert_huge(h.sink);
	huge_close(&h);
}

/* Of each window so much lies in the region. */
#define PIECE (WINDOW / 2 + 12345)

/* What lies in a window moves to the one before it. */
static void pieces__where_32_bits_end_in_a_region_are_read_and_written(void **state)
{
	struct slime_xfer x[N_WINDOWS];
	struct huge h = huge_open();

	(void)state;
	for (size_t i = 0; i < N_WINDOWS; i++)
		x[i] = (struct slime_xfer){
			.local = h.ours,
			.local_offset = windows[i],
			.remote = &h.remote,
			.remote_offset = windows[(i + 1) % N_WINDOWS],
			.len = PIECE,
		};
	assert_ok(slime_read(h.p->a.ep, x, N_WINDOWS, 0, h.p->a.op));
	assert_ends(h.p->a.op, N_WINDOWS * PIECE);
	for (size_t i = 0; i < N_WINDOWS; i++)
		assert_pattern(h.sink + windows[i], PIECE, 5, windows[(i + 1) % N_WINDOWS]);
	for (size_t i = 0; i < N_WINDOWS; i++)
		x[i].remote_offset = windows[i];
	assert_ok(slime_write(h.p->a.ep, x, N_WINDOWS, 0, h.p->a.op));
	assert_ends(h.p->a.op, N_WINDOWS * PIECE);
	for (size_t i = 0; i < N_WINDOWS; i++)
		assert_pattern(h.source + windows[i], PIECE, 5, windows[(i + 1) % N_WINDOWS]);
	huge_close(&h);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(read__of_more_than_4_gib_is_one_op),
	cmocka_unit_test(pieces__where_32_bits_end_in_a_region_are_read_and_written),
};

FIXTURE_MAIN("wide")
