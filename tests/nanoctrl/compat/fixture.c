/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nanoctrl/compat/fixture.h"

#include <stdlib.h>

void assert_answer(const struct api_fixture *f, const char *json)
{
	char *text = json_dumps(f->said.body, JSON_COMPACT | JSON_SORT_KEYS);

	assert_non_null(text);
	assert_string_equal(text, json);
	free(text);
}

void assert_value(struct api_fixture *f, const char *command, const char *key, const char *value)
{
	assert_int_equal(test_redis_do(&f->redis, "EVAL %s 1 %s %s %s",
				       "local v = ARGV[1] == 'GET' and redis.call('GET', KEYS[1]) "
				       "or ARGV[1] == 'LIST' and redis.call('LINDEX', KEYS[1], 0) "
				       "or redis.call('HGET', KEYS[1], ARGV[1]) "
				       "return v == ARGV[2] and 1 or 0",
				       key, command, value),
			 1);
}

void set_up_pair(struct api_fixture *f)
{
	assert_int_equal(api_post(f, "/start_peer_agent", "{\"alias\":\"a\",\"address\":\"x\"}"),
			 200);
	assert_int_equal(api_post(f, "/start_peer_agent", "{\"alias\":\"a:b\",\"address\":\"x\"}"),
			 200);
	assert_int_equal(
		api_post(f, "/register_mr",
			 "{\"agent_name\":\"a\",\"mr_name\":\"kv\",\"addr\":1,\"length\":1,"
			 "\"rkey\":1}"),
		200);
	assert_int_equal(
		api_post(f, "/register_mr",
			 "{\"agent_name\":\"a:b\",\"mr_name\":\"kv\",\"addr\":1,\"length\":1,"
			 "\"rkey\":1}"),
		200);
	assert_int_equal(api_post(f, "/v1/desired_topology/a", "{\"target_peers\":[\"p\"]}"), 200);
	assert_int_equal(api_post(f, "/v1/desired_topology/q", "{\"target_peers\":[\"a\"]}"), 200);
}
