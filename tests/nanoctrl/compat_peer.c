/* SPDX-License-Identifier: Apache-2.0 */
/* Agents of DLSlime's NanoCtrl, through a socket, over a real Redis. */
#include "api_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "store_redis.h"

static struct api_answer a;

static int post(struct api_fixture *f, const char *path, const char *body)
{
	return api_do(f, &a, "POST", path, NULL, body);
}

static void assert_answer(const char *json)
{
	char *text = json_dumps(a.body, JSON_COMPACT | JSON_SORT_KEYS);

	assert_non_null(text);
	assert_string_equal(text, json);
	free(text);
}

/* Whether a string key, or an element of a list from its left, is this. */
static void assert_value(struct api_fixture *f, const char *command, const char *key,
			 const char *value)
{
	assert_int_equal(test_redis_do(&f->redis, "EVAL %s 1 %s %s %s",
				       "local v = ARGV[1] == 'GET' and redis.call('GET', KEYS[1]) "
				       "or ARGV[1] == 'LIST' and redis.call('LINDEX', KEYS[1], 0) "
				       "or redis.call('HGET', KEYS[1], ARGV[1]) "
				       "return v == ARGV[2] and 1 or 0",
				       key, command, value),
			 1);
}

static int peer_teardown(void **state)
{
	api_answer_fini(&a);
	return api_teardown(state);
}

static void start__with_an_alias_registers_and_says_where_redis_is(void **state)
{
	struct api_fixture *f = *state;

	assert_int_equal(
		post(f, "/start_peer_agent",
		     "{\"alias\":\"a\",\"address\":\"10.0.0.1\",\"device\":\"mlx5_0\",\"ib_port\":2,"
		     "\"link_type\":\"RoCE\",\"resource\":{ \"nics\":[1] },\"scope\":\"s\"}"),
		200);
	assert_answer("{\"name\":\"a\",\"redis_address\":\"" API_ADVERTISED "\","
		      "\"resource\":{\"nics\":[1]},\"status\":\"ok\"}");
	assert_value(f, "addr", "s:agent:a", "10.0.0.1");
	assert_value(f, "resource", "s:agent:a", "{\"nics\":[1]}");
	assert_value(f, "topology", "s:agent:a", "{\"nics\":[1]}");
	assert_value(f, "device", "s:agent:a", "mlx5_0");
	assert_value(f, "ib_port", "s:agent:a", "2");
	assert_true(test_redis_do(&f->redis, "PTTL s:agent:a") > 50000);
	assert_int_equal(
		post(f, "/start_peer_agent", "{\"alias\":\"a\",\"address\":\"x\",\"scope\":\"s\"}"),
		409);
	assert_string_equal(api_text(&a, "message", NULL),
			    "Peer agent alias 'a' already exists in this scope");
	assert_string_equal(api_text(&a, "status", NULL), "error");
	assert_int_equal(post(f, "/query", "{\"scope\":\"s\"}"), 200);
	assert_answer("[{\"address\":\"10.0.0.1\",\"device\":\"mlx5_0\",\"ib_port\":2,"
		      "\"link_type\":\"RoCE\",\"memory_keys\":[],\"name\":\"a\","
		      "\"resource\":{\"nics\":[1]}}]");
	assert_int_equal(post(f, "/query", "{}"), 200);
	assert_answer("[]");
	assert_int_equal(post(f, "/start_peer_agent", "{\"alias\":\"\",\"address\":\"x\"}"), 422);
	assert_int_equal(post(f, "/start_peer_agent", "{\"alias\":\"b\"}"), 422);
	assert_string_equal(api_text(&a, "field", NULL), "address");
	assert_int_equal(post(f, "/get_redis_address", "{}"), 200);
	assert_answer("{\"redis_address\":\"redis://" API_ADVERTISED "\",\"status\":\"ok\"}");
}

/* A name that is made up is never one that is there. */
static void start__without_an_alias_takes_the_next_free_name(void **state)
{
	struct api_fixture *f = *state;

	assert_int_equal(post(f, "/start_peer_agent", "{\"alias\":\"agent-2\",\"address\":\"x\"}"),
			 200);
	assert_int_equal(post(f, "/start_peer_agent", "{\"address\":\"x\"}"), 200);
	assert_answer("{\"name\":\"agent-1\",\"redis_address\":\"" API_ADVERTISED
		      "\",\"status\":\"ok\"}");
	assert_int_equal(post(f, "/start_peer_agent", "{\"alias\":null,\"address\":\"x\"}"), 200);
	assert_string_equal(api_text(&a, "name", NULL), "agent-3");
	assert_int_equal(post(f, "/start_peer_agent",
			      "{\"address\":\"x\",\"name_prefix\":\"w\",\"resource\":null}"),
			 200);
	assert_string_equal(api_text(&a, "name", NULL), "w-4");
}

static void start__where_clients_cannot_reach_redis_registers_nothing(void **state)
{
	struct api_fixture *f = *state;

	assert_int_equal(post(f, "/start_peer_agent", "{\"alias\":\"a\",\"address\":\"x\"}"), 409);
	assert_string_equal(api_text(&a, "code", NULL), "redis_unreachable");
	assert_int_equal(post(f, "/get_redis_address", "{}"), 409);
	assert_int_equal(test_redis_do(&f->redis, "EXISTS agent:a"), 0);
}

