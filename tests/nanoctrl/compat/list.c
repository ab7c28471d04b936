/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of DLSlime's entities and agents come in batches, over a real Redis: what becomes of who
 * comes and goes between two, and of the list when something fails there. */
#include "tests/nanoctrl/store/fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <event2/event.h>
#include "nanoctrl/net/loop.h"
#include "compat/peer.h"
#include "compat/store.h"

#define MANY	  3000
#define BATCH_MAX 256
#define N_SCOPES  8

/* Whoever lists, and what was told of so far. */
struct listing {
	struct fixture *f;
	void (*between)(struct listing *l); /* behind a batch that is not the last */
	char scope[16];
	const char *kind;
	int told[2 * MANY]; /* how often, by number */
	unsigned n_batches;
	size_t largest; /* batch */
	int result;
	unsigned n_ends;
	bool done;
};

static struct store_text text_of(const char *s)
{
	return (struct store_text){ s, strlen(s) };
}

static void count(struct listing *l, int i)
{
	assert_in_range(i, 0, 2 * MANY - 1);
	l->told[i]++;
}

static void end_batch(struct listing *l, int result, size_t n, bool more)
{
	assert_false(l->done);
	l->result = result;
	if (!result) {
		l->n_batches++;
		l->largest = n > l->largest ? n : l->largest;
	}
	if (result || !more)
		l->done = true;
	else if (l->between)
		l->between(l);
}

static void on_entities(void *arg, int result, const struct store_entities *found)
{
	struct listing *l = arg;

	for (size_t i = 0; !result && i < found->n; i++)
		count(l, atoi(found->info[i].at));
	end_batch(l, result, result ? 0 : found->n, !result && found->more);
}

static void on_peers(void *arg, int result, const struct store_peer_list *found)
{
	struct listing *l = arg;

	for (size_t i = 0; !result && i < found->n; i++)
		count(l, atoi(found->peers[i].name.at));
	end_batch(l, result, result ? 0 : found->n, !result && found->more);
}

static void list_entities(struct fixture *f, struct listing *l, const char *type)
{
	static const struct store_text any = { NULL, 0 };

	l->f = f;
	store_list_entities(f->store, text_of(l->scope), type ? text_of(type) : any,
			    l->kind ? text_of(l->kind) : any, on_entities, l);
	fixture_run(f, &l->done);
}

static void list_peers(struct fixture *f, struct listing *l)
{
	l->f = f;
	store_list_peers(f->store, text_of(l->scope), on_peers, l);
	fixture_run(f, &l->done);
}

/* Entities of the type t, or agents, from number from on, n of them, of so many bytes each. */
static void add_entities(struct fixture *f, const char *scope, int from, int n, int len)
{
	test_redis_do(
		&f->redis, "EVAL %s 0 %s %d %d %d",
		"for i = ARGV[2], ARGV[2] + ARGV[3] - 1 do local id = string.format('%04d', i) "
		"redis.call('HSET', ARGV[1] .. ':t:' .. id, 'kind', 'k', 'info', "
		"id .. string.rep('x', ARGV[4])) "
		"redis.call('ZADD', 'nanoctrl:entities:' .. ARGV[1], 1e14 + i, '1:t' .. id) "
		"redis.call('ZADD', 'nanoctrl:types:' .. ARGV[1], 0, '1:t' .. id) end",
		scope, from, n, len);
}

static void add_peers(struct fixture *f, const char *scope, int from, int n, int len)
{
	test_redis_do(&f->redis, "EVAL %s 0 %s %d %d %d",
		      "for i = ARGV[2], ARGV[2] + ARGV[3] - 1 do "
		      "redis.call('HSET', ARGV[1] .. ':agent:' .. i, 'addr', 'x', 'resource', "
		      "string.rep('x', ARGV[4])) "
		      "redis.call('ZADD', 'nanoctrl:peers:' .. ARGV[1], 1e14 + i, i) end",
		      scope, from, n, len);
}

