/* SPDX-License-Identifier: Apache-2.0 */
/* What agents say of what they do, through a socket, over a real Redis. */
#include "tests/nanoctrl/api/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char lease[512];

#define BODY                                                                                       \
	"{\"interval_ms\":1000,\"pid\":7,\"host\":\"h\",\"status\":\"starting\","                  \
	"\"peer_id\":\"another\",\"schema_version\":9,\"reported_at_ms\":1,\"summary\":{\"x\":1}," \
	"\"nics\":[{\"nic\":\"shm\"}],\"connections\":[],\"more\":1.5}"

static int put(struct api_fixture *f, const char *name, const char *body)
{
	char target[128];

	snprintf(target, sizeof(target), "/v1/agents/%s/snapshot?scope=demo", name);
	return api_do(f, &f->said, "PUT", target, lease, body);
}

static int list(struct api_fixture *f, const char *query)
{
	char target[128];

	snprintf(target, sizeof(target), "/v1/snapshots%s", query);
	return api_do(f, &f->said, "GET", target, NULL, NULL);
}

static json_t *element(const struct api_fixture *f, size_t i)
{
	return json_array_get(json_object_get(f->said.body, "snapshots"), i);
}

static const char *text(const struct api_fixture *f, size_t i, const char *name)
{
	return json_string_value(json_object_get(element(f, i), name));
}

static void put__is_read_where_others_have_theirs(void **state)
{
	struct api_fixture *f = *state;
	long long at;

	assert_int_equal(api_register(f, "a", "one", OWNER_KEY_A, lease), 201);
	assert_int_equal(put(f, "a", BODY), 200);
	assert_int_equal(list(f, "?scope=demo"), 200);
	assert_int_equal(api_count(&f->said, "snapshots"), 1);
	assert_string_equal(text(f, 0, "peer_id"), "a");
	assert_null(text(f, 0, "status"));
	assert_int_equal(json_integer_value(json_object_get(element(f, 0), "schema_version")), 1);
	at = json_integer_value(json_object_get(element(f, 0), "reported_at_ms"));
	assert_in_range(api_number(&f->said, "now_ms", NULL) - at, 0, 60000);
	assert_true(json_is_real(json_object_get(element(f, 0), "more")));
	assert_in_range(test_redis_do(&f->redis, "PTTL demo:obs:peer:a"), 120000, 180000);
	assert_int_equal(list(f, "?scope=default"), 200);
	assert_int_equal(api_count(&f->said, "snapshots"), 0);
}

/* Whoever names no scope is in "default" here, and in none of the scopes of others. */
static void put__in_the_default_scope_is_read_by_those_who_name_none(void **state)
{
	struct api_fixture *f = *state;

	assert_int_equal(api_do(f, &f->said, "PUT", "/v1/agents/a?order=1", NULL,
				"{\"incarnation\":\"one\",\"owner_key\":\"" OWNER_KEY_A "\"}"),
			 201);
	snprintf(lease, sizeof(lease), "%s", api_text(&f->said, "lease", NULL));
	assert_int_equal(api_do(f, &f->said, "PUT", "/v1/agents/a/snapshot", lease, BODY), 200);
	assert_int_equal(test_redis_do(&f->redis, "EXISTS obs:peer:a"), 1);
	assert_int_equal(list(f, ""), 200);
	assert_int_equal(api_count(&f->said, "snapshots"), 1);
	assert_int_equal(list(f, "?scope=default"), 200);
	assert_int_equal(api_count(&f->said, "snapshots"), 1);
}

static void put__that_is_no_snapshot_is_refused(void **state)
{
	static const struct {
		const char *body, *field;
	} bad[] = {
		{ "{\"summary\":{}}", "interval_ms" },
		{ "{\"interval_ms\":0,\"summary\":{}}", "interval_ms" },
		{ "{\"interval_ms\":3600001,\"summary\":{}}", "interval_ms" },
		{ "{\"interval_ms\":1}", "summary" },
		{ "{\"interval_ms\":1,\"summary\":[]}", "summary" },
		{ "{\"interval_ms\":1,\"summary\":{},\"pid\":\"x\"}", "pid" },
		{ "{\"interval_ms\":1,\"summary\":{},\"host\":5}", "host" },
		{ "{\"interval_ms\":1,\"summary\":{},\"nics\":[5]}", "nics[0]" },
		{ "{\"interval_ms\":1,\"summary\":{},\"nics\":[{},{},{},{},{},{},{},{},{},{},{},"
		  "{},{},{},{},{},{}]}",
		  "nics" },
		{ "{\"interval_ms\":1,\"summary\":{},\"connections\":{}}", "connections" },
	};
	struct api_fixture *f = *state;

	assert_int_equal(api_register(f, "a", "one", OWNER_KEY_A, lease), 201);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(put(f, "a", bad[i].body), 422);
		assert_string_equal(api_text(&f->said, "field", NULL), bad[i].field);
	}
	assert_int_equal(put(f, "a", "{"), 400);
	assert_int_equal(put(f, "b", BODY), 403);
	assert_int_equal(api_do(f, &f->said, "PUT", "/v1/agents/a/snapshot?scope=demo", NULL, BODY),
			 401);
	assert_int_equal(test_redis_do(&f->redis, "EXISTS demo:obs:peer:a nanoctrl:snapshots:demo"),
			 0);
}