static void mr__is_told_as_it_was_registered(void **state)
{
	struct api_fixture *f = *state;
	const char *get = "{\"src\":\"x\",\"dst\":\"a:b\",\"mr_name\":\"kv\"}";

	assert_int_equal(post(f, "/get_mr_info", get), 200);
	assert_answer("{\"mr_info\":null}");
	assert_int_equal(
		post(f, "/register_mr",
		     "{\"agent_name\":\"a:b\",\"mr_name\":\"kv\",\"addr\":9223372036854775807,"
		     "\"length\":4096,\"rkey\":4294967295}"),
		200);
	assert_answer("{\"status\":\"ok\"}");
	assert_value(
		f, "GET", "mr:a:b:kv",
		"{\"addr\":9223372036854775807,\"length\":4096,\"lkey\":0,\"rkey\":4294967295}");
	assert_int_equal(post(f, "/get_mr_info", get), 200);
	assert_answer("{\"mr_info\":{\"addr\":9223372036854775807,\"length\":4096,\"lkey\":0,"
		      "\"rkey\":4294967295}}");
	/* What others stored and does not fit is none, not another key. */
	test_redis_do(&f->redis, "SET mr:a:b:kv %s",
		      "{\"addr\":1,\"length\":1,\"lkey\":0,\"rkey\":4294967298}");
	assert_int_equal(post(f, "/get_mr_info", get), 200);
	assert_answer("{\"mr_info\":null}");
	test_redis_do(&f->redis, "SET mr:a:b:kv %s", "{\"addr\":1,\"length\":1,\"rkey\":1}");
	assert_int_equal(post(f, "/get_mr_info", get), 200);
	assert_answer("{\"mr_info\":null}");
	assert_int_equal(post(f, "/register_mr",
			      "{\"agent_name\":\"a\",\"mr_name\":\"k\",\"addr\":-1,\"length\":1,"
			      "\"rkey\":1}"),
			 422);
	assert_int_equal(post(f, "/register_mr",
			      "{\"agent_name\":\"a\",\"mr_name\":\"k\",\"addr\":1.0,\"length\":1,"
			      "\"rkey\":1}"),
			 422);
	assert_int_equal(post(f, "/register_mr",
			      "{\"agent_name\":\"a\",\"mr_name\":\"k\",\"addr\":1,\"length\":1,"
			      "\"rkey\":4294967296}"),
			 422);
	assert_string_equal(api_text(&a, "field", NULL), "rkey");
}

/* One answer that long would end the connection, and with it what others have under way. */
static void value__of_others_that_is_too_long_is_none_and_counted(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;
	uint64_t before = atomic_load(&f->hub->n_reconnects);
	long long skipped = api_metric(f, "nanoctrl_store_skipped_total");

	test_redis_do(r, "SETRANGE mr:a:kv 70000000 x");
	assert_int_equal(
		post(f, "/get_mr_info", "{\"src\":\"x\",\"dst\":\"a\",\"mr_name\":\"kv\"}"), 200);
	assert_answer("{\"mr_info\":null}");
	assert_true(api_metric(f, "nanoctrl_store_skipped_total") >= skipped + 1);
	test_redis_do(r, "SETRANGE spec:topology:b 70000000 x");
	assert_int_equal(
		post(f, "/v1/desired_topology/a", "{\"target_peers\":[\"b\"],\"symmetric\":true}"),
		200);
	assert_true(test_redis_do(r, "STRLEN spec:topology:b") < 1000);
	assert_true(api_metric(f, "nanoctrl_store_skipped_total") >= skipped + 2);
	assert_int_equal(atomic_load(&f->hub->n_reconnects), before);
}

static void topology__is_stored_and_told_to_both_sides(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	assert_int_equal(
		post(f, "/v1/desired_topology/c", "{\"target_peers\":[\"b\"],\"min_bw\":\"1G\"}"),
		200);
	assert_value(
		f, "GET", "spec:topology:c",
		"{\"target_peers\":[\"b\"],\"min_bw\":\"1G\",\"symmetric\":false,\"scope\":null}");
	assert_int_equal(test_redis_do(r, "XLEN stream:c"), 1);
	assert_int_equal(test_redis_do(r, "XLEN stream:b"), 0);
	/* What c says beside its targets stays when a names it. */
	assert_int_equal(post(f, "/v1/desired_topology/a%3A1",
			      "{\"target_peers\":[\"c\",\"b\"],\"symmetric\":true}"),
			 200);
	assert_answer("{\"status\":\"ok\"}");
	assert_int_equal(test_redis_do(r, "XLEN stream:a:1"), 2);
	assert_int_equal(test_redis_do(r, "XLEN stream:c"), 2);
	assert_int_equal(test_redis_do(r, "XLEN stream:b"), 1);
	assert_int_equal(test_redis_do(r, "EVAL %s 1 spec:topology:c",
				       "local s = cjson.decode(redis.call('GET', KEYS[1])) "
				       "return s.min_bw == '1G' and #s.target_peers == 2 and "
				       "s.target_peers[2] == 'a:1' and 1 or 0"),
			 1);
	assert_int_equal(post(f, "/v1/desired_topology/a", "{\"target_peers\":\"b\"}"), 422);
	assert_int_equal(post(f, "/v1/desired_topology/a", "{\"target_peers\":[5]}"), 422);
	assert_int_equal(
		post(f, "/v1/desired_topology/a", "{\"target_peers\":[],\"symmetric\":null}"), 422);
	assert_int_equal(post(f, "/v1/desired_topology/%ff", "{\"target_peers\":[]}"), 400);
	assert_int_equal(post(f, "/v1/desired_topology/", "{\"target_peers\":[]}"), 404);
}

static void topology__of_a_name_above_1024_bytes_is_refused(void **state)
{
	struct api_fixture *f = *state;
	char path[2048];

	snprintf(path, sizeof(path), "/v1/desired_topology/%01024d", 0);
	assert_int_equal(post(f, path, "{\"target_peers\":[]}"), 200);
	snprintf(path, sizeof(path), "/v1/desired_topology/%01025d", 0);
	assert_int_equal(post(f, path, "{\"target_peers\":[]}"), 422);
	assert_string_equal(api_text(&a, "field", NULL), "agent_id");
}