static void remove_entities(struct fixture *f, const char *scope, int from, int n)
{
	test_redis_do(
		&f->redis, "EVAL %s 0 %s %d %d",
		"for i = ARGV[2], ARGV[2] + ARGV[3] - 1 do local id = string.format('%04d', i) "
		"redis.call('DEL', ARGV[1] .. ':t:' .. id) "
		"redis.call('ZREM', 'nanoctrl:entities:' .. ARGV[1], '1:t' .. id) "
		"redis.call('ZREM', 'nanoctrl:types:' .. ARGV[1], '1:t' .. id) end",
		scope, from, n);
}

/* Everybody from number from on, before number to, has been told of once, or of nobody. */
static void assert_told(const struct listing *l, int from, int to, int times)
{
	for (int i = from; i < to; i++)
		if (l->told[i] != times)
			fail_msg("%d was told of %d times", i, l->told[i]);
}

static void assert_told_once_at_most(const struct listing *l)
{
	for (int i = 0; i < 2 * MANY; i++)
		assert_in_range(l->told[i], 0, 1);
}

/* ---- batches ---- */

static void list__of_very_many_comes_in_batches(void **state)
{
	struct listing e = { .scope = "s" }, p = { .scope = "s" }, of_type = { .scope = "s" };
	struct fixture *f = *state;

	add_entities(f, "s", 0, MANY, 1);
	add_peers(f, "s", 0, MANY, 1);
	list_entities(f, &e, NULL);
	list_entities(f, &of_type, "t");
	list_peers(f, &p);
	assert_told(&e, 0, MANY, 1);
	assert_told(&of_type, 0, MANY, 1);
	assert_told(&p, 0, MANY, 1);
	assert_in_range(e.largest, 1, BATCH_MAX);
	assert_in_range(of_type.largest, 1, BATCH_MAX);
	assert_in_range(p.largest, 1, BATCH_MAX);
}

/* A batch ends behind 256 KiB. */
static void list__of_what_is_long_comes_in_batches_of_few(void **state)
{
	struct listing e = { .scope = "s" }, p = { .scope = "s" };
	struct fixture *f = *state;

	add_entities(f, "s", 0, 40, 100000);
	add_peers(f, "s", 0, 40, 100000);
	list_entities(f, &e, NULL);
	list_peers(f, &p);
	assert_told(&e, 0, 40, 1);
	assert_told(&p, 0, 40, 1);
	assert_in_range(e.largest, 1, 3);
	assert_in_range(p.largest, 1, 3);
}

/* The first three of the scope l: beyond what a row may have. */
static void make_too_long(struct fixture *f)
{
	test_redis_do(&f->redis, "EVAL %s 0",
		      "local x = string.rep(string.rep('x', 4096), 8193) for i = 0, 2 do "
		      "redis.call('HSET', 'l:t:000' .. i, 'info', x) "
		      "redis.call('HSET', 'l:agent:' .. i, 'resource', x) end");
}

/* Redis has read it all the same. */
static void list__of_what_is_left_out_comes_in_batches_of_few(void **state)
{
	struct listing of_kind = { .scope = "s", .kind = "another" };
	struct listing e = { .scope = "l" }, p = { .scope = "l" };
	struct fixture *f = *state;

	add_entities(f, "s", 0, 40, 100000);
	list_entities(f, &of_kind, NULL);
	assert_int_equal(of_kind.result, STORE_OK);
	assert_told(&of_kind, 0, 40, 0);
	assert_in_range(of_kind.n_batches, 40 / 3, 40);

	add_entities(f, "l", 0, 3, 1);
	add_peers(f, "l", 0, 3, 1);
	make_too_long(f);
	list_entities(f, &e, NULL);
	list_peers(f, &p);
	assert_told(&e, 0, 3, 0);
	assert_told(&p, 0, 3, 0);
	assert_in_range(e.n_batches, 3, 4);
	assert_in_range(p.n_batches, 3, 4);
}

