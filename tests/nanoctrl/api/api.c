/* SPDX-License-Identifier: Apache-2.0 */
/* The native API, request by request, through a socket, over a real Redis. */
#include "tests/nanoctrl/api/fixture.h"

#include <stdio.h>
#include <string.h>
#include <base/clock.h>

static void agent__is_registered_read_changed_and_gone(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	char lease[512];

	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 200);
	assert_int_equal(api_do(f, &a, "GET", "/v1/agents/node-a?scope=demo", NULL, NULL), 200);
	assert_string_equal(api_text(&a, "agent", "labels", "role", NULL), "node-a");
	assert_string_equal(api_text(&a, "agent", "services", "0", "name", NULL), "echo");
	assert_int_equal(api_do(f, &a, "GET", "/v1/agents/node-a", NULL, NULL), 404);
	assert_int_equal(
		api_do(f, &a, "POST", "/v1/agents/node-a/heartbeat?scope=demo", lease, NULL), 200);
	assert_int_equal(api_do(f, &a, "PATCH", "/v1/agents/node-a?scope=demo", lease,
				"{\"revision\":2,\"labels\":{\"role\":\"decode\"}}"),
			 200);
	assert_int_equal(api_do(f, &a, "PATCH", "/v1/agents/node-a?scope=demo", lease,
				"{\"revision\":1,\"labels\":{}}"),
			 409);
	assert_error(&a, 409, "stale", NULL);
	assert_int_equal(
		api_do(f, &a, "GET", "/v1/agents?scope=demo&selector=role%3Ddecode", NULL, NULL),
		200);
	assert_int_equal(api_count(&a, "agents"), 1);
	assert_int_equal(api_do(f, &a, "GET", "/v1/services?scope=demo&name=echo", NULL, NULL),
			 200);
	assert_string_equal(api_text(&a, "services", "0", "agent", NULL), "node-a");
	assert_int_equal(api_do(f, &a, "DELETE", "/v1/agents/node-a?scope=demo", lease, NULL), 200);
	assert_int_equal(api_do(f, &a, "DELETE", "/v1/agents/node-a?scope=demo", lease, NULL), 200);
	assert_true(json_is_false(json_object_get(a.body, "left")));
	api_do(f, &a, "POST", "/v1/agents/node-a/heartbeat?scope=demo", lease, NULL);
	assert_error(&a, 410, "lease_gone", NULL);
	api_answer_fini(&a);
}

static void register__of_a_held_name_needs_the_owner_key(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	char first[512];
	char second[512];
	char body[256];

	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, first), 201);
	assert_int_equal(api_register(f, "node-a", "i2", OWNER_KEY_B, second), 409);
	assert_int_equal(api_register(f, "node-a", "i2", OWNER_KEY_A, second), 201);
	api_do(f, &a, "POST", "/v1/agents/node-a/heartbeat?scope=demo", first, NULL);
	assert_error(&a, 409, "superseded", NULL);
	snprintf(body, sizeof(body),
		 "{\"incarnation\":\"i1\",\"owner_key\":\"%s\","
		 "\"previous\":{\"epoch\":1,\"generation\":1}}",
		 OWNER_KEY_A);
	api_do(f, &a, "PUT", "/v1/agents/node-a?scope=demo&order=1", NULL, body);
	assert_error(&a, 409, "superseded", NULL);
	api_answer_fini(&a);
}

static void register__of_a_held_name_is_told_who_has_it(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	char lease[512];

	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	api_do(f, &a, "PUT", "/v1/agents/node-a?scope=demo&order=1", NULL,
	       "{\"incarnation\":\"i2\",\"owner_key\":\"" OWNER_KEY_B "\"}");
	assert_error(&a, 409, "name_taken", NULL);
	assert_string_equal(api_text(&a, "holder", "incarnation", NULL), "i1");
	assert_true(api_number(&a, "holder", "generation", NULL) > 0);
	assert_true(api_number(&a, "holder", "lease_left_ms", NULL) > 0);
	assert_true(api_number(&a, "holder", "ttl_ms", NULL) >=
		    api_number(&a, "holder", "lease_left_ms", NULL));
	assert_true(api_number(&a, "holder", "wait_ms", NULL) >=
		    api_number(&a, "holder", "lease_left_ms", NULL));
	assert_true(api_number(&a, "holder", "at_ms", NULL) >=
		    api_number(&a, "holder", "registered_at_ms", NULL));
	assert_string_equal(api_text(&a, "holder", "labels", NULL), "(none)");
	api_answer_fini(&a);
}