static void set_up_pair(struct api_fixture *f)
{
	assert_int_equal(post(f, "/start_peer_agent", "{\"alias\":\"a\",\"address\":\"x\"}"), 200);
	assert_int_equal(post(f, "/start_peer_agent", "{\"alias\":\"a:b\",\"address\":\"x\"}"),
			 200);
	assert_int_equal(post(f, "/register_mr",
			      "{\"agent_name\":\"a\",\"mr_name\":\"kv\",\"addr\":1,\"length\":1,"
			      "\"rkey\":1}"),
			 200);
	assert_int_equal(post(f, "/register_mr",
			      "{\"agent_name\":\"a:b\",\"mr_name\":\"kv\",\"addr\":1,\"length\":1,"
			      "\"rkey\":1}"),
			 200);
	assert_int_equal(post(f, "/v1/desired_topology/a", "{\"target_peers\":[\"p\"]}"), 200);
	assert_int_equal(post(f, "/v1/desired_topology/q", "{\"target_peers\":[\"a\"]}"), 200);
}

static void assert_a_is_gone(struct api_fixture *f)
{
	struct test_redis *r = &f->redis;

	assert_int_equal(
		test_redis_do(r, "EXISTS agent:a mr:a:kv spec:topology:a stream:a inbox:a"), 0);
	assert_int_equal(test_redis_do(r, "EXISTS agent:a:b mr:a:b:kv spec:topology:q"), 3);
	assert_value(f, "LIST", "inbox:p", "{\"peer\":\"a\",\"type\":\"cleanup\"}");
	/* Who named it hears of it, too, and agents without a scope listen at another key. */
	assert_value(f, "LIST", "inbox:q", "{\"peer\":\"a\",\"type\":\"cleanup\"}");
	assert_value(f, "LIST", ":inbox:q", "{\"peer\":\"a\",\"type\":\"cleanup\"}");
	assert_int_equal(test_redis_do(r, "EXISTS nanoctrl:owned:0:a nanoctrl:targets:0:a"), 0);
	assert_int_equal(test_redis_do(r, "EXISTS nanoctrl:named:0:p"), 0);
}

static void cleanup__takes_what_is_the_agents_and_nothing_else(void **state)
{
	struct api_fixture *f = *state;

	set_up_pair(f);
	/* Not a pattern: the original deletes every region then. */
	assert_int_equal(post(f, "/cleanup", "{\"agent_name\":\"*\"}"), 200);
	assert_answer("{\"message\":\"Cleaned up agent: *\",\"status\":\"ok\"}");
	assert_int_equal(test_redis_do(&f->redis, "EXISTS agent:a mr:a:kv mr:a:b:kv"), 3);
	assert_int_equal(post(f, "/cleanup", "{\"agent_name\":\"a\"}"), 200);
	assert_a_is_gone(f);
	assert_int_equal(post(f, "/query", "{}"), 200);
	assert_int_equal(json_array_size(a.body), 1);
}

/* An agent that says nothing for its time: the original leaves its keys, and tells nobody. */
static void agent__whose_time_has_run_out_is_cleaned_up(void **state)
{
	struct api_fixture *f = *state;

	set_up_pair(f);
	/* One that another server renewed stays. */
	test_redis_do(&f->redis, "DEL agent:a");
	test_redis_do(&f->redis, "ZADD nanoctrl:peers: 1 a:b 1 a");
	while (test_redis_do(&f->redis, "EXISTS mr:a:kv"))
		;
	assert_a_is_gone(f);
	assert_int_equal(test_redis_do(&f->redis, "ZCOUNT nanoctrl:peers: 2 +inf"), 2);
}

/* More than three portions of what goes with one script. */
#define N_OWNED 1501

static void give_much(struct api_fixture *f)
{
	assert_int_equal(post(f, "/start_peer_agent", "{\"alias\":\"a\",\"address\":\"x\"}"), 200);
	assert_int_equal(post(f, "/v1/desired_topology/a", "{\"target_peers\":[\"b\"]}"), 200);
	test_redis_do(&f->redis, "EVAL %s 0 %d",
		      "for i = 1, ARGV[1] do redis.call('SET', 'mr:a:' .. i, '{}') "
		      "redis.call('SADD', 'nanoctrl:owned:0:a', 'mr:a:' .. i) end return 0",
		      N_OWNED);
	test_redis_do(&f->redis, "CONFIG RESETSTAT");
}

static void assert_much_is_gone(struct api_fixture *f)
{
	assert_int_equal(test_redis_do(&f->redis, "KEYS *mr:a:*"), 0);
	assert_int_equal(test_redis_do(&f->redis, "EXISTS agent:a stream:a spec:topology:a "
						  "nanoctrl:owned:0:a nanoctrl:targets:0:a"),
			 0);
	assert_int_equal(test_redis_calls(&f->redis, "spop"), (N_OWNED + 499) / 500);
	assert_value(f, "LIST", "inbox:b", "{\"peer\":\"a\",\"type\":\"cleanup\"}");
}

/* All of it is gone when the answer comes, and who is told is told once. */
static void cleanup__of_one_who_owns_much_goes_in_portions(void **state)
{
	struct api_fixture *f = *state;

	give_much(f);
	assert_int_equal(post(f, "/cleanup", "{\"agent_name\":\"a\"}"), 200);
	assert_much_is_gone(f);
	assert_int_equal(test_redis_do(&f->redis, "ZCARD nanoctrl:peers:"), 0);
}

static void agent__that_owned_much_goes_in_portions_when_its_time_is_over(void **state)
{
	struct api_fixture *f = *state;

	give_much(f);
	test_redis_do(&f->redis, "DEL agent:a");
	test_redis_do(&f->redis, "ZADD nanoctrl:peers: 1 a");
	while (test_redis_do(&f->redis, "ZCARD nanoctrl:peers:"))
		;
	assert_much_is_gone(f);
}

