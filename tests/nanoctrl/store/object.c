/* SPDX-License-Identifier: Apache-2.0 */
/* What agents own, and the events of a scope, over a real Redis. */
#include "tests/nanoctrl/store/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <event2/event.h>
#include "nanoctrl/net/loop.h"
#include "store/redis_store.h"
#include "api/event_cursor.h"

static void put__of_a_revision_again_changes_nothing_and_of_an_older_is_stale(void **state)
{
	struct fixture *f = *state;
	struct member m;
	struct answer a = { .done = false };

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_put(f, &m, STORE_REGION, "kv", 2, "{\"a\":1}", "two"), 0);
	assert_int_equal(fixture_put(f, &m, STORE_REGION, "kv", 2, "{}", "other"), 0);
	assert_int_equal(fixture_put(f, &m, STORE_REGION, "kv", 1, "{}", "old"), STORE_STALE);
	store_get(f->store, SCOPE, "node-a", STORE_REGION, "kv", answer_page, &a);
	fixture_run(f, &a.done);
	assert_string_equal(a.text, "node-a/kv={\"a\":1}|two ");
}

static void put__beyond_the_limit_is_refused(void **state)
{
	struct fixture *f = *state;
	struct member m;

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_put(f, &m, STORE_REGION, "1", 1, "{}", ""), 0);
	assert_int_equal(fixture_put(f, &m, STORE_REGION, "2", 1, "{}", ""), 0);
	assert_int_equal(fixture_put(f, &m, STORE_LINK, "x/default", 1, "{}", ""), 0);
	assert_int_equal(fixture_offer(f, &m, "node-a", 1, NULL, "blob"), 0);
	assert_int_equal(fixture_put(f, &m, STORE_REGION, "3", 1, "{}", ""), STORE_TOO_MANY);
	assert_int_equal(fixture_offer(f, &m, "node-a", 2, NULL, "blob"), 0);
	assert_int_equal(fixture_put(f, &m, STORE_REGION, "2", 2, "{}", ""), 0);
}

static void list__has_no_blobs_and_skips_junk(void **state)
{
	struct fixture *f = *state;
	struct member m;
	struct answer a = { .done = false };

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_put(f, &m, STORE_REGION, "kv", 1, "{}", "secret"), 0);
	test_redis_do(&f->redis, "HSET {test}:nanoctrl:region:%llu junk junk",
		      (unsigned long long)m.generation);
	test_redis_do(&f->redis, "HSET {test}:nanoctrl:region:%llu long %s",
		      (unsigned long long)m.generation, "1 1 99999999999999999999\nx");
	store_list(f->store, SCOPE, STORE_REGION, "", 10, false, answer_page, &a);
	fixture_run(f, &a.done);
	assert_string_equal(a.text, "node-a/kv={}| ");
}

static void put_large(struct fixture *f, const struct member *m, unsigned n)
{
	test_redis_do(&f->redis, "EVAL %s 1 {test}:nanoctrl:region:%llu %u",
		      "for i = 1, ARGV[1] do redis.call('HSET', KEYS[1], i, '1 1 1048576\\n' .. "
		      "string.rep('x', 1048576)) end",
		      (unsigned long long)m->generation, n);
}

static int list_regions(struct fixture *f, const char *after, struct answer *a)
{
	memset(a, 0, sizeof(*a));
	store_list(f->store, SCOPE, STORE_REGION, after, 10, false, answer_page, a);
	fixture_run(f, &a->done);
	return a->result;
}

static void list__of_much_goes_on_with_the_next_page(void **state)
{
	struct fixture *f = *state;
	struct member m;
	struct answer a;

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	put_large(f, &m, 16);
	assert_int_equal(fixture_register(f, &m, "node-b", "i2", OWNER_A, false), 0);
	assert_int_equal(fixture_put(f, &m, STORE_REGION, "kv", 1, "{}", ""), 0);
	assert_int_equal(list_regions(f, "", &a), 0);
	assert_string_equal(a.next, "node-a");
	assert_int_equal(list_regions(f, "node-a", &a), 0);
	assert_string_equal(a.text, "node-b/kv={}| ");
	assert_string_equal(a.next, "");
}

static void list__of_more_than_an_answer_holds_is_too_large(void **state)
{
	struct fixture *f = *state;
	struct member m;
	struct answer a;

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	put_large(f, &m, 80);
	assert_int_equal(list_regions(f, "", &a), STORE_TOO_LARGE);
}

/* ---- what one has in batches ---- */

#define N_MUCH 600 /* objects, which are several batches */

struct names {
	bool done;
	int result;
	int told[2 * N_MUCH]; /* how often, by number */
	size_t n;
	bool has_small; /* the agent that has one region */
	char next[STORE_NAME_MAX + 1];
};