static void put__that_is_too_long_is_refused(void **state)
{
	struct api_fixture *f = *state;
	size_t len = 300 * 1024;
	char *body = malloc(len + 64);

	assert_non_null(body);
	strcpy(body, "{\"interval_ms\":1,\"summary\":{\"x\":\"");
	memset(body + strlen(body), 'y', len);
	strcpy(body + len, "\"}}");
	assert_int_equal(api_register(f, "a", "one", OWNER_KEY_A, lease), 201);
	assert_int_equal(put(f, "a", body), 422);
	free(body);
}

static bool registered(const struct api_fixture *f, size_t i)
{
	return json_is_true(json_object_get(element(f, i), "registered"));
}

/* Whatever the agent says of that itself; of others there is nothing to say. */
static void list__says_whether_the_agent_has_a_lease(void **state)
{
	struct api_fixture *f = *state;

	assert_int_equal(api_register(f, "a", "one", OWNER_KEY_A, lease), 201);
	assert_int_equal(
		put(f, "a", "{\"interval_ms\":1,\"summary\":{},\"registered\":\"perhaps\"}"), 200);
	test_redis_do(&f->redis, "SET demo:obs:peer:b %s", "{\"peer_id\":\"b\"}");
	test_redis_do(&f->redis, "ZADD nanoctrl:snapshots:demo 0 demo:obs:peer:b");
	assert_int_equal(list(f, "?scope=demo"), 200);
	assert_true(registered(f, 0));
	assert_null(json_object_get(element(f, 1), "registered"));
	assert_int_equal(test_redis_do(&f->redis, "DEL {demo}:nanoctrl:agent:1:a"), 1);
	assert_int_equal(list(f, "?scope=demo"), 200);
	assert_true(json_is_false(json_object_get(element(f, 0), "registered")));
	/* The last words of an agent that is back are older than its lease. */
	assert_int_equal(api_register(f, "a", "two", OWNER_KEY_A, lease), 201);
	assert_int_equal(put(f, "a", BODY), 200);
	assert_int_equal(api_do(f, &f->said, "DELETE", "/v1/agents/a?scope=demo", lease, NULL),
			 200);
	assert_int_equal(api_register(f, "a", "three", OWNER_KEY_A, lease), 201);
	assert_int_equal(list(f, "?scope=demo"), 200);
	assert_string_equal(text(f, 0, "status"), "stopped");
	assert_true(registered(f, 0));
}

static void leave__shows_in_the_last_snapshot(void **state)
{
	struct api_fixture *f = *state;

	assert_int_equal(api_register(f, "a", "one", OWNER_KEY_A, lease), 201);
	assert_int_equal(put(f, "a", BODY), 200);
	assert_int_equal(api_do(f, &f->said, "DELETE", "/v1/agents/a?scope=demo", lease, NULL),
			 200);
	assert_int_equal(list(f, "?scope=demo"), 200);
	assert_string_equal(text(f, 0, "status"), "stopped");
	assert_in_range(test_redis_do(&f->redis, "PTTL demo:obs:peer:a"), 1, 10000);
	assert_int_equal(put(f, "a", BODY), 410);
}

/* What an agent of DLSlime's NanoCtrl wrote there meanwhile is its own. */
static void leave__changes_no_snapshot_of_others(void **state)
{
	struct api_fixture *f = *state;

	assert_int_equal(api_register(f, "a", "one", OWNER_KEY_A, lease), 201);
	test_redis_do(&f->redis, "SET demo:obs:peer:a %s", "{\"peer_id\":\"a\"}");
	assert_int_equal(api_do(f, &f->said, "DELETE", "/v1/agents/a?scope=demo", lease, NULL),
			 200);
	assert_int_equal(test_redis_do(&f->redis, "STRLEN demo:obs:peer:a"), 15);
	assert_int_equal(test_redis_do(&f->redis, "PTTL demo:obs:peer:a"), -1);
}