/* Whoever takes its name meanwhile has nothing of it. */
static void start__of_a_name_of_which_much_is_left_begins_with_nothing(void **state)
{
	struct api_fixture *f = *state;

	give_much(f);
	test_redis_do(&f->redis, "DEL agent:a");
	test_redis_do(&f->redis, "ZADD nanoctrl:peers: 99999999999 a");
	assert_int_equal(post(f, "/start_peer_agent", "{\"alias\":\"a\",\"address\":\"y\"}"), 200);
	assert_int_equal(test_redis_do(&f->redis, "KEYS *mr:a:*"), 0);
	assert_int_equal(test_redis_do(&f->redis, "EXISTS agent:a"), 1);
}

/* The list has the last target only, and a leaving agent deletes it before it says that it leaves.
 */
static void cleanup__tells_everyone_whom_the_agent_ever_named(void **state)
{
	struct api_fixture *f = *state;

	assert_int_equal(post(f, "/start_peer_agent", "{\"alias\":\"a\",\"address\":\"x\"}"), 200);
	assert_int_equal(post(f, "/v1/desired_topology/a", "{\"target_peers\":[\"b\"]}"), 200);
	assert_int_equal(post(f, "/v1/desired_topology/a", "{\"target_peers\":[\"c\"]}"), 200);
	assert_value(
		f, "GET", "spec:topology:a",
		"{\"target_peers\":[\"c\"],\"min_bw\":null,\"symmetric\":false,\"scope\":null}");
	test_redis_do(&f->redis, "DEL spec:topology:a");
	assert_int_equal(post(f, "/cleanup", "{\"agent_name\":\"a\"}"), 200);
	assert_value(f, "LIST", "inbox:b", "{\"peer\":\"a\",\"type\":\"cleanup\"}");
	assert_value(f, "LIST", "inbox:c", "{\"peer\":\"a\",\"type\":\"cleanup\"}");
}

/* Others made it something else: it is replaced, and the end goes on. */
static void cleanup__over_a_damaged_set_of_namers_is_whole(void **state)
{
	struct api_fixture *f = *state;

	set_up_pair(f);
	test_redis_do(&f->redis, "DEL nanoctrl:named:0:p");
	test_redis_do(&f->redis, "SET nanoctrl:named:0:p x");
	assert_int_equal(post(f, "/cleanup", "{\"agent_name\":\"a\"}"), 200);
	assert_a_is_gone(f);
}

static void start__of_a_target_asks_those_who_wait_for_it_to_connect(void **state)
{
	struct api_fixture *f = *state;
	const char *start_b = "{\"alias\":\"b\",\"address\":\"x\"}";

	assert_int_equal(post(f, "/start_peer_agent", "{\"alias\":\"a\",\"address\":\"x\"}"), 200);
	assert_int_equal(post(f, "/v1/desired_topology/a", "{\"target_peers\":[\"b\"]}"), 200);
	assert_int_equal(post(f, "/v1/desired_topology/z", "{\"target_peers\":[\"b\"]}"), 200);
	assert_int_equal(test_redis_do(&f->redis, "XLEN stream:a"), 1);
	assert_int_equal(post(f, "/start_peer_agent", start_b), 200);
	assert_int_equal(test_redis_do(&f->redis, "XLEN stream:a"), 2);
	/* ... and again when it went and came back; not who is not there. */
	assert_int_equal(post(f, "/cleanup", "{\"agent_name\":\"b\"}"), 200);
	assert_int_equal(post(f, "/start_peer_agent", start_b), 200);
	assert_int_equal(test_redis_do(&f->redis, "XLEN stream:a"), 3);
	assert_int_equal(test_redis_do(&f->redis, "XLEN stream:z"), 1);
	assert_int_equal(post(f, "/cleanup", "{\"agent_name\":\"a\"}"), 200);
	assert_int_equal(test_redis_do(&f->redis, "SISMEMBER nanoctrl:named:0:b a"), 0);
}

/* Its stream would send the new one to queue pairs that are gone. */
static void start__after_an_end_that_nobody_noticed_leaves_nothing_of_the_former(void **state)
{
	struct api_fixture *f = *state;

	set_up_pair(f);
	test_redis_do(&f->redis, "XADD stream:a * type qp_ready peer p");
	test_redis_do(&f->redis, "DEL agent:a");
	assert_int_equal(post(f, "/start_peer_agent", "{\"alias\":\"a\",\"address\":\"x\"}"), 200);
	assert_int_equal(test_redis_do(&f->redis, "EXISTS mr:a:kv spec:topology:a stream:a"), 0);
	assert_value(f, "LIST", "inbox:p", "{\"peer\":\"a\",\"type\":\"cleanup\"}");
	/* What was sent ahead to a name that is only expected stays. */
	assert_int_equal(
		post(f, "/v1/desired_topology/a", "{\"target_peers\":[\"n\"],\"symmetric\":true}"),
		200);
	assert_int_equal(post(f, "/start_peer_agent", "{\"alias\":\"n\",\"address\":\"x\"}"), 200);
	assert_true(test_redis_do(&f->redis, "XLEN stream:n") >= 1);
	assert_int_equal(test_redis_do(&f->redis, "EXISTS spec:topology:n"), 1);
}

/* Who is told of the end and asked at once may do the one after the other, and drop what it just
 * made. */
