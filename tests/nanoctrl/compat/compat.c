/* SPDX-License-Identifier: Apache-2.0 */
/* The routes of DLSlime's NanoCtrl, through a socket, over a real Redis. */
#include "tests/nanoctrl/compat/fixture.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <base/clock.h>

#define MANY 24 /* of requests at once */

static void body__of_every_wrong_form_has_the_status_of_the_original(void **state)
{
	static const struct {
		const char *path, *body;
		int status;
		const char *field;
	} cases[] = {
		{ "/register", "", 400, NULL },
		{ "/register", "{\"entity_id\":", 400, NULL },
		{ "/register", "{\"entity_id\":\"\\ud800\",\"kind\":\"k\"}", 400, NULL },
		{ "/register", "{\"entity_id\":\"\xff\",\"kind\":\"k\"}", 400, NULL },
		{ "/register", "5", 422, NULL },
		{ "/register", "{\"kind\":\"k\"}", 422, "entity_id" },
		{ "/register", "{\"entity_id\":\"x\"}", 422, "kind" },
		{ "/register", "{\"entity_id\":5,\"kind\":\"k\"}", 422, "entity_id" },
		{ "/register", "{\"entity_id\":\"x\",\"kind\":null}", 422, "kind" },
		{ "/register", "{\"entity_type\":null,\"entity_id\":\"x\",\"kind\":\"k\"}", 422,
		  "entity_type" },
		{ "/register", "{\"entity_id\":\"x\",\"kind\":\"k\",\"kind\":\"k\"}", 422, "kind" },
		{ "/register", "{\"entity_id\":\"x\",\"kind\":\"k\",\"scope\":5}", 422, "scope" },
		{ "/register", "[\"service\",\"x\"]", 422, "kind" },
		{ "/heartbeat", "{\"entity_id\":\"x\"}", 422, "entity_type" },
		{ "/list_entities", "{\"kind\":5}", 422, "kind" },
		{ "/register", "[\"service\",\"x\",\"k\"]", 200, NULL },
		{ "/register", "{\"entity_id\":\"x\",\"kind\":\"k\",\"more\":1} and more", 200,
		  NULL },
		{ "/register", "{\"entity_id\":\"x\",\"kind\":\"k\",\"scope\":null}", 200, NULL },
		{ "/register/", "{}", 404, "path" },
	};
	struct api_fixture *f = *state;
	char deep[400];

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (api_post(f, cases[i].path, cases[i].body) != cases[i].status)
			fail_msg("%s %s: %d", cases[i].path, cases[i].body, f->said.status);
		if (cases[i].field)
			assert_string_equal(api_text(&f->said, "field", NULL), cases[i].field);
		if (cases[i].status != 200)
			assert_string_equal(api_text(&f->said, "status", NULL), "error");
	}
	memset(deep, '[', 200);
	memset(deep + 200, ']', 199);
	deep[399] = '\0';
	assert_int_equal(api_post(f, "/list_entities", deep), 400);
	assert_int_equal(api_do(f, &f->said, "GET", "/register", NULL, NULL), 405);
}

/* What waits for Redis at the same time goes in one call. */
static void requests__that_go_together_are_answered_each(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;
	int beats[MANY], puts[MANY];
	char body[96];

	assert_int_equal(api_post(f, "/register", "{\"entity_id\":\"e1\",\"kind\":\"k\"}"), 200);
	test_redis_do(r, "SET service:p2 taken");
	test_redis_do(r, "SET service:p6 taken");
	test_redis_do(r, "CLIENT PAUSE 60000 WRITE");
	for (int i = 0; i < MANY; i++) {
		snprintf(body, sizeof(body),
			 "{\"entity_type\":\"service\",\"entity_id\":\"e%d\"%s}", i % 3,
			 i % 4 ? "" : ",\"scope\":\"s\"");
		beats[i] = api_begin(f, "POST", "/heartbeat", NULL, body);
		snprintf(body, sizeof(body),
			 "{\"entity_type\":\"%s\",\"entity_id\":\"p%d\",\"kind\":\"k\"}",
			 i % 2 ? "gpu" : "service", i);
		puts[i] = api_begin(f, "POST", "/register", NULL, body);
	}
	while (api_metric(f, "nanoctrl_http_requests_in_flight") < 2LL * MANY)
		sched_yield();
	test_redis_do(r, "CLIENT UNPAUSE");
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(api_finish(beats[i], &f->said), 200);
		assert_string_equal(api_text(&f->said, "status", NULL),
				    i % 3 == 1 && i % 4 ? "ok" : "not_found");
		assert_int_equal(api_finish(puts[i], &f->said), i == 2 || i == 6 ? 409 : 200);
	}
	assert_int_equal(test_redis_do(r, "ZCARD nanoctrl:entities:"), MANY - 1);
	assert_int_equal(test_redis_do(r, "HLEN gpu:p23"), 7);
	assert_int_equal(test_redis_do(r, "HLEN service:p22"), 7);
	assert_int_equal(test_redis_do(r, "STRLEN service:p2"), 5);
	/* What was refused has no revision. */
	assert_int_equal(test_redis_do(r, "INCRBY nano_meta:service_revision 0"), MANY / 2 - 1);
	assert_int_equal(test_redis_do(r, "INCRBY nano_meta:gpu_revision 0"), MANY / 2);
}