static void list__comes_in_pages_without_what_is_gone_or_junk(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	test_redis_do(r, "MSET s:obs:peer:a %s s:obs:peer:b %s s:obs:peer:c %s",
		      "{\"peer_id\":\"a\"}", "[broken", "{\"peer_id\":\"c\"}");
	test_redis_do(r, "ZADD nanoctrl:snapshots:s 0 s:obs:peer:a 0 s:obs:peer:b 0 s:obs:peer:c 0 "
			 "s:obs:peer:gone 0 s:obs:peer:hash");
	test_redis_do(r, "HSET s:obs:peer:hash x y");
	assert_int_equal(list(f, "?scope=s&limit=2"), 200);
	assert_int_equal(api_count(&f->said, "snapshots"), 1);
	assert_string_equal(text(f, 0, "peer_id"), "a");
	assert_string_equal(api_text(&f->said, "next", NULL), "s:obs:peer:b");
	assert_int_equal(list(f, "?scope=s&limit=100&after=s:obs:peer:b"), 200);
	assert_int_equal(api_count(&f->said, "snapshots"), 1);
	assert_string_equal(text(f, 0, "peer_id"), "c");
	assert_true(json_is_null(json_object_get(f->said.body, "next")));
	assert_int_equal(test_redis_do(r, "ZCARD nanoctrl:snapshots:s"), 3);
	assert_int_equal(list(f, "?limit=0"), 400);
}

/* Those of others have no labels, and names. */
static void list__has_those_of_agents_that_the_selector_matches(void **state)
{
	struct api_fixture *f = *state;

	assert_int_equal(api_register(f, "a", "one", OWNER_KEY_A, lease), 201);
	assert_int_equal(put(f, "a", BODY), 200);
	assert_int_equal(api_register(f, "b", "one", OWNER_KEY_A, lease), 201);
	assert_int_equal(put(f, "b", BODY), 200);
	test_redis_do(&f->redis, "SET demo:obs:peer:theirs %s", "{\"peer_id\":\"theirs\"}");
	test_redis_do(&f->redis, "ZADD nanoctrl:snapshots:demo 0 demo:obs:peer:theirs");
	assert_int_equal(list(f, "?scope=demo"), 200);
	assert_int_equal(api_count(&f->said, "snapshots"), 3);
	assert_int_equal(list(f, "?scope=demo&selector=role=b"), 200);
	assert_int_equal(api_count(&f->said, "snapshots"), 1);
	assert_string_equal(text(f, 0, "peer_id"), "b");
	assert_int_equal(list(f, "?scope=demo&selector=name=theirs"), 200);
	assert_int_equal(api_count(&f->said, "snapshots"), 1);
	assert_string_equal(text(f, 0, "peer_id"), "theirs");
	assert_int_equal(list(f, "?scope=demo&selector=role"), 400);
}

static void list__in_the_default_scope_is_chosen_from_by_its_labels(void **state)
{
	struct api_fixture *f = *state;

	assert_int_equal(api_do(f, &f->said, "PUT", "/v1/agents/a?order=1", NULL,
				"{\"incarnation\":\"one\",\"owner_key\":\"" OWNER_KEY_A
				"\",\"labels\":{\"zone\":\"z\"}}"),
			 201);
	snprintf(lease, sizeof(lease), "%s", api_text(&f->said, "lease", NULL));
	assert_int_equal(api_do(f, &f->said, "PUT", "/v1/agents/a/snapshot", lease, BODY), 200);
	assert_int_equal(list(f, "?selector=zone=z"), 200);
	assert_int_equal(api_count(&f->said, "snapshots"), 1);
	assert_int_equal(list(f, "?scope=default&selector=zone=y"), 200);
	assert_int_equal(api_count(&f->said, "snapshots"), 0);
}

static void list__loses_what_expired_also_when_nobody_reads_it(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	test_redis_do(r, "ZADD nanoctrl:snapshots:s 0 s:obs:peer:gone");
	test_redis_do(r, "SADD nanoctrl:snapshot_scopes s");
	while (test_redis_do(r, "EXISTS nanoctrl:snapshots:s nanoctrl:snapshot_scopes"))
		;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, api_setup, api_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(put__is_read_where_others_have_theirs),
		TEST(put__in_the_default_scope_is_read_by_those_who_name_none),
		TEST(put__that_is_no_snapshot_is_refused),
		TEST(put__that_is_too_long_is_refused),
		TEST(list__says_whether_the_agent_has_a_lease),
		TEST(leave__shows_in_the_last_snapshot),
		TEST(leave__changes_no_snapshot_of_others),
		TEST(list__comes_in_pages_without_what_is_gone_or_junk),
		TEST(list__has_those_of_agents_that_the_selector_matches),
		TEST(list__in_the_default_scope_is_chosen_from_by_its_labels),
		TEST(list__loses_what_expired_also_when_nobody_reads_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