static void start__after_an_end_that_nobody_noticed_asks_when_that_is_known(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;
	const char *start_b = "{\"alias\":\"b:1\",\"address\":\"x\",\"scope\":\"s\"}";
	const char *late = "local ids = redis.call('XRANGE', 's:stream:a', '-', '+') "
			   "local asked = string.match(ids[#ids][1], '%d+') "
			   "return asked - ARGV[1] >= 1000 and 1 or 0";
	long long before;

	assert_int_equal(
		post(f, "/start_peer_agent", "{\"alias\":\"a\",\"address\":\"x\",\"scope\":\"s\"}"),
		200);
	assert_int_equal(post(f, "/start_peer_agent", start_b), 200);
	assert_int_equal(
		post(f, "/v1/desired_topology/a", "{\"target_peers\":[\"b:1\"],\"scope\":\"s\"}"),
		200);
	test_redis_do(r, "DEL s:agent:b:1");
	before = test_redis_do(r, "EVAL %s 0",
			       "local t = redis.call('TIME') "
			       "return t[1] * 1000 + math.floor(t[2] / 1000)");
	assert_int_equal(post(f, "/start_peer_agent", start_b), 200);
	assert_int_equal(test_redis_do(r, "LLEN s:inbox:a"), 1);
	while (test_redis_do(r, "XLEN s:stream:a") < 2)
		;
	assert_int_equal(test_redis_do(r, "EVAL %s 0 %lld", late, before), 1);
	while (test_redis_do(r, "EXISTS nanoctrl:returned"))
		;
	assert_int_equal(test_redis_do(r, "XLEN s:stream:a"), 2);
}

/* ---- after an outage ---- */

#define HOLD_MS	     1500
#define LONG_HOLD_MS 600000

static int held_setup(void **state)
{
	return api_setup_held(state, HOLD_MS);
}

static int long_held_setup(void **state)
{
	return api_setup_held(state, LONG_HOLD_MS);
}

/* As one whose 60 s ran out while nobody took its beats. */
static void run_out(struct api_fixture *f, const char *name)
{
	test_redis_do(&f->redis, "DEL agent:%s", name);
	test_redis_do(&f->redis, "ZADD nanoctrl:peers: XX 1 %s", name);
}

/* All that is over has been looked at. */
static void until_swept(struct api_fixture *f)
{
	test_redis_do(&f->redis, "ZADD nanoctrl:returned 1 x");
	while (test_redis_do(&f->redis, "EXISTS nanoctrl:returned"))
		;
}

/* A process that looked for its devices in this second. */
static void start_process(struct api_fixture *f, const char *name, int epoch)
{
	char body[256];

	snprintf(body, sizeof(body),
		 "{\"alias\":\"%s\",\"address\":\"x\","
		 "\"resource\":{\"nics\":[],\"topology_epoch\": %d}}",
		 name, epoch);
	assert_int_equal(post(f, "/start_peer_agent", body), 200);
}

static void start_processes(struct api_fixture *f)
{
	start_process(f, "a", 1700000000);
	start_process(f, "b", 1700000000);
	assert_int_equal(post(f, "/register_mr",
			      "{\"agent_name\":\"a\",\"mr_name\":\"kv\",\"addr\":1,\"length\":1,"
			      "\"rkey\":1}"),
			 200);
	assert_int_equal(post(f, "/v1/desired_topology/a", "{\"target_peers\":[\"b\"]}"), 200);
	assert_int_equal(post(f, "/v1/desired_topology/b", "{\"target_peers\":[\"a\"]}"), 200);
	assert_int_equal(test_redis_do(&f->redis, "XLEN stream:b"), 1);
}

static void agent__whose_time_ran_out_in_an_outage_does_not_end_at_once(void **state)
{
	struct api_fixture *f = *state;

	start_processes(f);
	run_out(f, "a");
	until_swept(f);
	assert_int_equal(test_redis_do(&f->redis, "EXISTS mr:a:kv spec:topology:a stream:a"), 3);
	assert_int_equal(test_redis_do(&f->redis, "LLEN inbox:b"), 0);
}

static void agent__that_does_not_come_back_after_an_outage_ends(void **state)
{
	struct api_fixture *f = *state;
	uint64_t held_ns;

	start_processes(f);
	run_out(f, "a");
	while (test_redis_do(&f->redis, "EXISTS mr:a:kv"))
		;
	held_ns = atomic_load(&f->hub->held_ns);
	assert_true(sl_clock_ns() - held_ns >= HOLD_MS * SL_NS_PER_MS);
	assert_value(f, "LIST", "inbox:b", "{\"peer\":\"a\",\"type\":\"cleanup\"}");
	assert_int_equal(test_redis_do(&f->redis, "HEXISTS nanoctrl:lives: a"), 0);
}

/* It does not know that it was gone, and keeps its end of each link. */
static void start__of_the_same_process_after_an_outage_is_no_end(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	start_processes(f);
	run_out(f, "a");
	start_process(f, "a", 1700000000);
	assert_int_equal(test_redis_do(r, "EXISTS agent:a mr:a:kv spec:topology:a stream:a"), 4);
	assert_true(test_redis_do(r, "PTTL agent:a") > 50000);
	assert_int_equal(test_redis_do(r, "EXISTS inbox:b :inbox:b nanoctrl:returned"), 0);
	assert_int_equal(test_redis_do(r, "XLEN stream:b"), 1);
	/* And it may end as before. */
	assert_int_equal(post(f, "/cleanup", "{\"agent_name\":\"a\"}"), 200);
	assert_int_equal(test_redis_do(r, "EXISTS mr:a:kv"), 0);
	assert_int_equal(test_redis_do(r, "HEXISTS nanoctrl:lives: a"), 0);
}

/* Whoever is to be asked to connect may have been away, too, and comes back later. */
static void start__of_another_process_after_an_outage_is_an_end(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	start_processes(f);
	run_out(f, "a");
	run_out(f, "b");
	start_process(f, "a", 1700000100);
	assert_int_equal(test_redis_do(r, "EXISTS mr:a:kv spec:topology:a stream:a"), 0);
	assert_value(f, "LIST", "inbox:b", "{\"peer\":\"a\",\"type\":\"cleanup\"}");
	while (test_redis_do(r, "XLEN stream:b") < 2)
		;
	start_process(f, "b", 1700000000);
	assert_int_equal(test_redis_do(r, "XLEN stream:b"), 2);
	assert_int_equal(test_redis_do(r, "LLEN inbox:a"), 0);
}