static void answer_names(void *arg, int result, const struct store_page *page)
{
	struct names *a = arg;

	a->result = result;
	a->done = true;
	for (size_t i = 0; page && i < page->n_objects; i++) {
		const struct store_object *o = &page->objects[i];

		a->n++;
		if (strcmp(o->agent, "a-small") == 0)
			a->has_small = true;
		else
			a->told[atoi(o->name)]++;
	}
	if (page && page->next)
		snprintf(a->next, sizeof(a->next), "%s", page->next);
}

static void put_much(struct fixture *f, const struct member *m, unsigned from, unsigned n)
{
	test_redis_do(&f->redis, "EVAL %s 1 {test}:nanoctrl:region:%llu %u %u",
		      "for i = ARGV[1], ARGV[1] + ARGV[2] - 1 do redis.call('HSET', KEYS[1], "
		      "string.format('%d', i), '1 1 4096\\n' .. string.rep('x', 4096)) end",
		      (unsigned long long)m->generation, from, n);
}

/* Turns until Redis has read the first batch, which takes many turns to arrive. */
static void until_first_batch(struct fixture *f)
{
	while (!test_redis_calls(&f->redis, "hscan"))
		event_base_loop(loop_base(f->loop), EVLOOP_ONCE);
}

static void begin_much(struct fixture *f, struct member *m, struct names *a)
{
	assert_int_equal(fixture_register(f, m, "b-much", "i1", OWNER_A, false), 0);
	put_much(f, m, 0, N_MUCH);
	test_redis_do(&f->redis, "CONFIG RESETSTAT");
	store_list_of(f->store, SCOPE, "b-much", STORE_REGION, answer_names, a);
	until_first_batch(f);
	assert_false(a->done);
}

/* Of the first batch, of so many fields, the last stay, and all others go: Redis makes the hash
 * smaller then, and may come to some again. */
static void remove_most(struct fixture *f, const struct member *m, const char *kind, int batch)
{
	test_redis_do(
		&f->redis, "EVAL %s 1 {test}:nanoctrl:%s:%llu %d",
		"local at, names, stay = '0', {}, {} "
		"repeat local step = redis.call('HSCAN', KEYS[1], at, 'COUNT', 16) at = step[1] "
		"for i = 1, #step[2], 2 do names[#names + 1] = step[2][i] end "
		"until #names >= tonumber(ARGV[1]) "
		"for i = #names - 49, #names do stay[names[i]] = true end "
		"for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do "
		"if not stay[name] then redis.call('HDEL', KEYS[1], name) end end",
		kind, (unsigned long long)m->generation, batch);
}

static long long is_there(struct fixture *f, const struct member *m, const char *kind, int i,
			  const char *behind)
{
	return test_redis_do(&f->redis, "HEXISTS {test}:nanoctrl:%s:%llu %d%s", kind,
			     (unsigned long long)m->generation, i, behind);
}

static void list__of_one_with_much_has_each_that_stays_once(void **state)
{
	struct fixture *f = *state;

	for (int round = 0; round < 8; round++) {
		struct names a = { .n = 0 };
		struct member m;

		begin_much(f, &m, &a);
		remove_most(f, &m, "region", 247);
		put_much(f, &m, N_MUCH, 5);
		fixture_run(f, &a.done);
		assert_int_equal(a.result, 0);
		for (int i = 0; i < N_MUCH; i++)
			assert_in_range(a.told[i], is_there(f, &m, "region", i, ""), 1);
		assert_int_equal(fixture_leave(f, &m), 0);
	}
}

static void list__of_one_that_leaves_meanwhile_finds_nobody(void **state)
{
	struct names a = { .n = 0 };
	struct fixture *f = *state;
	struct member m;

	begin_much(f, &m, &a);
	test_redis_do(&f->redis, "DEL {test}:nanoctrl:agent:6:b-much");
	fixture_run(f, &a.done);
	assert_int_equal(a.result, STORE_NOT_FOUND);
}

/* It is there, and what the former had is not. */
static void list__of_one_that_starts_anew_meanwhile_is_empty(void **state)
{
	struct names a = { .n = 0 };
	struct fixture *f = *state;
	struct member m;

	begin_much(f, &m, &a);
	test_redis_do(&f->redis, "HINCRBY {test}:nanoctrl:agent:6:b-much generation 1");
	fixture_run(f, &a.done);
	assert_int_equal(a.result, 0);
	assert_int_equal(a.n, 0);
}