/* Whoever looks into Redis can neither take the name over nor speak for its agent. */
static void register__keeps_key_and_lease_out_of_redis(void **state)
{
	static const char script[] =
		"local h = redis.call('HGETALL', '{demo}:nanoctrl:agent:6:node-a') "
		"local all, n = string.lower(table.concat(h, ' ')), 0 for i = 1, 2 do "
		"if string.find(all, string.lower(ARGV[i]), 1, true) then n = n + 1 end end "
		"return n";
	struct api_fixture *f = *state;
	char lease[512];

	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	assert_int_equal(test_redis_do(&f->redis, "EVAL %s 0 %s %s", script, OWNER_KEY_A,
				       strrchr(lease, '/') + 1),
			 0);
	assert_int_equal(test_redis_do(&f->redis, "HSTRLEN {demo}:nanoctrl:agent:6:node-a owner"),
			 64);
	assert_int_equal(test_redis_do(&f->redis, "HSTRLEN {demo}:nanoctrl:agent:6:node-a secret"),
			 64);
}

static void request__that_is_malformed_names_the_field(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	char lease[512];
	const char *put = "/v1/agents/x?scope=demo&order=1";

	api_do(f, &a, "PUT", put, NULL, "{");
	assert_error(&a, 400, "bad_json", NULL);
	api_do(f, &a, "PUT", put, NULL, "[1]");
	assert_error(&a, 422, "bad_type", NULL);
	api_do(f, &a, "PUT", put, NULL, "{}");
	assert_error(&a, 422, "missing_field", "incarnation");
	api_do(f, &a, "PUT", put, NULL, "{\"incarnation\":5}");
	assert_error(&a, 422, "bad_type", "incarnation");
	api_do(f, &a, "PUT", put, NULL, "{\"incarnation\":\"a\",\"incarnation\":\"b\"}");
	assert_error(&a, 422, "duplicate_field", "incarnation");
	api_do(f, &a, "PUT", put, NULL, "{\"incarnation\":\"a\",\"owner_key\":\"00\"}");
	assert_error(&a, 422, "bad_value", "owner_key");
	api_do(f, &a, "PUT", put, NULL,
	       "{\"incarnation\":\"a\",\"owner_key\":\"" OWNER_KEY_A "\",\"labels\":{\"k\":1}}");
	assert_error(&a, 422, "bad_type", "labels.k");
	api_do(f, &a, "PUT", "/v1/agents/a%2Fb?scope=demo&order=1", NULL, "{}");
	assert_error(&a, 400, "bad_name", "name");
	api_do(f, &a, "GET", "/v1/agents?scope=agent", NULL, NULL);
	assert_error(&a, 400, "bad_name", "scope");
	api_do(f, &a, "GET", "/v1/agents?limit=0", NULL, NULL);
	assert_error(&a, 400, "bad_query", "limit");
	api_do(f, &a, "PUT", "/v1/agents/x?scope=demo", NULL, "{}");
	assert_error(&a, 400, "bad_query", "order");
	api_do(f, &a, "PUT", "/v1/agents/x?scope=demo&order=9007199254740992", NULL, "{}");
	assert_error(&a, 400, "bad_query", "order");
	api_do(f, &a, "DELETE", put, NULL, NULL);
	assert_error(&a, 401, "lease_required", "Slime-Lease");
	api_do(f, &a, "DELETE", put, "x/1/2", NULL);
	assert_error(&a, 400, "bad_lease", "Slime-Lease");
	api_do(f, &a, "GET", "/v1/agents?scope=a&scope=b", NULL, NULL);
	assert_error(&a, 400, "bad_query", "scope");
	api_do(f, &a, "GET", "/v1/events?wait_ms=0&cursor=7", NULL, NULL);
	assert_error(&a, 400, "bad_cursor", "cursor");
	api_do(f, &a, "GET", "/v1/events?wait_ms=30001", NULL, NULL);
	assert_error(&a, 400, "bad_query", "wait_ms");
	api_finish(api_begin_with(f, "PUT", put, NULL,
				  "Connection: close\r\nContent-Type: text/plain\r\n", "{}"),
		   &a);
	assert_error(&a, 415, "unsupported_media_type", "Content-Type");
	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	api_do(f, &a, "DELETE", put, lease, NULL);
	assert_error(&a, 403, "forbidden", NULL);
	api_do(f, &a, "DELETE", "/v1/agents/node-a/regions/kv?scope=demo", lease, NULL);
	assert_error(&a, 400, "bad_query", "revision");
	api_do(f, &a, "DELETE", "/v1/agents/node-a/links/b/default?scope=demo&revision=0", lease,
	       NULL);
	assert_error(&a, 400, "bad_query", "revision");
	api_do(f, &a, "DELETE", "/v1/agents/node-a/exchange/b/default?scope=demo", lease, NULL);
	assert_error(&a, 400, "bad_query", "connection_epoch");
	api_do(f, &a, "PUT", "/v1/agents/node-a/regions/kv?scope=demo", lease,
	       "{\"revision\":1,\"size\":1,\"access\":[\"read\"],\"descriptor\":\"QUJ\"}");
	assert_error(&a, 422, "bad_value", "descriptor");
	api_answer_fini(&a);
}