/* Of what is left then, the rest goes. */
static void start__of_a_process_whose_end_has_begun_is_an_end(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	start_processes(f);
	run_out(f, "a");
	test_redis_do(r, "HDEL nanoctrl:lives: a");
	start_process(f, "a", 1700000000);
	assert_int_equal(test_redis_do(r, "EXISTS mr:a:kv"), 0);
	assert_int_equal(test_redis_do(r, "LLEN inbox:b"), 1);
}

static void keys__of_a_name_that_never_comes_have_an_end(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	assert_int_equal(
		post(f, "/v1/desired_topology/q", "{\"target_peers\":[\"r\"],\"symmetric\":true}"),
		200);
	assert_int_equal(post(f, "/register_mr",
			      "{\"agent_name\":\"m\",\"mr_name\":\"kv\",\"addr\":1,\"length\":1,"
			      "\"rkey\":1}"),
			 200);
	assert_int_equal(test_redis_do(r, "ZCARD nanoctrl:peers:"), 3);
	test_redis_do(r, "ZADD nanoctrl:peers: 1 q 1 r 1 m");
	while (test_redis_do(r, "EXISTS spec:topology:q spec:topology:r stream:q stream:r mr:m:kv"))
		;
	while (test_redis_do(r, "EXISTS nanoctrl:named:0:q nanoctrl:named:0:r"))
		;
	/* Whom the end of one is told does not find it there for ever. */
	assert_true(test_redis_do(r, "PTTL inbox:q") != -1);
	assert_true(test_redis_do(r, "PTTL :inbox:r") != -1);
	while (test_redis_do(r, "EXISTS nanoctrl:peers: nanoctrl:peer_scopes"))
		;
}

/* An agent that wrote into its record after that had expired made one without an end. */
static void start__of_a_name_held_without_an_end_gives_it_one(void **state)
{
	struct api_fixture *f = *state;

	test_redis_do(&f->redis, "HSET agent:a addr x memory_keys []");
	assert_int_equal(post(f, "/start_peer_agent", "{\"alias\":\"a\",\"address\":\"x\"}"), 409);
	assert_true(test_redis_do(&f->redis, "PTTL agent:a") > 0);
	test_redis_do(&f->redis, "ZADD nanoctrl:peers: 1 a");
	test_redis_do(&f->redis, "DEL agent:a");
	assert_int_equal(post(f, "/start_peer_agent", "{\"alias\":\"a\",\"address\":\"x\"}"), 200);
}

static void query__skips_what_others_damaged(void **state)
{
	struct api_fixture *f = *state;

	assert_int_equal(post(f, "/start_peer_agent", "{\"alias\":\"a\",\"address\":\"x\"}"), 200);
	assert_int_equal(post(f, "/start_peer_agent", "{\"alias\":\"b\",\"address\":\"x\"}"), 200);
	assert_int_equal(post(f, "/start_peer_agent", "{\"alias\":\"c\",\"address\":\"x\"}"), 200);
	test_redis_do(&f->redis, "DEL agent:a");
	test_redis_do(&f->redis, "SET agent:a x");
	test_redis_do(&f->redis,
		      "HSET agent:b resource {broken ib_port many memory_keys {} device %b", "\xff",
		      (size_t)1);
	test_redis_do(&f->redis, "HSET agent:c memory_keys %s topology %s", "[\"kv\"]",
		      "{\"t\":1}");
	assert_int_equal(post(f, "/query", "{}"), 200);
	assert_answer("[{\"address\":\"x\",\"device\":\"\",\"ib_port\":1,\"link_type\":\"\","
		      "\"memory_keys\":[],\"name\":\"b\",\"resource\":null},"
		      "{\"address\":\"x\",\"device\":\"\",\"ib_port\":1,\"link_type\":\"\","
		      "\"memory_keys\":[\"kv\"],\"name\":\"c\",\"resource\":{\"t\":1}}]");
}

/* One such agent is no reason to tell of none. */
static void query__leaves_out_who_is_too_long(void **state)
{
	struct api_fixture *f = *state;

	assert_int_equal(post(f, "/start_peer_agent", "{\"alias\":\"a\",\"address\":\"x\"}"), 200);
	assert_int_equal(post(f, "/start_peer_agent", "{\"alias\":\"b\",\"address\":\"x\"}"), 200);
	test_redis_do(&f->redis, "EVAL %s 1 agent:b",
		      "redis.call('HSET', KEYS[1], 'resource', string.rep('x', 33554433))");
	assert_int_equal(post(f, "/query", "{}"), 200);
	assert_int_equal(json_array_size(a.body), 1);
}

static void query__longer_than_the_limit_is_refused(void **state)
{
	struct api_fixture *f = *state;
	char body[1400], text[1024];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (int i = 0; i < 3; i++) {
		snprintf(
			body, sizeof(body),
			"{\"alias\":\"a%d\",\"address\":\"h\",\"resource\":\"%s\",\"scope\":\"%s\"}",
			i, text, i ? "s" : "t");
		assert_int_equal(post(f, "/start_peer_agent", body), 200);
	}
	/* A resource counts as such and as topology. */
	assert_int_equal(post(f, "/query", "{\"scope\":\"s\"}"), 413);
	assert_string_equal(api_text(&a, "code", NULL), "too_large");
	assert_string_equal(api_text(&a, "field", NULL), "scope");
	assert_int_equal(post(f, "/query", "{\"scope\":\"t\"}"), 200);
}

/* Read, change and write in two steps lost some of them. */
static void topology__of_many_at_once_keeps_each(void **state)
{
	struct api_fixture *f = *state;
	char path[64];
	int fds[40];

	assert_int_equal(
		post(f, "/v1/desired_topology/hub", "{\"target_peers\":[],\"min_bw\":\"9G\"}"),
		200);
	for (int i = 0; i < 40; i++) {
		snprintf(path, sizeof(path), "/v1/desired_topology/w%d", i);
		fds[i] = api_begin(f, "POST", path, NULL,
				   "{\"target_peers\":[\"hub\"],\"symmetric\":true}");
	}
	for (int i = 0; i < 40; i++)
		assert_int_equal(api_finish(fds[i], &a), 200);
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
	assert_int_equal(
		post(f, "/v1/desired_topology/a", "{\"target_peers\":[\"b\"],\"symmetric\":true}"),
		200);
	assert_int_equal(post(f, "/cleanup", "{\"agent_name\":\"b\"}"), 200);
	assert_int_equal(test_redis_do(&f->redis, "LLEN inbox:a"), 1);
}