/* A page has all of an agent or nothing, and the others anyway. */
static void page__with_one_that_has_much_cuts_nobody(void **state)
{
	struct fixture *f = *state;
	struct member small, m, last;

	assert_int_equal(fixture_register(f, &small, "a-small", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_put(f, &small, STORE_REGION, "kv", 1, "{}", ""), 0);
	assert_int_equal(fixture_register(f, &m, "b-much", "i2", OWNER_A, false), 0);
	put_much(f, &m, 0, N_MUCH);
	assert_int_equal(fixture_register(f, &last, "c-last", "i3", OWNER_A, false), 0);
	for (int leaves = 0; leaves < 2; leaves++) {
		struct names a = { .n = 0 };

		test_redis_do(&f->redis, "CONFIG RESETSTAT");
		store_list(f->store, SCOPE, STORE_REGION, "", 10, true, answer_names, &a);
		until_first_batch(f);
		if (leaves)
			test_redis_do(&f->redis, "DEL {test}:nanoctrl:agent:6:b-much");
		fixture_run(f, &a.done);
		assert_int_equal(a.result, 0);
		assert_true(a.has_small);
		assert_int_equal(a.n, leaves ? 1 : 1 + N_MUCH);
		assert_string_equal(a.next, "b-much");
	}
}

static long long n_keys(struct fixture *f, const char *pattern)
{
	return test_redis_do(&f->redis, "EVAL %s 0 %s", "return #redis.call('KEYS', ARGV[1])",
			     pattern);
}

static int withdraw(struct fixture *f, const struct member *m, enum store_kind kind,
		    const char *name, uint64_t revision)
{
	struct answer a = { .done = false };

	store_delete(f->store, SCOPE, &m->lease, kind, name, revision, answer_done, &a);
	fixture_run(f, &a.done);
	return a.result;
}

static int withdraw_offer(struct fixture *f, const struct member *m, const char *to,
			  uint64_t attempt)
{
	struct answer a = { .done = false };

	store_delete_offer(f->store, SCOPE, &m->lease, to, "default", attempt, answer_done, &a);
	fixture_run(f, &a.done);
	return a.result;
}

static int get_offer(struct fixture *f, const struct member *reader, const char *from,
		     const char *to, struct answer *a)
{
	memset(a, 0, sizeof(*a));
	store_get_offer(f->store, SCOPE, &reader->lease, from, to, "default", answer_offers, a);
	fixture_run(f, &a->done);
	return a->result == 0 && a->n != 1 ? STORE_NOT_FOUND : a->result;
}

static void offer__is_replaced_by_a_later_attempt_only(void **state)
{
	struct fixture *f = *state;
	struct member a;
	struct member b;
	struct answer got;

	assert_int_equal(fixture_register(f, &a, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_register(f, &b, "node-b", "i2", OWNER_A, false), 0);
	assert_int_equal(fixture_offer(f, &a, "node-b", 2, "i2", "two"), 0);
	assert_int_equal(fixture_offer(f, &a, "node-b", 2, "i2", "two"), 0);
	assert_int_equal(fixture_offer(f, &a, "node-b", 2, "i2", "else"), STORE_STALE);
	assert_int_equal(fixture_offer(f, &a, "node-b", 1, "i2", "one"), STORE_STALE);
	assert_int_equal(fixture_offer(f, &a, "node-b", 3, "i2", "three"), 0);
	assert_int_equal(fixture_offer(f, &a, "node-b", 4, "other", "x"), STORE_PEER_CHANGED);
	assert_int_equal(fixture_offer(f, &a, "node-c", 1, NULL, "x"), STORE_PEER_NOT_FOUND);
	assert_int_equal(get_offer(f, &b, "node-a", "node-b", &got), 0);
	assert_string_equal(got.text, "node-a>node-b:3=three ");
	assert_int_equal(get_offer(f, &b, "node-b", "node-a", &got), STORE_NOT_FOUND);
}

static void offer__of_an_agent_that_started_anew_is_gone(void **state)
{
	struct fixture *f = *state;
	struct member a;
	struct member b;
	struct answer got;

	assert_int_equal(fixture_register(f, &a, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_register(f, &b, "node-b", "i2", OWNER_A, false), 0);
	assert_int_equal(fixture_offer(f, &a, "node-b", 7, "i2", "old"), 0);
	assert_int_equal(fixture_register(f, &a, "node-a", "i3", OWNER_A, false), 0);
	assert_int_equal(get_offer(f, &b, "node-a", "node-b", &got), STORE_NOT_FOUND);
	/* The new process counts its attempts from one. */
	assert_int_equal(fixture_offer(f, &a, "node-b", 1, "i2", "new"), 0);
	/* The old generation's clean-up must not take the new one's offer. */
	for (int i = 0; i < 100 && test_redis_do(&f->redis, "SCARD {test}:nanoctrl:dead"); i++) {
		fixture_spend(f, 20);
		assert_int_equal(fixture_beat(f, &a, NULL), 0);
		assert_int_equal(fixture_beat(f, &b, NULL), 0);
	}
	assert_int_equal(get_offer(f, &b, "node-a", "node-b", &got), 0);
	assert_string_equal(got.text, "node-a>node-b:1=new ");
}

/* Once: of what is not there any more there is nothing to tell. */
static void withdrawal__of_a_region_and_of_an_offer_is_told(void **state)
{
	struct answer got, region = { .done = false };
	struct fixture *f = *state;
	struct member a, b;
	char text[256];

	assert_int_equal(fixture_register(f, &a, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_register(f, &b, "node-b", "i2", OWNER_A, false), 0);
	assert_int_equal(fixture_put(f, &a, STORE_REGION, "kv", 3, "{}", "x"), 0);
	assert_int_equal(fixture_offer(f, &a, "node-b", 7, NULL, "x"), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(withdraw(f, &a, STORE_REGION, "kv", 4), 0);
		assert_int_equal(withdraw_offer(f, &a, "node-b", 7), 0);
	}
	assert_int_equal(fixture_events(f, &b.cursor, text, sizeof(text)), 0);
	assert_string_equal(text, "registered node-b >;region node-a kv>;"
				  "offer node-a default>node-b;region_gone node-a kv>;"
				  "offer_gone node-a default>node-b;");
	store_get(f->store, SCOPE, "node-a", STORE_REGION, "kv", answer_page, &region);
	fixture_run(f, &region.done);
	assert_int_equal(region.result, STORE_NOT_FOUND);
	assert_int_equal(get_offer(f, &b, "node-a", "node-b", &got), STORE_NOT_FOUND);
}

/* ---- what is executed late ---- */

static void write__older_than_one_that_is_known_is_stale(void **state)
{
	static const enum store_kind kinds[] = { STORE_REGION, STORE_LINK };
	struct fixture *f = *state;
	struct member m;

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(fixture_put(f, &m, kinds[i], "x/y", 5, "{}", ""), 0);
		assert_int_equal(withdraw(f, &m, kinds[i], "x/y", 4), STORE_STALE);
		assert_int_equal(withdraw(f, &m, kinds[i], "x/y", 6), 0);
		assert_int_equal(withdraw(f, &m, kinds[i], "x/y", 6), 0);
		assert_int_equal(withdraw(f, &m, kinds[i], "x/y", 5), STORE_STALE);
		assert_int_equal(fixture_put(f, &m, kinds[i], "x/y", 5, "{}", ""), STORE_STALE);
		assert_int_equal(fixture_put(f, &m, kinds[i], "x/y", 6, "{}", ""), STORE_STALE);
		assert_int_equal(fixture_put(f, &m, kinds[i], "x/y", 7, "{}", ""), 0);
		assert_int_equal(withdraw(f, &m, kinds[i], "x/y", 6), STORE_STALE);
		/* A withdrawal takes what has its own number. */
		assert_int_equal(withdraw(f, &m, kinds[i], "x/y", 7), 0);
		assert_int_equal(fixture_put(f, &m, kinds[i], "x/y", 7, "{}", ""), STORE_STALE);
		/* One of what was never there counts as well. */
		assert_int_equal(withdraw(f, &m, kinds[i], "x/z", 3), 0);
		assert_int_equal(fixture_put(f, &m, kinds[i], "x/z", 2, "{}", ""), STORE_STALE);
		assert_int_equal(fixture_put(f, &m, kinds[i], "x/z", 4, "{}", ""), 0);
	}
	/* Another generation counts anew, and nothing is kept of the former one. */
	assert_int_equal(fixture_register(f, &m, "node-a", "i2", OWNER_A, false), 0);
	assert_int_equal(fixture_put(f, &m, STORE_REGION, "x/y", 1, "{}", ""), 0);
	assert_int_equal(n_keys(f, "{test}:nanoctrl:order.*"), 0);
}

static void offer__older_than_one_that_is_known_is_stale(void **state)
{
	struct fixture *f = *state;
	struct member a, b;

	assert_int_equal(fixture_register(f, &a, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_register(f, &b, "node-b", "i2", OWNER_A, false), 0);
	assert_int_equal(fixture_offer(f, &a, "node-b", 5, NULL, "x"), 0);
	assert_int_equal(withdraw_offer(f, &a, "node-b", 4), STORE_STALE);
	/* Also of a later registration of the peer: there the same one may be posted, and later
	 * ones. */
	assert_int_equal(fixture_leave(f, &b), 0);
	assert_int_equal(fixture_register(f, &b, "node-b", "i2", OWNER_A, false), 0);
	assert_int_equal(fixture_offer(f, &a, "node-b", 4, NULL, "x"), STORE_STALE);
	assert_int_equal(fixture_offer(f, &a, "node-b", 5, NULL, "x"), 0);
	assert_int_equal(withdraw_offer(f, &a, "node-b", 5), 0);
	assert_int_equal(fixture_offer(f, &a, "node-b", 5, NULL, "x"), STORE_STALE);
	assert_int_equal(fixture_offer(f, &a, "node-b", 6, NULL, "x"), 0);
	assert_int_equal(withdraw_offer(f, &a, "node-b", 5), STORE_STALE);
	/* A withdrawal counts where the peer is away. */
	assert_int_equal(fixture_leave(f, &b), 0);
	assert_int_equal(withdraw_offer(f, &a, "node-b", 7), 0);
	assert_int_equal(fixture_register(f, &b, "node-b", "i2", OWNER_A, false), 0);
	assert_int_equal(fixture_offer(f, &a, "node-b", 7, NULL, "x"), STORE_STALE);
	assert_int_equal(fixture_leave(f, &a), 0);
	assert_int_equal(n_keys(f, "{test}:nanoctrl:order.*"), 0);
}

/* What was forgotten is refused with all that may be older than it. */
static void withdrawals__beyond_the_limit_are_remembered_together(void **state)
{
	struct fixture *f = *state;
	struct member m;
	char name[16];

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_put(f, &m, STORE_REGION, "old", 1, "{}", ""), 0);
	for (unsigned i = 2; i < 100; i++) {
		snprintf(name, sizeof(name), "r%u", i);
		assert_int_equal(fixture_put(f, &m, STORE_REGION, name, 2 * i, "{}", ""), 0);
		assert_int_equal(withdraw(f, &m, STORE_REGION, name, 2 * i + 1), 0);
	}
	assert_int_equal(test_redis_do(&f->redis, "ZCARD {test}:nanoctrl:order.region:%llu",
				       (unsigned long long)m.generation),
			 4 + 1);
	for (unsigned i = 2; i < 100; i++) {
		snprintf(name, sizeof(name), "r%u", i);
		assert_int_equal(fixture_put(f, &m, STORE_REGION, name, 2 * i, "{}", ""),
				 STORE_STALE);
		assert_int_equal(withdraw(f, &m, STORE_REGION, name, 2 * i), STORE_STALE);
	}
	/* Of what is there its own number counts. */
	assert_int_equal(fixture_put(f, &m, STORE_REGION, "old", 2, "{}", ""), 0);
	assert_int_equal(withdraw(f, &m, STORE_REGION, "old", 3), 0);
	assert_int_equal(fixture_put(f, &m, STORE_REGION, "old", 4, "{}", ""), STORE_STALE);
	assert_int_equal(fixture_put(f, &m, STORE_REGION, "new", 200, "{}", ""), 0);
}

/* Offers of agents that there are not, so that one more is too many. */
static void fill_inbox(struct fixture *f, const struct member *m)
{
	test_redis_do(&f->redis, "EVAL %s 1 {test}:nanoctrl:inbox:%llu",
		      "for i = 1, 16383 do redis.call('HSET', KEYS[1], i .. '/default', "
		      "'1 1 i 1 i\\n') end",
		      (unsigned long long)m->generation);
}

static void offer__to_a_full_inbox_is_refused_and_one_that_is_there_replaced(void **state)
{
	struct fixture *f = *state;
	struct member a, b, c;
	struct answer got = { .done = false };

	assert_int_equal(fixture_register(f, &a, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_register(f, &b, "node-b", "i2", OWNER_A, false), 0);
	assert_int_equal(fixture_register(f, &c, "node-c", "i3", OWNER_A, false), 0);
	fill_inbox(f, &b);
	assert_int_equal(fixture_offer(f, &a, "node-b", 1, NULL, "x"), 0);
	assert_int_equal(fixture_offer(f, &c, "node-b", 1, NULL, "x"), STORE_INBOX_FULL);
	assert_int_equal(fixture_offer(f, &a, "node-b", 2, NULL, "y"), 0);
	store_list_offers(f->store, SCOPE, &b.lease, answer_offers, &got);
	fixture_run(f, &got.done);
	assert_string_equal(got.text, "node-a>node-b:2= ");
}

struct names_of_offers {
	bool done;
	int result;
	int told[2 * N_MUCH];
};

static void answer_offer_names(void *arg, int result, const struct store_cursor *cursor,
			       const struct store_offer *offers, size_t n)
{
	struct names_of_offers *a = arg;

	(void)cursor;
	a->result = result;
	a->done = true;
	for (size_t i = 0; i < n; i++)
		a->told[atoi(offers[i].from)]++;
}

/* Agents named by numbers, each with an offer for m. */
static void post_much(struct fixture *f, const struct member *m, unsigned from, unsigned n)
{
	test_redis_do(&f->redis, "EVAL %s 0 %llu %u %u",
		      "local p, to = '{test}:nanoctrl:', ARGV[1] "
		      "for i = ARGV[2], ARGV[2] + ARGV[3] - 1 do i = string.format('%d', i) "
		      "redis.call('HSET', p .. 'agent:' .. #i .. ':' .. i, 'generation', i + 1) "
		      "redis.call('HSET', p .. 'inbox:' .. to, i .. '/default', "
		      "'1 ' .. (i + 1) .. ' i ' .. to .. ' i\\n' .. string.rep('x', 16384)) end",
		      (unsigned long long)m->generation, from, n);
}

/* As of regions: most of them go meanwhile. */
static void list__of_many_offers_has_each_that_stays_once(void **state)
{
	struct fixture *f = *state;

	for (int round = 0; round < 4; round++) {
		struct names_of_offers a = { .done = false };
		struct member m;

		assert_int_equal(fixture_register(f, &m, "b-much", "i1", OWNER_A, false), 0);
		post_much(f, &m, 0, N_MUCH);
		test_redis_do(&f->redis, "CONFIG RESETSTAT");
		store_list_offers(f->store, SCOPE, &m.lease, answer_offer_names, &a);
		until_first_batch(f);
		assert_false(a.done);
		remove_most(f, &m, "inbox", 64);
		post_much(f, &m, N_MUCH, 5);
		fixture_run(f, &a.done);
		assert_int_equal(a.result, 0);
		for (int i = 0; i < N_MUCH; i++)
			assert_in_range(a.told[i], is_there(f, &m, "inbox", i, "/default"), 1);
		assert_int_equal(fixture_leave(f, &m), 0);
	}
}

static void offer__to_agents_that_left_is_not_counted(void **state)
{
	struct fixture *f = *state;
	struct member a;
	struct member b;

	assert_int_equal(fixture_register(f, &a, "node-a", "i1", OWNER_A, false), 0);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(fixture_register(f, &b, "guest", "i2", OWNER_A, false), 0);
		assert_int_equal(fixture_offer(f, &a, "guest", 1, NULL, "x"), 0);
		assert_int_equal(fixture_leave(f, &b), 0);
		for (int k = 0; k < 100 && test_redis_do(&f->redis, "SCARD {test}:nanoctrl:dead");
		     k++) {
			fixture_spend(f, 10);
			assert_int_equal(fixture_beat(f, &a, NULL), 0);
		}
	}
	assert_int_equal(test_redis_do(&f->redis, "SCARD {test}:nanoctrl:sent:%llu",
				       (unsigned long long)a.generation),
			 0);
}

/* What a owns in others' inboxes is more than three batches of it. */
#define N_POSTED 1501

static void post_many(struct fixture *f, const struct member *a, const struct member *b)
{
	test_redis_do(&f->redis, "EVAL %s 0 %llu %llu %d",
		      "local from, to = ARGV[1], ARGV[2] for i = 1, ARGV[3] do "
		      "redis.call('HSET', '{test}:nanoctrl:inbox:' .. to, 'node-a/p' .. i, '1 ' .. "
		      "from .. ' i1 ' .. to .. ' i2\\nx') redis.call('SADD', "
		      "'{test}:nanoctrl:sent:' .. from, to .. ' node-a/p' .. i) end",
		      (unsigned long long)a->generation, (unsigned long long)b->generation,
		      N_POSTED);
}

/* The dead are cleaned up, and nothing is left of what one posted to the other. */
static void until_no_posts(struct fixture *f, const struct member *from, const struct member *to)
{
	fixture_until(f, 0, "EXISTS {test}:nanoctrl:dead");
	assert_int_equal(
		test_redis_do(
			&f->redis, "EXISTS {test}:nanoctrl:inbox:%llu {test}:nanoctrl:sent:%llu",
			(unsigned long long)to->generation, (unsigned long long)from->generation),
		0);
}

/* They are not visible any more, all at once; then they go, at most 500 with one script. */
static void leave__of_one_who_posted_much_is_cleaned_up_in_batches(void **state)
{
	struct fixture *f = *state;
	struct member a, b;
	struct answer got;

	assert_int_equal(fixture_register(f, &a, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_register(f, &b, "node-b", "i2", OWNER_A, false), 0);
	post_many(f, &a, &b);
	assert_int_equal(fixture_offer(f, &a, "node-b", 1, "i2", "x"), STORE_TOO_MANY);
	test_redis_do(&f->redis, "CONFIG RESETSTAT");
	assert_int_equal(fixture_leave(f, &a), 0);
	memset(&got, 0, sizeof(got));
	store_list_offers(f->store, SCOPE, &b.lease, answer_offers, &got);
	fixture_run(f, &got.done);
	assert_int_equal(got.n, 0);
	until_no_posts(f, &a, &b);
	assert_int_equal(test_redis_calls(&f->redis, "spop"), (N_POSTED + 499) / 500);
	assert_int_equal(test_redis_calls(&f->redis, "hdel"), N_POSTED);
}

/* What others posted to it may be large: there it is fewer. */
static void leave__of_one_who_got_much_is_cleaned_up_in_batches(void **state)
{
	struct fixture *f = *state;
	struct member a, b;

	assert_int_equal(fixture_register(f, &a, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_register(f, &b, "node-b", "i2", OWNER_A, false), 0);
	post_many(f, &a, &b);
	test_redis_do(&f->redis, "CONFIG RESETSTAT");
	assert_int_equal(fixture_leave(f, &b), 0);
	until_no_posts(f, &a, &b);
	assert_true(test_redis_calls(&f->redis, "hrandfield") > N_POSTED / 500);
	assert_int_equal(fixture_beat(f, &a, NULL), 0);
}

static void events__grow_old_and_their_numbers_go_on(void **state)
{
	struct fixture *f = *state;
	struct store_cursor begin;
	struct member m;
	char text[256];

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	begin = m.cursor;
	f->hub->config.keep_ms = 1;
	fixture_until(f, 0, "XLEN {test}:nanoctrl:events");
	f->hub->config.keep_ms = LONG_TTL_MS;
	assert_int_equal(fixture_put(f, &m, STORE_REGION, "kv", 1, "{}", ""), 0);
	assert_int_equal(fixture_events(f, &begin, text, sizeof(text)), 1);
	assert_int_equal(begin.id, m.cursor.id + 2);
	assert_int_equal(test_redis_do(&f->redis, "XLEN {test}:nanoctrl:events"), 1);
}

static void events__that_are_not_kept_any_more_are_a_reset(void **state)
{
	struct fixture *f = *state;
	struct member m;
	struct store_cursor begin;
	struct store_cursor foreign;
	char text[8192];

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	begin = m.cursor;
	foreign = (struct store_cursor){ m.cursor.epoch + 1, 0 };
	assert_int_equal(fixture_events(f, &foreign, text, sizeof(text)), 1);
	/* Streams are trimmed in blocks of a hundred entries. */
	for (int i = 1; i <= 400; i++)
		assert_int_equal(fixture_put(f, &m, STORE_REGION, "kv", (uint64_t)i, "{}", ""), 0);
	assert_int_equal(fixture_events(f, &begin, text, sizeof(text)), 1);
	assert_int_equal(begin.id, 401);
	assert_int_equal(fixture_put(f, &m, STORE_REGION, "kv", 401, "{}", ""), 0);
	assert_int_equal(fixture_events(f, &begin, text, sizeof(text)), 0);
	assert_string_equal(text, "region node-a kv>;");
}

struct heard {
	char text[4096];
	unsigned n;
	unsigned n_resets;
	uint64_t last;
	bool gap;
	struct event_cursor *close; /* to be closed from inside */
};

static void hear(void *arg, const struct store_events *ev)
{
	struct heard *h = arg;

	if (ev->reset) {
		h->n_resets++;
		h->last = ev->last;
	}
	for (size_t i = 0; i < ev->n; i++) {
		h->gap = h->gap || (h->last && ev->events[i].id != h->last + 1);
		h->last = ev->events[i].id;
		h->n++;
	}
	if (h->close)
		event_cursor_close(h->close);
}

static void until_heard(struct fixture *f, const struct heard *h, unsigned n)
{
	for (int i = 0; i < 6000 && h->n < n; i++)
		fixture_spend(f, 10);
	assert_int_equal(h->n, n);
}

static void event_cursor__has_each_event_once_from_its_cursor_on(void **state)
{
	struct fixture *f = *state;
	struct member m;
	struct heard early = { .n = 0 };
	struct heard late = { .n = 0 };
	struct event_cursor *a;
	struct event_cursor *b;
	struct store_cursor from;

	/* The scope has no epoch yet. */
	assert_int_equal(event_cursor_open(f->store, SCOPE, NULL, hear, &early, &a), 0);
	fixture_spend(f, 20);
	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	from = m.cursor;
	for (int i = 1; i <= 20; i++)
		assert_int_equal(fixture_put(f, &m, STORE_REGION, "kv", (uint64_t)i, "{}", ""), 0);
	assert_int_equal(event_cursor_open(f->store, SCOPE, &from, hear, &late, &b), 0);
	for (int i = 21; i <= 40; i++)
		assert_int_equal(fixture_put(f, &m, STORE_REGION, "kv", (uint64_t)i, "{}", ""), 0);
	until_heard(f, &early, 41);
	until_heard(f, &late, 41);
	assert_false(early.gap || late.gap);
	assert_int_equal(early.n_resets + late.n_resets, 0);
	assert_int_equal(event_cursor_at(a).id, 41);
	event_cursor_close(a);
	event_cursor_close(b);
}

/* All agents of a scope that come back at once read the same: Redis is asked for it once. */
static void event_cursor__of_many_who_are_behind_shares_a_read(void **state)
{
	enum { N = 50 };
	static struct heard heard[N];
	struct fixture *f = *state;
	struct event_cursor *cursors[N];
	struct store_cursor from;
	struct member m;

	memset(heard, 0, sizeof(heard));
	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	for (int i = 1; i <= 40; i++)
		assert_int_equal(fixture_put(f, &m, STORE_REGION, "kv", (uint64_t)i, "{}", ""), 0);
	test_redis_do(&f->redis, "CONFIG RESETSTAT");
	for (unsigned i = 0; i < N; i++) {
		from = (struct store_cursor){ m.cursor.epoch, m.cursor.id + i / 2 };
		assert_int_equal(
			event_cursor_open(f->store, SCOPE, &from, hear, &heard[i], &cursors[i]), 0);
	}
	for (unsigned i = 0; i < N; i++) {
		until_heard(f, &heard[i], 41 - i / 2);
		assert_false(heard[i].gap || heard[i].n_resets);
	}
	/* The feed's own and one for all; each reads two counters beside the events. */
	assert_true(test_redis_calls(&f->redis, "get") < N);
	for (unsigned i = 0; i < N; i++)
		event_cursor_close(cursors[i]);
}

/* A cursor that is not kept any more resets its own place, and no other one. */
static void event_cursor__of_a_lost_cursor_is_reset_alone(void **state)
{
	struct fixture *f = *state;
	struct store_cursor lost;
	struct heard early = { .n = 0 };
	struct heard late = { .n = 0 };
	struct member m;
	struct event_cursor *a;
	struct event_cursor *b;

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	for (int i = 1; i <= 10; i++)
		assert_int_equal(fixture_put(f, &m, STORE_REGION, "kv", (uint64_t)i, "{}", ""), 0);
	test_redis_do(&f->redis, "XTRIM {" SCOPE "}:nanoctrl:events MINID 6-0");
	lost = m.cursor;
	m.cursor.id += 6;
	assert_int_equal(event_cursor_open(f->store, SCOPE, &lost, hear, &early, &a), 0);
	assert_int_equal(event_cursor_open(f->store, SCOPE, &m.cursor, hear, &late, &b), 0);
	until_heard(f, &late, 5);
	assert_int_equal(late.n_resets, 0);
	assert_int_equal(early.n_resets, 1);
	event_cursor_close(a);
	event_cursor_close(b);
}

static void event_cursor__hears_what_happened_while_redis_was_away(void **state)
{
	struct fixture *f = *state;
	struct member m;
	struct heard h = { .n = 0 };
	struct event_cursor *t;

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(event_cursor_open(f->store, SCOPE, &m.cursor, hear, &h, &t), 0);
	until_heard(f, &h, 1);
	test_redis_kill(&f->redis);
	fixture_until_serving(f, false);
	test_redis_restart(&f->redis);
	fixture_until_serving(f, true);
	for (int i = 0; i < 6000 && !h.n_resets; i++)
		fixture_spend(f, 10);
	assert_int_equal(h.n_resets, 1);
	h.last = 0;
	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, true), 0);
	until_heard(f, &h, 2);
	event_cursor_close(t);
}

static void event_cursor__may_be_closed_from_inside(void **state)
{
	struct fixture *f = *state;
	struct member m;
	struct heard h = { .n = 0 };
	struct heard other = { .n = 0 };
	struct event_cursor *t;

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(event_cursor_open(f->store, SCOPE, NULL, hear, &h, &h.close), 0);
	assert_int_equal(event_cursor_open(f->store, SCOPE, NULL, hear, &other, &t), 0);
	fixture_spend(f, 20);
	for (int i = 1; i <= 3; i++)
		assert_int_equal(fixture_put(f, &m, STORE_REGION, "kv", (uint64_t)i, "{}", ""), 0);
	until_heard(f, &other, 3);
	assert_true(h.n >= 1 && h.n <= 3);
	event_cursor_close(t);
}

static void scope__without_agents_and_events_is_forgotten(void **state)
{
	struct fixture *f = *state;
	struct member m;

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_leave(f, &m), 0);
	/* Age the events: their time is the last field of each. */
	test_redis_do(&f->redis, "DEL {test}:nanoctrl:events");
	/* It is there for a lease. */
	test_redis_do(&f->redis, "DEL {test}:nanoctrl:left:6:node-a:" OWNER_A);
	fixture_until(f, 2, "KEYS *"); /* nanoctrl:schema, nanoctrl:run */
	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(test_redis_do(&f->redis, "SISMEMBER nanoctrl:scopes test"), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(put__of_a_revision_again_changes_nothing_and_of_an_older_is_stale),
		TEST(put__beyond_the_limit_is_refused),
		TEST(list__has_no_blobs_and_skips_junk),
		TEST(list__of_much_goes_on_with_the_next_page),
		TEST(list__of_more_than_an_answer_holds_is_too_large),
		TEST(list__of_one_with_much_has_each_that_stays_once),
		TEST(list__of_one_that_leaves_meanwhile_finds_nobody),
		TEST(list__of_one_that_starts_anew_meanwhile_is_empty),
		TEST(page__with_one_that_has_much_cuts_nobody),
		TEST(offer__is_replaced_by_a_later_attempt_only),
		TEST(offer__of_an_agent_that_started_anew_is_gone),
		TEST(withdrawal__of_a_region_and_of_an_offer_is_told),
		TEST(write__older_than_one_that_is_known_is_stale),
		TEST(offer__older_than_one_that_is_known_is_stale),
		TEST(withdrawals__beyond_the_limit_are_remembered_together),
		TEST(offer__to_a_full_inbox_is_refused_and_one_that_is_there_replaced),
		TEST(list__of_many_offers_has_each_that_stays_once),
		TEST(offer__to_agents_that_left_is_not_counted),
		TEST(leave__of_one_who_posted_much_is_cleaned_up_in_batches),
		TEST(leave__of_one_who_got_much_is_cleaned_up_in_batches),
		TEST(events__grow_old_and_their_numbers_go_on),
		TEST(events__that_are_not_kept_any_more_are_a_reset),
		TEST(event_cursor__has_each_event_once_from_its_cursor_on),
		TEST(event_cursor__of_many_who_are_behind_shares_a_read),
		TEST(event_cursor__of_a_lost_cursor_is_reset_alone),
		TEST(event_cursor__hears_what_happened_while_redis_was_away),
		TEST(event_cursor__may_be_closed_from_inside),
		TEST(scope__without_agents_and_events_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