static void region__is_shown_to_all_and_its_descriptor_to_those_allowed(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	const char *path = "/v1/agents/node-a/regions/kv?scope=demo";
	char lease_a[512];
	char lease_b[512];
	char lease_c[512];

	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease_a), 201);
	assert_int_equal(api_register(f, "node-b", "i2", OWNER_KEY_A, lease_b), 201);
	assert_int_equal(api_register(f, "node-c", "i3", OWNER_KEY_A, lease_c), 201);
	assert_int_equal(api_do(f, &a, "PUT", path, lease_a, REGION), 201);
	assert_int_equal(api_do(f, &a, "PUT", path, lease_a, REGION), 200);
	assert_int_equal(api_do(f, &a, "GET", path, NULL, NULL), 200);
	assert_string_equal(api_text(&a, "region", "descriptor", NULL), "(none)");
	assert_int_equal(api_number(&a, "region", "size", NULL), 4096);
	assert_int_equal(api_do(f, &a, "GET", path, lease_c, NULL), 200);
	assert_string_equal(api_text(&a, "region", "descriptor", NULL), "(none)");
	assert_int_equal(api_do(f, &a, "GET", path, lease_b, NULL), 200);
	assert_string_equal(api_text(&a, "region", "descriptor", NULL), "QUJD");
	assert_int_equal(api_do(f, &a, "GET", path, lease_a, NULL), 200);
	assert_string_equal(api_text(&a, "region", "descriptor", NULL), "QUJD");
	assert_int_equal(api_do(f, &a, "GET", "/v1/regions?scope=demo", NULL, NULL), 200);
	assert_int_equal(api_count(&a, "regions"), 1);
	/* Whoever was allowed, and has left since, is told so instead. */
	assert_int_equal(api_do(f, &a, "DELETE", "/v1/agents/node-b?scope=demo", lease_b, NULL),
			 200);
	api_do(f, &a, "GET", path, lease_b, NULL);
	assert_error(&a, 410, "lease_gone", NULL);
	assert_int_equal(api_do(f, &a, "DELETE",
				"/v1/agents/node-a/regions/kv?scope=demo&revision=9", lease_a,
				NULL),
			 200);
	assert_int_equal(api_do(f, &a, "GET", path, lease_a, NULL), 404);
	/* A lease that another one took the place of has ended, too. */
	assert_int_equal(api_register(f, "node-a", "i2", OWNER_KEY_A, lease_b), 201);
	api_do(f, &a, "GET", path, lease_a, NULL);
	assert_error(&a, 410, "lease_gone", NULL);
	api_answer_fini(&a);
}

