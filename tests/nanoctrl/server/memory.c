/* SPDX-License-Identifier: Apache-2.0 */
/* What a server keeps of connections, watches and lost Redis connections that are over: nothing.
 * A leak that is still reachable, or freed at the end, is one, too. */
#include "tests/nanoctrl/api/fixture.h"

#include <unistd.h>
#include <base/clock.h>
#include "compat/store.h"
#include "tests/nanoctrl/api/stream_client.h"

#define GIVE_UP_NS (60 * SL_NS_PER_S)
#define SAMPLES	   50

/* As sanitizer/allocator_interface.h has it, which comes with clang only. */
size_t __sanitizer_get_current_allocated_bytes(void);

/* The housekeeping comes and goes: what is allocated without it. */
static size_t allocated_at_rest(struct api_fixture *f)
{
	size_t least = SIZE_MAX;

	for (int i = 0; i < SAMPLES; i++) {
		size_t now = __sanitizer_get_current_allocated_bytes();

		least = now < least ? now : least;
		test_redis_do(&f->redis, "PING");
	}
	return least;
}

typedef void round_fn(struct api_fixture *f);

/* The first rounds fill what is kept for good; the others may take so many bytes each at most. */
static void assert_keeps_nothing(struct api_fixture *f, round_fn *round, unsigned n, size_t each)
{
	uint64_t start;
	size_t before;

	for (unsigned i = 0; i < n / 2; i++)
		round(f);
	before = allocated_at_rest(f);
	for (unsigned i = 0; i < n; i++)
		round(f);
	start = sl_clock_ns();
	while (allocated_at_rest(f) > before + n * each)
		if (sl_clock_ns() - start > GIVE_UP_NS)
			fail_msg("%u rounds took %zu bytes more for good", n,
				 allocated_at_rest(f) - before);
}

static void ask(struct api_fixture *f)
{
	struct api_answer a = { .status = 0 };

	assert_int_equal(
		api_do(f, &a, "POST", "/register", NULL, "{\"entity_id\":\"e\",\"kind\":\"k\"}"),
		200);
	api_answer_fini(&a);
	/* And one that does not wait for its answer. */
	close(api_begin(f, "GET", "/v1/agents", NULL, NULL));
}

static void connection__that_is_over_leaves_nothing(void **state)
{
	assert_keeps_nothing(*state, ask, 400, 16);
}

static void watch(struct api_fixture *f)
{
	static struct api_stream s;

	assert_int_equal(api_open(f, &s, "/v1/events?scope=demo", NULL, false), 200);
	api_close(&s);
}

static void watch__that_is_over_leaves_nothing(void **state)
{
	assert_keeps_nothing(*state, watch, 200, 16);
}

static void hold_session(struct api_fixture *f)
{
	static struct api_stream s;
	char lease[512];
	int status = api_register(f, "node-a", "i1", OWNER_KEY_A, lease);

	assert_true(status == 200 || status == 201);
	assert_int_equal(api_open(f, &s, "/v1/agents/node-a/session?scope=demo", lease, true), 101);
	json_decref(api_next_of(&s, "hello"));
	api_close(&s);
}

static void session__that_broke_leaves_nothing(void **state)
{
	assert_keeps_nothing(*state, hold_session, 200, 16);
}

static void until_serving_again(struct api_fixture *f, uint64_t n_connects)
{
	uint64_t start = sl_clock_ns();

	while (atomic_load(&f->hub->n_reconnects) < n_connects ||
	       atomic_load(&f->hub->n_up) != atomic_load(&f->hub->n_loops) ||
	       !atomic_load(&f->hub->compat->told) || atomic_load(&f->hub->compat->scanning))
		if (sl_clock_ns() - start > GIVE_UP_NS)
			fail_msg("it does not come back");
}

/* With a request that waits for Redis, and a session that follows events. */
static void lose_redis(struct api_fixture *f)
{
	static struct api_stream s;
	uint64_t before = atomic_load(&f->hub->n_reconnects);
	struct api_answer a = { .status = 0 };
	int fd;

	assert_int_equal(api_open(f, &s, "/v1/events?scope=demo", NULL, false), 200);
	test_redis_do(&f->redis, "CLIENT PAUSE 60000 WRITE");
	fd = api_begin(f, "POST", "/register", NULL, "{\"entity_id\":\"e\",\"kind\":\"k\"}");
	test_redis_do(&f->redis, "CLIENT KILL TYPE pubsub");
	test_redis_do(&f->redis, "CLIENT KILL TYPE normal SKIPME yes");
	test_redis_do(&f->redis, "CLIENT UNPAUSE");
	until_serving_again(f, before + atomic_load(&f->hub->n_loops));
	api_finish(fd, &a);
	api_answer_fini(&a);
	api_close(&s);
}

static void connection__to_redis_that_is_lost_leaves_nothing(void **state)
{
	assert_keeps_nothing(*state, lose_redis, 20, 128);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, api_setup_advertised, api_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(connection__that_is_over_leaves_nothing),
		TEST(watch__that_is_over_leaves_nothing),
		TEST(session__that_broke_leaves_nothing),
		TEST(connection__to_redis_that_is_lost_leaves_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