/* Redis reads and writes each of them, and serves nobody meanwhile. */
static void topology__of_very_long_lists_is_refused_whole(void **state)
{
	struct api_fixture *f = *state;

	test_redis_do(
		&f->redis, "EVAL %s 0",
		"for _, n in ipairs({ 'a', 'b', 'c' }) do redis.call('SET', 'spec:topology:' .. n, "
		"'{\"target_peers\":[\"' .. string.rep('x', 3145728) .. '\"]}') end return 0");
	assert_int_equal(post(f, "/v1/desired_topology/me",
			      "{\"target_peers\":[\"a\",\"b\",\"c\"],\"symmetric\":true}"),
			 413);
	assert_int_equal(test_redis_do(&f->redis, "EXISTS spec:topology:me stream:me stream:a"), 0);
	assert_int_equal(post(f, "/v1/desired_topology/me",
			      "{\"target_peers\":[\"a\",\"b\"],\"symmetric\":true}"),
			 200);
	assert_int_equal(
		post(f, "/v1/desired_topology/me", "{\"target_peers\":[\"a\",\"b\",\"c\"]}"), 200);
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
	assert_int_equal(post(f, "/v1/desired_topology/agent-11000", body), 200);
	assert_int_equal(test_redis_do(&f->redis, "EVAL %s 0", count), 999);
	/* Once is enough. */
	assert_int_equal(post(f, "/v1/desired_topology/agent-11000", body), 200);
	assert_int_equal(test_redis_do(&f->redis, "EVAL %s 0", count), 999);
}

static void assert_targets(struct api_fixture *f, const char *before, const char *name,
			   const char *after)
{
	char path[64];

	test_redis_do(&f->redis, "SET spec:topology:b %s", before);
	snprintf(path, sizeof(path), "/v1/desired_topology/%s", name);
	assert_int_equal(post(f, path, "{\"target_peers\":[\"b\"],\"symmetric\":true}"), 200);
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
	assert_int_equal(
		post(f, "/v1/desired_topology/a", "{\"target_peers\":[\"b\"],\"symmetric\":true}"),
		200);
	assert_value(f, "GET", "spec:topology:b", "{\"target_peers\":[\"c\",\"a\"]}");
}

/* Whoever writes to a stream chooses its ids: behind the last one there is none. */
static void topology__over_a_stream_at_its_last_id_begins_it_anew(void **state)
{
	struct api_fixture *f = *state;

	test_redis_do(&f->redis,
		      "XADD stream:a 18446744073709551615-18446744073709551615 type x peer y");
	assert_int_equal(post(f, "/v1/desired_topology/a", "{\"target_peers\":[\"b\"]}"), 200);
	assert_int_equal(test_redis_do(&f->redis, "XLEN stream:a"), 1);
}

static void routes__never_look_at_every_key(void **state)
{
	struct api_fixture *f = *state;

	set_up_pair(f);
	assert_int_equal(post(f, "/register", "{\"entity_id\":\"e\",\"kind\":\"k\"}"), 200);
	assert_int_equal(post(f, "/query", "{}"), 200);
	assert_int_equal(post(f, "/list_entities", "{}"), 200);
	assert_int_equal(post(f, "/cleanup", "{\"agent_name\":\"a\"}"), 200);
	assert_int_equal(test_redis_do(&f->redis, "EVAL %s 0",
				       "local s = redis.call('INFO', 'commandstats') "
				       "return string.find(s, 'cmdstat_keys') and 1 or 0"),
			 0);
}

/* ---- what Redis refuses ---- */

static void routes__that_redis_refuses_say_when_to_come_again(void **state)
{
	static const char *const writes[][2] = {
		{ "/register", "{\"entity_id\":\"e\",\"kind\":\"k\"}" },
		{ "/heartbeat", "{\"entity_type\":\"service\",\"entity_id\":\"e\"}" },
		{ "/unregister", "{\"entity_id\":\"e\"}" },
		{ "/start_peer_agent", "{\"alias\":\"c\",\"address\":\"x\"}" },
		{ "/cleanup", "{\"agent_name\":\"a\"}" },
	};
	struct api_fixture *f = *state;

	set_up_pair(f);
	assert_int_equal(post(f, writes[0][0], writes[0][1]), 200);
	test_redis_do(&f->redis, "CONFIG SET min-replicas-to-write 1");
	for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
		if (post(f, writes[i][0], writes[i][1]) != 503)
			fail_msg("%s: %d", writes[i][0], a.status);
		assert_true(a.retry_after);
	}
	test_redis_do(&f->redis, "CONFIG SET min-replicas-to-write 0");
	assert_int_equal(post(f, writes[1][0], writes[1][1]), 200);
	assert_string_equal(api_text(&a, "status", NULL), "ok");
}

/* ---- where Redis is ---- */

static const char *address_with(const char *url, const char *client, const char *advertise,
				const char *public)
{
	static char out[STORE_REDIS_ADDRESS_MAX];
	struct store_config config = STORE_CONFIG_INIT;
	struct store store = { .hub = NULL };
	int ret;

	config.url = url;
	config.advertise = advertise;
	config.public_address = public;
	assert_int_equal(store_hub_create(&config, &store.hub), 0);
	ret = store_redis_address(
		&store, (struct store_text){ client, client ? strlen(client) : 0 }, true, out);
	store_hub_destroy(store.hub);
	return ret ? "none" : out;
}