/* Nobody can tell who asks: not even the public part is for him. */
static void region__for_two_leases_at_once_is_refused(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	char lease[512], fields[600];

	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	assert_int_equal(
		api_do(f, &a, "PUT", "/v1/agents/node-a/regions/kv?scope=demo", lease, REGION),
		201);
	snprintf(fields, sizeof(fields), "Connection: close\r\nSlime-Lease: %s\r\n", lease);
	api_finish(api_begin_with(f, "GET", "/v1/agents/node-a/regions/kv?scope=demo", lease,
				  fields, NULL),
		   &a);
	assert_error(&a, 401, "lease_required", "Slime-Lease");
	api_answer_fini(&a);
}

static long long generation_of(struct api_fixture *f, const char *name)
{
	struct api_answer a = { .status = 0 };
	long long generation;
	char target[100];

	snprintf(target, sizeof(target), "/v1/agents/%s?scope=demo", name);
	assert_int_equal(api_do(f, &a, "GET", target, NULL, NULL), 200);
	generation = api_number(&a, "agent", "generation", NULL);
	api_answer_fini(&a);
	return generation;
}

/* By its route and in lists alike: there is none, and it is counted. */
static void region__that_is_junk_in_redis_is_as_if_absent(void **state)
{
	static const char *const junk[] = {
		"1 1 4\njunk",
		"1 1 2\n[]",
		"junk",
		"1 1 2\n{}",
		"1 1 29\n{\"size\":-1,\"access\":[\"read\"]}",
		"1 1 40\n{\"size\":1,\"access\":[\"read\"],\"allow\":[1]}",
		"9999999999999999999 1 28\n{\"size\":1,\"access\":[\"read\"]}",
	};
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	long long generation;
	char lease[512];

	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	generation = generation_of(f, "node-a");
	for (size_t i = 0; i < sizeof(junk) / sizeof(*junk); i++) {
		long long seen = api_metric(f, "nanoctrl_model_junk_total") +
				 api_metric(f, "nanoctrl_store_skipped_total");

		test_redis_do(&f->redis, "HSET {demo}:nanoctrl:region:%lld kv %s", generation,
			      junk[i]);
		api_do(f, &a, "GET", "/v1/agents/node-a/regions/kv?scope=demo", lease, NULL);
		assert_error(&a, 404, "not_found", NULL);
		assert_int_equal(api_metric(f, "nanoctrl_model_junk_total") +
					 api_metric(f, "nanoctrl_store_skipped_total"),
				 seen + 1);
		assert_int_equal(api_do(f, &a, "GET", "/v1/regions?scope=demo", NULL, NULL), 200);
		assert_int_equal(api_count(&a, "regions"), 0);
	}
	api_answer_fini(&a);
}

/* Members that we do not know are told as they are. */
static void region__of_a_later_release_keeps_its_members(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	char lease[512];

	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	test_redis_do(&f->redis, "HSET {demo}:nanoctrl:region:%lld kv %s",
		      generation_of(f, "node-a"),
		      "1 1 40\n{\"size\":1,\"access\":[\"read\"],\"later\":[7]}");
	assert_int_equal(
		api_do(f, &a, "GET", "/v1/agents/node-a/regions/kv?scope=demo", NULL, NULL), 200);
	assert_int_equal(api_number(&a, "region", "later", "0", NULL), 7);
	assert_int_equal(api_do(f, &a, "GET", "/v1/regions?scope=demo", NULL, NULL), 200);
	assert_int_equal(api_number(&a, "regions", "0", "later", "0", NULL), 7);
	api_answer_fini(&a);
}

