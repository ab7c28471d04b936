/* SPDX-License-Identifier: Apache-2.0 */
/* What the store has for agents of DLSlime, while Redis is in trouble. */
#include "tests/nanoctrl/store/fixture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "compat/store.h"

static void on_opened(void *arg, int result)
{
	struct answer *a = arg;

	a->result = result;
	a->done = true;
}

static int open_port(struct fixture *f)
{
	struct answer a = { .done = false };

	private_port_open(f->store, on_opened, &a);
	fixture_run(f, &a.done);
	return a.result;
}

/* Where Redis has just been reached again, and has not answered yet that it listens. */
static void port__is_told_as_before_while_it_is_set_again(void **state)
{
	struct fixture *f = *state;
	const struct store_text here = { "127.0.0.1", strlen("127.0.0.1") };
	char address[STORE_REDIS_ADDRESS_MAX], again[STORE_REDIS_ADDRESS_MAX];
	char file[sizeof(f->redis.dir) + 16];

	fixture_close(f);
	test_redis_account(&f->redis);
	test_redis_do(&f->redis, "CONFIG SET bind 127.0.0.1");
	fixture_open(f);
	snprintf(file, sizeof(file), "%s/redis.port", f->redis.dir);
	private_port_set(f->hub, 0);
	assert_int_equal(private_port_keep(f->hub, file), 0);
	fixture_until_serving(f, true);
	assert_int_equal(unlink(file), 0);
	assert_int_equal(open_port(f), 0);
	assert_int_equal(store_redis_address(f->store, here, true, address), 0);

	fixture_reconnect(f);

	assert_int_equal(store_redis_address(f->store, here, true, again), 0);
	assert_string_equal(again, address);
}

struct waiter {
	struct store_later later;
	bool done;
};

static void on_indexed(struct store_later *later)
{
	SL_CONTAINER_OF(later, struct waiter, later)->done = true;
}

/* The ping that it waits for is refused. */
static void wait_for_index__while_redis_refuses_all_does_not_wait_for_ever(void **state)
{
	struct waiter s = { .later.fn = on_indexed };
	struct fixture *f = *state;
	redisContext *c;
	struct answer a;

	test_redis_do(&f->redis, "CONFIG SET lua-time-limit 50");
	while (!atomic_load(&f->hub->compat->told) || atomic_load(&f->hub->compat->scanning))
		fixture_spend(f, 1);
	c = fixture_begin_script(f);
	while (fixture_names(f, &a) != -EAGAIN)
		;
	assert_int_equal(open_port(f), -EAGAIN);
	store_wait_for_index(f->store, &s.later);
	fixture_run(f, &s.done);
	fixture_end_script(f, c);
	s.done = false;
	store_wait_for_index(f->store, &s.later);
	fixture_run(f, &s.done);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(port__is_told_as_before_while_it_is_set_again),
		TEST(wait_for_index__while_redis_refuses_all_does_not_wait_for_ever),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
