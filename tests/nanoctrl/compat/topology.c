/* SPDX-License-Identifier: Apache-2.0 */
/* Whom agents of DLSlime's NanoCtrl are to connect to. */
#include "tests/nanoctrl/compat/fixture.h"

#include <stdio.h>

static void topology__is_stored_and_told_to_both_sides(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	assert_int_equal(api_post(f, "/v1/desired_topology/c",
				  "{\"target_peers\":[\"b\"],\"min_bw\":\"1G\"}"),
			 200);
	assert_value(
		f, "GET", "spec:topology:c",
		"{\"target_peers\":[\"b\"],\"min_bw\":\"1G\",\"symmetric\":false,\"scope\":null}");
	assert_int_equal(test_redis_do(r, "XLEN stream:c"), 1);
	assert_int_equal(test_redis_do(r, "XLEN stream:b"), 0);
	/* What c says beside its targets stays when a names it. */
	assert_int_equal(api_post(f, "/v1/desired_topology/a%3A1",
				  "{\"target_peers\":[\"c\",\"b\"],\"symmetric\":true}"),
			 200);
	assert_answer(f, "{\"status\":\"ok\"}");
	assert_int_equal(test_redis_do(r, "XLEN stream:a:1"), 2);
	assert_int_equal(test_redis_do(r, "XLEN stream:c"), 2);
	assert_int_equal(test_redis_do(r, "XLEN stream:b"), 1);
	assert_int_equal(test_redis_do(r, "EVAL %s 1 spec:topology:c",
				       "local s = cjson.decode(redis.call('GET', KEYS[1])) "
				       "return s.min_bw == '1G' and #s.target_peers == 2 and "
				       "s.target_peers[2] == 'a:1' and 1 or 0"),
			 1);
	assert_int_equal(api_post(f, "/v1/desired_topology/a", "{\"target_peers\":\"b\"}"), 422);
	assert_int_equal(api_post(f, "/v1/desired_topology/a", "{\"target_peers\":[5]}"), 422);
	assert_int_equal(api_post(f, "/v1/desired_topology/a", "{\"target_peers\":[\"\"]}"), 422);
	assert_int_equal(
		api_post(f, "/v1/desired_topology/a", "{\"target_peers\":[],\"symmetric\":null}"),
		422);
	assert_int_equal(api_post(f, "/v1/desired_topology/%ff", "{\"target_peers\":[]}"), 400);
	assert_int_equal(api_post(f, "/v1/desired_topology/", "{\"target_peers\":[]}"), 404);
}

static void topology__of_a_name_above_1024_bytes_is_refused(void **state)
{
	struct api_fixture *f = *state;
	char path[2048];

	snprintf(path, sizeof(path), "/v1/desired_topology/%01024d", 0);
	assert_int_equal(api_post(f, path, "{\"target_peers\":[]}"), 200);
	snprintf(path, sizeof(path), "/v1/desired_topology/%01025d", 0);
	assert_int_equal(api_post(f, path, "{\"target_peers\":[]}"), 422);
	assert_string_equal(api_text(&f->said, "field", NULL), "agent_id");
}

/* Read, change and write in two steps lost some of them. */
static void topology__of_many_at_once_keeps_each(void **state)
{
	struct api_fixture *f = *state;
	char path[64];
	int fds[40];

	assert_int_equal(
		api_post(f, "/v1/desired_topology/hub", "{\"target_peers\":[],\"min_bw\":\"9G\"}"),
		200);
	for (int i = 0; i < 40; i++) {
		snprintf(path, sizeof(path), "/v1/desired_topology/w%d", i);
		fds[i] = api_begin(f, "POST", path, NULL,
				   "{\"target_peers\":[\"hub\"],\"symmetric\":true}");
	}
	for (int i = 0; i < 40; i++)
		assert_int_equal(api_finish(fds[i], &f->said), 200);
	assert_int_equal(test_redis_do(&f->redis, "EVAL %s 1 spec:topology:hub",
				       "local s = cjson.decode(redis.call('GET', KEYS[1])) "
				       "return s.min_bw == '9G' and #s.target_peers or 0"),
			 40);
	assert_int_equal(test_redis_do(&f->redis, "XLEN stream:hub"), 40);
}

static void topology__over_a_damaged_list_of_the_other_side_replaces_it(void **state)
{
	struct api_fixture *f = *state;

	test_redis_do(&f->redis, "SET spec:topology:b %s", "{\"target_peers\":[1e999]}");
	assert_int_equal(api_post(f, "/v1/desired_topology/a",
				  "{\"target_peers\":[\"b\"],\"symmetric\":true}"),
			 200);
	assert_int_equal(api_post(f, "/cleanup", "{\"agent_name\":\"b\"}"), 200);
	assert_int_equal(test_redis_do(&f->redis, "LLEN inbox:a"), 1);
}

/* Redis decodes each of these, and serves nobody meanwhile. */
static void topology__of_a_very_long_list_of_others_is_refused_whole(void **state)
{
	static const char fill[] =
		"for n, len in pairs({ a = 400000, b = 400000, c = 400000, d = 600000 }) do "
		"redis.call('SET', 'spec:topology:' .. n, "
		"'{\"target_peers\":[\"' .. string.rep('x', len) .. '\"]}') end return 0";
	struct api_fixture *f = *state;

	test_redis_do(&f->redis, "EVAL %s 0", fill);
	assert_int_equal(api_post(f, "/v1/desired_topology/me",
				  "{\"target_peers\":[\"a\",\"d\"],\"symmetric\":true}"),
			 413);
	assert_int_equal(test_redis_do(&f->redis, "EXISTS spec:topology:me stream:me stream:a"), 0);
	/* Any number of shorter ones. */
	assert_int_equal(api_post(f, "/v1/desired_topology/me",
				  "{\"target_peers\":[\"a\",\"b\",\"c\"],\"symmetric\":true}"),
			 200);
	assert_int_equal(test_redis_do(&f->redis, "EXISTS stream:a stream:b stream:c"), 3);
	assert_int_equal(api_post(f, "/v1/desired_topology/me", "{\"target_peers\":[\"a\",\"d\"]}"),
			 200);
}