/* Clients take a list as a whole: one that they cannot read is none. */
static void lists__have_only_what_a_client_can_read(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	long long generation;
	char lease[512];

	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	generation = generation_of(f, "node-a");
	test_redis_do(&f->redis, "HSET {demo}:nanoctrl:agent:6:node-a services %s",
		      "[1,{\"name\":\"echo\"},{\"name\":2},{}]");
	test_redis_do(&f->redis, "HSET {demo}:nanoctrl:link:%lld b/default %s c/default %s",
		      generation, "1 1 2\n{}", "1 1 21\n{\"state\":\"connected\"}");
	assert_int_equal(api_do(f, &a, "GET", "/v1/agents?scope=demo", NULL, NULL), 200);
	assert_string_equal(api_text(&a, "agents", "0", "services", "0", "name", NULL), "echo");
	assert_int_equal(json_array_size(json_object_get(
				 json_array_get(json_object_get(a.body, "agents"), 0), "services")),
			 1);
	assert_int_equal(api_do(f, &a, "GET", "/v1/links?scope=demo", NULL, NULL), 200);
	assert_int_equal(api_count(&a, "links"), 1);
	assert_string_equal(api_text(&a, "links", "0", "peer", NULL), "c");
	api_answer_fini(&a);
}

static void offer__is_read_by_its_two_agents_only(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	const char *path = "/v1/agents/node-a/exchange/node-b/default?scope=demo";
	char lease_a[512];
	char lease_b[512];
	char lease_c[512];

	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease_a), 201);
	api_do(f, &a, "PUT", path, lease_a, OFFER);
	assert_error(&a, 404, "peer_not_found", NULL);
	assert_int_equal(api_register(f, "node-b", "i2", OWNER_KEY_A, lease_b), 201);
	assert_int_equal(api_register(f, "node-c", "i3", OWNER_KEY_A, lease_c), 201);
	assert_int_equal(api_do(f, &a, "PUT", path, lease_a, OFFER), 200);
	assert_string_equal(api_text(&a, "peer_incarnation", NULL), "i2");
	assert_int_equal(api_do(f, &a, "PUT", path, lease_a, OFFER), 200);
	assert_int_equal(api_do(f, &a, "GET", path, lease_b, NULL), 200);
	assert_string_equal(api_text(&a, "offer", "descriptor", NULL), "QUJD");
	assert_int_equal(api_do(f, &a, "GET", path, lease_a, NULL), 200);
	api_do(f, &a, "GET", path, lease_c, NULL);
	assert_error(&a, 403, "forbidden", NULL);
	api_do(f, &a, "GET", path, NULL, NULL);
	assert_error(&a, 401, "lease_required", "Slime-Lease");
	assert_int_equal(
		api_do(f, &a, "GET", "/v1/agents/node-b/exchange?scope=demo", lease_b, NULL), 200);
	assert_int_equal(api_count(&a, "offers"), 1);
	/* The peer starts anew: what was meant for its old life is gone. */
	assert_int_equal(api_register(f, "node-b", "i9", OWNER_KEY_A, lease_b), 201);
	assert_int_equal(api_do(f, &a, "GET", path, lease_b, NULL), 404);
	api_do(f, &a, "PUT", path, lease_a, OFFER);
	assert_error(&a, 409, "peer_changed", NULL);
	api_answer_fini(&a);
}

/* Objects of an agent, or what others have for it: as many as there may be. */
static void fill(struct api_fixture *f, const char *kind, long long generation, int n)
{
	test_redis_do(&f->redis, "EVAL %s 1 {demo}:nanoctrl:%s:%lld %d",
		      "for i = 1, ARGV[1] do redis.call('HSET', KEYS[1], i .. '/x', "
		      "'1 1 2\\n{}') end return 0",
		      kind, generation, n);
}

static void put__of_more_than_there_may_be_is_too_many(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	char lease_a[512], lease_b[512];

	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease_a), 201);
	assert_int_equal(api_register(f, "node-b", "i2", OWNER_KEY_A, lease_b), 201);
	fill(f, "inbox", generation_of(f, "node-b"), 16384);
	api_do(f, &a, "PUT", "/v1/agents/node-a/exchange/node-b/default?scope=demo", lease_a,
	       OFFER);
	assert_error(&a, 429, "inbox_full", NULL);
	assert_true(a.retry_after);
	fill(f, "link", generation_of(f, "node-a"), 4096);
	api_do(f, &a, "PUT", "/v1/agents/node-a/regions/kv?scope=demo", lease_a, REGION);
	assert_error(&a, 429, "too_many_objects", NULL);
	assert_true(a.retry_after);
	api_answer_fini(&a);
}