static void list__that_is_short_is_one_batch(void **state)
{
	struct listing e = { .scope = "s" }, p = { .scope = "s" }, none = { .scope = "n" };
	struct fixture *f = *state;

	add_entities(f, "s", 0, 100, 1);
	add_peers(f, "s", 0, 100, 1);
	list_entities(f, &e, NULL);
	list_peers(f, &p);
	list_peers(f, &none);
	assert_int_equal(e.n_batches, 1);
	assert_int_equal(p.n_batches, 1);
	assert_int_equal(none.n_batches, 1);
	assert_told(&e, 0, 100, 1);
	assert_told(&p, 0, 100, 1);
	assert_told(&none, 0, 2 * MANY, 0);
}

/* ---- between two batches ---- */

/* Of those told of, some go and some go and come again; of the others, some go; and some are new,
 * which stand before and behind those that come next. */
static void change_entities(struct listing *l)
{
	const char *s = l->scope;
	int next = (int)l->n_batches * BATCH_MAX;

	remove_entities(l->f, s, next - 40, 20);
	add_entities(l->f, s, next - 40, 10, 1);
	if (next + 40 < MANY)
		remove_entities(l->f, s, next + 20, 10);
	add_entities(l->f, s, MANY + 50 * (int)l->n_batches, 10, 1);
}

static void entities__that_stay_are_listed_once_whoever_comes_and_goes(void **state)
{
	struct listing l = { .scope = "s", .between = change_entities };
	struct fixture *f = *state;

	add_entities(f, "s", 0, MANY, 1);
	list_entities(f, &l, NULL);
	assert_true(l.n_batches > 3);
	assert_told_once_at_most(&l);
	for (int i = 0; i < MANY; i++) {
		int into = i % BATCH_MAX; /* of a batch, as it was at first */
		bool goes = i >= BATCH_MAX && into >= 20 && into < 30;

		/* The first of them shift those behind them into the batch before. */
		assert_int_equal(l.told[i], !goes || l.told[i]);
	}
	assert_int_equal(l.told[BATCH_MAX + 20], 0);
}

/* Each beat moves one to the end of the index, and most go, for which Redis makes it smaller: what
 * was scanned comes again then. */
static void beat_and_go(struct listing *l)
{
	char goes[MANY + 1];

	if (l->n_batches > 1)
		return;
	for (int i = 0; i < MANY; i++)
		goes[i] = !l->told[i] && i % 50 ? '1' : '0';
	goes[MANY] = '\0';
	test_redis_do(&l->f->redis, "EVAL %s 1 nanoctrl:peers:%s %s %s",
		      "for i = 0, #ARGV[2] - 1 do if string.sub(ARGV[2], i + 1, i + 1) == '1' then "
		      "redis.call('ZREM', KEYS[1], i) redis.call('DEL', ARGV[1] .. ':agent:' .. i) "
		      "else redis.call('ZADD', KEYS[1], 2e14 - i, i) end end",
		      l->scope, l->scope, goes);
	add_peers(l->f, l->scope, MANY, 5, 1);
}

/* Which of them Redis comes to twice is chance: by the places that it chooses. */
static void agents__that_stay_are_listed_once_whoever_comes_and_goes(void **state)
{
	struct fixture *f = *state;

	for (int s = 0; s < N_SCOPES; s++) {
		struct listing l = { .between = beat_and_go };

		snprintf(l.scope, sizeof(l.scope), "s%d", s);
		add_peers(f, l.scope, 0, MANY, 1);
		list_peers(f, &l);
		assert_true(l.n_batches > 1);
		assert_told_once_at_most(&l);
		for (int i = 0; i < MANY; i += 50)
			assert_int_equal(l.told[i], 1);
	}
}