static void routes__never_look_at_every_key(void **state)
{
	struct api_fixture *f = *state;

	set_up_pair(f);
	assert_int_equal(api_post(f, "/register", "{\"entity_id\":\"e\",\"kind\":\"k\"}"), 200);
	assert_int_equal(api_post(f, "/query", "{}"), 200);
	assert_int_equal(api_post(f, "/list_entities", "{}"), 200);
	assert_int_equal(api_post(f, "/cleanup", "{\"agent_name\":\"a\"}"), 200);
	assert_int_equal(test_redis_do(&f->redis, "EVAL %s 0",
				       "local s = redis.call('INFO', 'commandstats') "
				       "return string.find(s, 'cmdstat_keys') and 1 or 0"),
			 0);
}

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
	assert_int_equal(api_post(f, writes[0][0], writes[0][1]), 200);
	test_redis_do(&f->redis, "CONFIG SET min-replicas-to-write 1");
	for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
		if (api_post(f, writes[i][0], writes[i][1]) != 503)
			fail_msg("%s: %d", writes[i][0], f->said.status);
		assert_true(f->said.retry_after);
	}
	test_redis_do(&f->redis, "CONFIG SET min-replicas-to-write 0");
	assert_int_equal(api_post(f, writes[1][0], writes[1][1]), 200);
	assert_string_equal(api_text(&f->said, "status", NULL), "ok");
}

static void until_post(struct api_fixture *f, const char *path, const char *body, int status)
{
	uint64_t deadline = sl_deadline_ns(API_TIMEOUT_S * 1000);

	while (api_post(f, path, body) != status)
		assert_true(sl_clock_ns() < deadline);
}

static void routes__that_add_keys_leave_the_last_quarter_of_redis(void **state)
{
	static const char *const adding[][2] = {
		{ "/register", "{\"entity_id\":\"e\",\"kind\":\"k\"}" },
		{ "/start_peer_agent", "{\"alias\":\"c\",\"address\":\"x\"}" },
		{ "/register_mr",
		  "{\"agent_name\":\"a\",\"mr_name\":\"m\",\"addr\":1,\"length\":1,\"rkey\":1}" },
		{ "/v1/desired_topology/a", "{\"target_peers\":[\"b\"]}" },
	};
	static const char agent[] =
		"{\"incarnation\":\"one\",\"owner_key\":"
		"\"0011223344556677889900112233445566778899001122334455667788990011\"}";
	struct api_fixture *f = *state;
	long long used;

	set_up_pair(f);
	used = test_redis_do(&f->redis, "EVAL %s 0",
			     "return tonumber(string.match(redis.call('INFO', 'memory'), "
			     "'used_memory:(%d+)'))");
	test_redis_do(&f->redis, "CONFIG SET maxmemory %lld", used + used / 5);
	for (size_t i = 0; i < sizeof(adding) / sizeof(adding[0]); i++) {
		until_post(f, adding[i][0], adding[i][1], 429);
		assert_string_equal(api_text(&f->said, "code", NULL), "quota");
	}
	assert_int_equal(api_do(f, &f->said, "PUT", "/v1/agents/n?order=1", NULL, agent), 201);
	assert_int_equal(api_post(f, "/query", "{}"), 200);
	assert_int_equal(
		api_post(f, "/heartbeat", "{\"entity_type\":\"agent\",\"entity_id\":\"a\"}"), 200);
	test_redis_do(&f->redis, "CONFIG SET maxmemory 0");
	until_post(f, adding[0][0], adding[0][1], 200);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, api_setup, api_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(body__of_every_wrong_form_has_the_status_of_the_original),
		TEST(requests__that_go_together_are_answered_each),
		cmocka_unit_test_setup_teardown(routes__never_look_at_every_key,
						api_setup_advertised, api_teardown),
		cmocka_unit_test_setup_teardown(routes__that_redis_refuses_say_when_to_come_again,
						api_setup_advertised, api_teardown),
		cmocka_unit_test_setup_teardown(
			routes__that_add_keys_leave_the_last_quarter_of_redis, api_setup_advertised,
			api_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