static void link__is_reported_with_cause_and_age(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	const char *path = "/v1/agents/node-a/links/node-b/default?scope=demo";
	const char *gone = "/v1/agents/node-a/links/node-b/default?scope=demo&revision=2";
	char lease[512];

	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	assert_int_equal(api_do(f, &a, "PUT", path, lease,
				"{\"revision\":1,\"state\":\"broken\",\"cause\":\"reset\","
				"\"age_ms\":5000}"),
			 200);
	assert_int_equal(api_do(f, &a, "GET", "/v1/links?scope=demo", NULL, NULL), 200);
	assert_string_equal(api_text(&a, "links", "0", "cause", NULL), "reset");
	assert_string_equal(api_text(&a, "links", "0", "peer", NULL), "node-b");
	assert_true(api_number(&a, "links", "0", "age_ms", NULL) >= 5000);
	api_do(f, &a, "PUT", path, lease, "{\"revision\":2,\"state\":\"fine\"}");
	assert_error(&a, 422, "bad_value", "state");
	assert_int_equal(api_do(f, &a, "DELETE", gone, lease, NULL), 200);
	assert_int_equal(api_do(f, &a, "GET", "/v1/agents/node-a/links?scope=demo", NULL, NULL),
			 200);
	assert_int_equal(api_count(&a, "links"), 0);
	api_answer_fini(&a);
}

static void link__may_be_wanted_with_whoever_matches(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	const char *path = "/v1/agents/node-a/links/zone=a%2Fb,role=x/default?scope=demo";
	const char *gone =
		"/v1/agents/node-a/links/zone=a%2Fb,role=x/default?scope=demo&revision=2";
	char lease[512];

	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	assert_int_equal(
		api_do(f, &a, "PUT", path, lease, "{\"revision\":1,\"state\":\"connecting\"}"),
		200);
	assert_int_equal(api_do(f, &a, "GET", "/v1/links?scope=demo", NULL, NULL), 200);
	assert_string_equal(api_text(&a, "links", "0", "peer", NULL), "zone=a/b,role=x");
	assert_string_equal(api_text(&a, "links", "0", "profile", NULL), "default");
	assert_int_equal(api_do(f, &a, "DELETE", gone, lease, NULL), 200);
	api_do(f, &a, "PUT", "/v1/agents/node-a/links/=x/default?scope=demo", lease, "{}");
	assert_error(&a, 400, "bad_name", "peer");
	api_answer_fini(&a);
}

static void request__while_redis_is_down_is_503_and_works_again_later(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	uint64_t deadline = sl_deadline_ns(60000);
	char lease[512];

	test_redis_kill(&f->redis);
	do {
		api_do(f, &a, "GET", "/v1/agents?scope=demo", NULL, NULL);
		assert_int_equal(a.status, 503);
		assert_true(a.retry_after);
	} while (strcmp(api_text(&a, "outcome", NULL), "not_executed") != 0 &&
		 sl_clock_ns() < deadline);
	assert_int_equal(api_do(f, &a, "GET", "/readyz", NULL, NULL), 503);
	assert_int_equal(api_do(f, &a, "GET", "/readyz?local=1", NULL, NULL), 200);
	test_redis_restart(&f->redis);
	api_until_registered(f, lease);
	api_answer_fini(&a);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, api_setup, api_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(agent__is_registered_read_changed_and_gone),
		TEST(register__of_a_held_name_needs_the_owner_key),
		TEST(register__of_a_held_name_is_told_who_has_it),
		TEST(register__keeps_key_and_lease_out_of_redis),
		TEST(request__that_is_malformed_names_the_field),
		TEST(region__is_shown_to_all_and_its_descriptor_to_those_allowed),
		TEST(region__for_two_leases_at_once_is_refused),
		TEST(region__that_is_junk_in_redis_is_as_if_absent),
		TEST(region__of_a_later_release_keeps_its_members),
		TEST(lists__have_only_what_a_client_can_read),
		TEST(offer__is_read_by_its_two_agents_only),
		TEST(put__of_more_than_there_may_be_is_too_many),
		TEST(link__is_reported_with_cause_and_age),
		TEST(link__may_be_wanted_with_whoever_matches),
		TEST(request__while_redis_is_down_is_503_and_works_again_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