/* Those that there was no room for have their names said again. */
static void leave_and_join(struct listing *l)
{
	if (l->n_batches > 1)
		return;
	test_redis_do(&l->f->redis, "DEL s:agent:39");
	test_redis_do(&l->f->redis, "ZREM nanoctrl:peers:s 39");
	test_redis_do(&l->f->redis, "ZADD nanoctrl:peers:s 2e14 0");
	add_peers(l->f, "s", 40, 1, 100000);
}

static void agents__that_are_few_and_long_are_listed_once(void **state)
{
	struct listing l = { .scope = "s", .between = leave_and_join };
	struct fixture *f = *state;

	add_peers(f, "s", 0, 40, 100000);
	list_peers(f, &l);
	assert_told(&l, 0, 39, 1);
	assert_told(&l, 39, 40, 0);
	assert_told_once_at_most(&l);
}

/* ---- the end ---- */

static void list__of_more_than_the_limit_ends_there(void **state)
{
	struct listing e = { .scope = "s" }, p = { .scope = "s" };
	struct fixture *f = *state;

	f->hub->config.max_list = 200000;
	add_entities(f, "s", 0, MANY, 1);
	add_peers(f, "s", 0, MANY, 1);
	list_entities(f, &e, NULL);
	list_peers(f, &p);
	assert_int_equal(e.result, STORE_TOO_LARGE);
	assert_int_equal(p.result, STORE_TOO_LARGE);
	assert_in_range(e.n_batches, 1, 200000 / 128 / BATCH_MAX);
	assert_in_range(p.n_batches, 1, 200000 / 128 / BATCH_MAX);
}

static void break_connection(struct listing *l)
{
	l->between = NULL;
	test_redis_do(&l->f->redis, "CLIENT KILL TYPE normal SKIPME yes");
}

static void list__whose_connection_breaks_ends_with_that(void **state)
{
	struct listing e = { .scope = "s", .between = break_connection };
	struct listing p = { .scope = "s", .between = break_connection };
	struct fixture *f = *state;

	add_entities(f, "s", 0, MANY, 1);
	add_peers(f, "s", 0, MANY, 1);
	list_entities(f, &e, NULL);
	fixture_until_serving(f, true);
	list_peers(f, &p);
	assert_int_equal(e.result, -EIO);
	assert_int_equal(p.result, -EIO);
	assert_int_equal(e.n_batches, 1);
	assert_int_equal(p.n_batches, 1);
}

/* Whoever lists is called back, and nothing stays. */
static void list__whose_store_goes_ends_with_that(void **state)
{
	struct listing l = { .scope = "s" };
	struct fixture *f = *state;

	add_peers(f, "s", 0, MANY, 1);
	store_list_peers(f->store, text_of("s"), on_peers, &l);
	while (!l.n_batches) /* a turn takes one answer at most */
		event_base_loop(loop_base(f->loop), EVLOOP_ONCE);
	fixture_close(f);
	assert_true(l.done);
	assert_true(l.result < 0);
	fixture_open(f);
}

/* Nobody learns of what the tests write: who is listed is up to them. */
static int setup(void **state)
{
	int ret = fixture_setup(state);
	struct fixture *f = *state;

	key_indexer_destroy(f->store->compat->indexer);
	f->store->compat->indexer = NULL;
	return ret;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(list__of_very_many_comes_in_batches),
		TEST(list__of_what_is_long_comes_in_batches_of_few),
		TEST(list__of_what_is_left_out_comes_in_batches_of_few),
		TEST(list__that_is_short_is_one_batch),
		TEST(entities__that_stay_are_listed_once_whoever_comes_and_goes),
		TEST(agents__that_stay_are_listed_once_whoever_comes_and_goes),
		TEST(agents__that_are_few_and_long_are_listed_once),
		TEST(list__of_more_than_the_limit_ends_there),
		TEST(list__whose_connection_breaks_ends_with_that),
		TEST(list__whose_store_goes_ends_with_that),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