/* Of a mesh where each names all others, symmetric, the last one finds itself in no list yet. */
static void topology__of_a_mesh_of_a_thousand_is_in_each_list(void **state)
{
	static const char fill[] =
		"local names = {} for i = 1, 1000 do names[i] = '\"agent-' .. 10000 + i .. '\"' end "
		"local list = '{\"target_peers\":[' .. table.concat(names, ',', 1, 999) .. "
		"'],\"min_bw\":\"9G\",\"symmetric\":true,\"scope\":null}' "
		"for i = 1, 999 do redis.call('SET', 'spec:topology:agent-' .. 10000 + i, list) end "
		"return 0";
	static const char count[] =
		"local n = 0 for i = 10001, 10999 do "
		"local s = cjson.decode(redis.call('GET', 'spec:topology:agent-' .. i)) "
		"n = n + (#s.target_peers == 1000 and s.target_peers[1000] == 'agent-11000' "
		"and s.min_bw == '9G' and s.symmetric and 1 or 0) end return n";
	static char body[32768];
	struct api_fixture *f = *state;
	size_t len = 0;

	test_redis_do(&f->redis, "EVAL %s 0", fill);
	for (int i = 10001; i < 11000; i++)
		len += (size_t)snprintf(body + len, sizeof(body) - len, "%s\"agent-%d\"",
					len ? "," : "{\"symmetric\":true,\"target_peers\":[", i);
	snprintf(body + len, sizeof(body) - len, "]}");
	assert_int_equal(api_post(f, "/v1/desired_topology/agent-11000", body), 200);
	assert_int_equal(test_redis_do(&f->redis, "EVAL %s 0", count), 999);
	/* Once is enough. */
	assert_int_equal(api_post(f, "/v1/desired_topology/agent-11000", body), 200);
	assert_int_equal(test_redis_do(&f->redis, "EVAL %s 0", count), 999);
}

static void assert_targets(struct api_fixture *f, const char *before, const char *name,
			   const char *after)
{
	char path[64];

	test_redis_do(&f->redis, "SET spec:topology:b %s", before);
	snprintf(path, sizeof(path), "/v1/desired_topology/%s", name);
	assert_int_equal(api_post(f, path, "{\"target_peers\":[\"b\"],\"symmetric\":true}"), 200);
	assert_value(f, "GET", "spec:topology:b", after);
}

/* The text is changed where it is seen to be as ours. */
static void topology__is_added_to_a_list_whatever_stands_beside_it(void **state)
{
	struct api_fixture *f = *state;

#define LIST(names, bw) \
	"{\"target_peers\":[" names "],\"min_bw\":" bw ",\"symmetric\":false,\"scope\":\"a\"}"
	assert_targets(f, LIST("", "null"), "a", LIST("\"a\"", "null"));
	assert_targets(f, LIST("\"a\"", "null"), "a", LIST("\"a\"", "null"));
	assert_targets(f, LIST("\"c\",\"a\"", "null"), "a", LIST("\"c\",\"a\"", "null"));
	assert_targets(f, LIST("\"aa\"", "null"), "a", LIST("\"aa\",\"a\"", "null"));
	assert_targets(f, LIST("\"c,\",\"],\"", "\"a\""), "a",
		       LIST("\"c,\",\"],\",\"a\"", "\"a\""));
	assert_targets(f, LIST("\"c\"", "null"), "symmetric", LIST("\"c\",\"symmetric\"", "null"));
	assert_targets(f, LIST("\"c\"", "null"), "scope", LIST("\"c\",\"scope\"", "null"));
#undef LIST
	/* Not as ours: decoded. */
	test_redis_do(&f->redis, "SET spec:topology:b %s", "{ \"target_peers\": [\"c\"] }");
	assert_int_equal(api_post(f, "/v1/desired_topology/a",
				  "{\"target_peers\":[\"b\"],\"symmetric\":true}"),
			 200);
	assert_value(f, "GET", "spec:topology:b", "{\"target_peers\":[\"c\",\"a\"]}");
}

/* Whoever writes to a stream chooses its ids: behind the last one there is none. */
static void topology__over_a_stream_at_its_last_id_leaves_it_and_is_counted(void **state)
{
	struct api_fixture *f = *state;
	long long skipped = api_metric(f, "nanoctrl_store_skipped_total");

	test_redis_do(&f->redis,
		      "XADD stream:a 18446744073709551615-18446744073709551615 type x peer y");
	assert_int_equal(api_post(f, "/v1/desired_topology/a", "{\"target_peers\":[\"b\"]}"), 200);
	assert_int_equal(test_redis_do(&f->redis, "XLEN stream:a"), 1);
	assert_true(api_metric(f, "nanoctrl_store_skipped_total") > skipped);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, api_setup_advertised, api_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(topology__is_stored_and_told_to_both_sides),
		TEST(topology__of_a_name_above_1024_bytes_is_refused),
		TEST(topology__of_many_at_once_keeps_each),
		TEST(topology__over_a_damaged_list_of_the_other_side_replaces_it),
		TEST(topology__of_a_very_long_list_of_others_is_refused_whole),
		TEST(topology__of_a_mesh_of_a_thousand_is_in_each_list),
		TEST(topology__is_added_to_a_list_whatever_stands_beside_it),
		TEST(topology__over_a_stream_at_its_last_id_leaves_it_and_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