static const char *address(const char *url, const char *client)
{
	return address_with(url, client, NULL, NULL);
}

/* As the original does, but that all of 127/8 is this host. */
static void redis_address__that_is_public_is_for_clients_elsewhere(void **state)
{
	static const struct {
		const char *url, *client, *advertise, *told;
	} cases[] = {
		{ "redis://127.0.0.1:7000", "10.0.0.9", NULL, "10.1.2.3" },
		{ "redis://127.0.0.1:7000", "", NULL, "10.1.2.3" },
		{ "redis://localhost:7000", "10.0.0.9", NULL, "10.1.2.3" },
		{ "unix:///run/redis.sock", "10.0.0.9", NULL, "10.1.2.3" },
		{ "redis://127.0.0.1:7000", "127.0.0.1", NULL, "127.0.0.1:7000" },
		{ "redis://127.0.0.1:7000", "localhost", NULL, "127.0.0.1:7000" },
		{ "unix:///run/redis.sock", "127.0.0.1", NULL, "none" },
		{ "redis://10.0.0.5:7000", "10.0.0.9", NULL, "10.0.0.5:7000" },
		{ "redis://127.0.0.1:7000", "10.0.0.9", "a:1", "a:1" },
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(
			address_with(cases[i].url, cases[i].client, cases[i].advertise, "10.1.2.3"),
			cases[i].told);
	/* Who asks only where it is has no address. */
	assert_string_not_equal(address_with("redis://127.0.0.1:7000", NULL, NULL, "10.1.2.3"),
				"10.1.2.3");
}

static void redis_address__is_one_that_the_client_can_use(void **state)
{
	(void)state;
	assert_string_equal(address("redis://10.0.0.5:7000", "127.0.0.1"), "10.0.0.5:7000");
	assert_string_equal(address("redis://10.0.0.5:7000", ""), "10.0.0.5:7000");
	assert_string_equal(address("redis://127.0.0.1:7000", "127.0.0.1"), "127.0.0.1:7000");
	/* Debian's own name for the host is loopback, too. */
	assert_string_equal(address("redis://127.0.0.1:7000", "127.0.1.1"), "127.0.0.1:7000");
	assert_string_equal(address("redis://localhost:7000", "::1"), "localhost:7000");
	assert_string_not_equal(address("redis://127.0.0.1:7000", "10.0.0.9"), "none");
	assert_string_equal(address("redis://:secret@10.0.0.5:7000", "x"), "none");
	assert_string_equal(address("redis://10.0.0.5:7000/1", "x"), "none");
	assert_string_equal(address("redis://[fd00::1]:7000", "x"), "none");
	assert_string_equal(address("unix:///run/redis.sock", "127.0.0.1"), "none");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, api_setup_advertised, peer_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(start__with_an_alias_registers_and_says_where_redis_is),
		TEST(start__without_an_alias_takes_the_next_free_name),
		cmocka_unit_test_setup_teardown(
			start__where_clients_cannot_reach_redis_registers_nothing, api_setup,
			peer_teardown),
		TEST(mr__is_told_as_it_was_registered),
		TEST(value__of_others_that_is_too_long_is_none_and_counted),
		TEST(topology__is_stored_and_told_to_both_sides),
		TEST(topology__of_a_name_above_1024_bytes_is_refused),
		TEST(cleanup__takes_what_is_the_agents_and_nothing_else),
		TEST(agent__whose_time_has_run_out_is_cleaned_up),
		TEST(cleanup__of_one_who_owns_much_goes_in_portions),
		TEST(agent__that_owned_much_goes_in_portions_when_its_time_is_over),
		TEST(start__of_a_name_of_which_much_is_left_begins_with_nothing),
		TEST(cleanup__tells_everyone_whom_the_agent_ever_named),
		TEST(cleanup__over_a_damaged_set_of_namers_is_whole),
		TEST(start__of_a_target_asks_those_who_wait_for_it_to_connect),
		TEST(start__after_an_end_that_nobody_noticed_leaves_nothing_of_the_former),
		TEST(start__after_an_end_that_nobody_noticed_asks_when_that_is_known),
		cmocka_unit_test_setup_teardown(
			agent__whose_time_ran_out_in_an_outage_does_not_end_at_once,
			long_held_setup, peer_teardown),
		cmocka_unit_test_setup_teardown(agent__that_does_not_come_back_after_an_outage_ends,
						held_setup, peer_teardown),
		cmocka_unit_test_setup_teardown(
			start__of_the_same_process_after_an_outage_is_no_end, long_held_setup,
			peer_teardown),
		cmocka_unit_test_setup_teardown(start__of_another_process_after_an_outage_is_an_end,
						long_held_setup, peer_teardown),
		cmocka_unit_test_setup_teardown(start__of_a_process_whose_end_has_begun_is_an_end,
						long_held_setup, peer_teardown),
		TEST(start__of_a_name_held_without_an_end_gives_it_one),
		TEST(keys__of_a_name_that_never_comes_have_an_end),
		TEST(query__skips_what_others_damaged),
		TEST(query__leaves_out_who_is_too_long),
		cmocka_unit_test_setup_teardown(query__longer_than_the_limit_is_refused,
						api_setup_short_lists, peer_teardown),
		TEST(topology__of_many_at_once_keeps_each),
		TEST(topology__over_a_damaged_list_of_the_other_side_replaces_it),
		TEST(topology__of_very_long_lists_is_refused_whole),
		TEST(topology__of_a_mesh_of_a_thousand_is_in_each_list),
		TEST(topology__is_added_to_a_list_whatever_stands_beside_it),
		TEST(topology__over_a_stream_at_its_last_id_begins_it_anew),
		TEST(routes__never_look_at_every_key),
		TEST(routes__that_redis_refuses_say_when_to_come_again),
		cmocka_unit_test(redis_address__that_is_public_is_for_clients_elsewhere),
		cmocka_unit_test(redis_address__is_one_that_the_client_can_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
