/* SPDX-License-Identifier: Apache-2.0 */
/* What replicas commit of the links that topologies want, over a real Redis. */
#include "tests/nanoctrl/store/fixture.h"

#include <stdio.h>
#include <string.h>

struct told {
	bool done;
	int result;
	uint64_t revision;
};

static void on_revision(void *arg, int result, uint64_t revision)
{
	*(struct told *)arg = (struct told){ true, result, revision };
}

/* Writes a topology over `revision`; the new one. */
static uint64_t write_topology(struct fixture *f, uint64_t revision, const char *doc)
{
	const struct store_topology_write write = { "t", { doc, strlen(doc) } };
	struct told t = { .done = false };

	store_write_topologies(f->store, SCOPE, revision, &write, 1, on_revision, &t);
	fixture_run(f, &t.done);
	assert_int_equal(t.result, STORE_OK);
	return t.revision;
}

/* What a replica saw, and the lists of the agents a and b that it came to. */
struct view {
	uint64_t revision, expanded;
	struct store_cursor seen;
	const char *a, *b;
};

static struct told commit(struct fixture *f, const struct view *v)
{
	const struct store_wanted lists[] = { { .agent = "a", .list = { v->a, strlen(v->a) } },
					      { .agent = "b", .list = { v->b, strlen(v->b) } } };
	struct told t = { .done = false };

	store_commit_wanted(f->store, SCOPE, v->revision, v->expanded, &v->seen, lists, 2, NULL, 0,
			    on_revision, &t);
	fixture_run(f, &t.done);
	return t;
}

/* "REVISION LIST" of an agent; "" where there is none. */
struct list {
	bool done;
	uint64_t revision;
	char text[64];
};

static void on_list(void *arg, int result, const struct store_wanted *lists, size_t n,
		    const char *next)
{
	struct list *l = arg;

	(void)next;
	assert_int_equal(result, STORE_OK);
	assert_int_equal(n, 1);
	l->done = true;
	l->revision = lists[0].revision;
	snprintf(l->text, sizeof(l->text), "%.*s", (int)lists[0].list.len, lists[0].list.at);
}

static struct list list_of(struct fixture *f, const char *agent)
{
	struct list l = { .done = false };

	store_get_wanted(f->store, SCOPE, agent, on_list, &l);
	fixture_run(f, &l.done);
	return l;
}

/* Two replicas expanded at the same time, and one committed first. */
static void commit__of_a_replica_that_was_slower_is_stale(void **state)
{
	struct fixture *f = *state;
	struct view fast = { .seen = { 7, 3 }, .a = "[1]", .b = "[2]" }, slow = fast;
	struct told first, second;

	fast.revision = slow.revision = write_topology(f, 0, "{}");
	slow.a = "[9]";
	first = commit(f, &fast);
	assert_int_equal(first.result, STORE_OK);
	assert_int_equal(commit(f, &slow).result, STORE_STALE);
	assert_string_equal(list_of(f, "a").text, "[1]");
	/* It reads again. */
	slow.expanded = first.revision;
	second = commit(f, &slow);
	assert_int_equal(second.result, STORE_OK);
	assert_true(second.revision > first.revision);
	assert_string_equal(list_of(f, "a").text, "[9]");
}

static void commit__for_topologies_that_changed_since_is_stale(void **state)
{
	struct fixture *f = *state;
	struct view v = { .seen = { 7, 3 }, .a = "[1]", .b = "[2]" };

	v.revision = write_topology(f, 0, "{}");
	write_topology(f, v.revision, "{\"version\":1}");
	assert_int_equal(commit(f, &v).result, STORE_STALE);
	assert_string_equal(list_of(f, "a").text, "");
}

/* A replica whose view of the agents is behind does not undo what a later one found. */
static void commit__as_of_an_earlier_event_is_stale(void **state)
{
	struct fixture *f = *state;
	struct view later = { .seen = { 7, 5 }, .a = "[1]", .b = "[2]" }, earlier = later;

	later.revision = earlier.revision = write_topology(f, 0, "{}");
	earlier.expanded = commit(f, &later).revision;
	earlier.seen.id = 4;
	earlier.a = "[]";
	assert_int_equal(commit(f, &earlier).result, STORE_STALE);
	assert_string_equal(list_of(f, "a").text, "[1]");
	/* Events of another epoch have an order of their own. */
	earlier.seen.epoch = 8;
	assert_int_equal(commit(f, &earlier).result, STORE_OK);
	assert_string_equal(list_of(f, "a").text, "[]");
}

static void commit__writes_and_tells_of_lists_that_differ_alone(void **state)
{
	struct fixture *f = *state;
	struct view v = { .seen = { 7, 3 }, .a = "[1]", .b = "[2]" };
	struct list a, b;
	struct member m;
	char text[256];

	assert_int_equal(fixture_register(f, &m, "c", "i1", OWNER_A, false), 0);
	v.revision = write_topology(f, 0, "{}");
	v.expanded = commit(f, &v).revision;
	assert_int_equal(fixture_events(f, &m.cursor, text, sizeof(text)), 0);
	assert_non_null(strstr(text, "wanted a"));
	a = list_of(f, "a");
	b = list_of(f, "b");
	v.b = "[3]";
	v.expanded = commit(f, &v).revision;
	assert_int_equal(list_of(f, "a").revision, a.revision);
	assert_true(list_of(f, "b").revision > b.revision);
	assert_int_equal(fixture_events(f, &m.cursor, text, sizeof(text)), 0);
	assert_non_null(strstr(text, "wanted b"));
	assert_null(strstr(text, "wanted a"));
	/* Nothing differs: nothing is written, and none is told. */
	assert_int_equal(commit(f, &v).revision, v.expanded);
	assert_int_equal(fixture_events(f, &m.cursor, text, sizeof(text)), 0);
	assert_null(strstr(text, "wanted"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(commit__of_a_replica_that_was_slower_is_stale),
		TEST(commit__for_topologies_that_changed_since_is_stale),
		TEST(commit__as_of_an_earlier_event_is_stale),
		TEST(commit__writes_and_tells_of_lists_that_differ_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
