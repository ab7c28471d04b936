/* SPDX-License-Identifier: Apache-2.0 */
/* Events of the native API: by polls and by lines, and who hears of them. */
#include "tests/nanoctrl/api/fixture.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "model/model.h"
#include "tests/nanoctrl/api/stream_client.h"

static void poll__waits_for_the_next_event(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	char lease[512];
	char target[200];
	char at_once[200];

	assert_int_equal(api_do(f, &a, "GET", "/v1/agents?scope=demo", NULL, NULL), 200);
	snprintf(target, sizeof(target), "/v1/events?scope=demo&wait_ms=30000&cursor=%s",
		 api_text(&a, "cursor", NULL));
	snprintf(at_once, sizeof(at_once), "/v1/events?scope=demo&wait_ms=0&cursor=%s",
		 api_text(&a, "cursor", NULL));
	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	assert_int_equal(api_do(f, &a, "GET", target, NULL, NULL), 200);
	assert_string_equal(api_text(&a, "events", "0", "type", NULL), "registered");
	/* Also without a wait: what is there is told. */
	assert_int_equal(api_do(f, &a, "GET", at_once, NULL, NULL), 200);
	assert_string_equal(api_text(&a, "events", "0", "type", NULL), "registered");
	snprintf(target, sizeof(target), "/v1/events?scope=demo&wait_ms=20&cursor=%s",
		 api_text(&a, "cursor", NULL));
	assert_int_equal(api_do(f, &a, "GET", target, NULL, NULL), 200);
	assert_int_equal(api_count(&a, "events"), 0);
	assert_int_equal(
		api_do(f, &a, "GET", "/v1/events?scope=demo&wait_ms=1000&cursor=1:1", NULL, NULL),
		200);
	assert_true(json_is_true(json_object_get(a.body, "reset")));
	api_answer_fini(&a);
}

static void list__of_the_last_events_is_in_their_order(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	char lease[512];

	assert_int_equal(api_do(f, &a, "GET", "/v1/events?scope=demo&last=5", NULL, NULL), 200);
	assert_int_equal(api_count(&a, "events"), 0);
	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	assert_int_equal(api_register(f, "node-b", "i1", OWNER_KEY_A, lease), 201);
	assert_int_equal(api_register(f, "node-c", "i1", OWNER_KEY_A, lease), 201);
	assert_int_equal(api_do(f, &a, "GET", "/v1/events?scope=demo&last=2", NULL, NULL), 200);
	assert_int_equal(api_count(&a, "events"), 2);
	assert_string_equal(api_text(&a, "events", "0", "agent", NULL), "node-b");
	assert_string_equal(api_text(&a, "events", "1", "agent", NULL), "node-c");
	assert_string_equal(api_text(&a, "events", "1", "cursor", NULL),
			    api_text(&a, "cursor", NULL));
	assert_true(api_number(&a, "events", "1", "at_ms", NULL) > 1500000000000);
	assert_int_equal(api_do(f, &a, "GET", "/v1/events?scope=demo&last=1001", NULL, NULL), 400);
	api_answer_fini(&a);
}

static void lines__carry_events_and_beats(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	static struct api_stream s;
	char lease[512], target[256];

	/* Where the stream begins is known: Redis may be slower than two beats. */
	assert_int_equal(api_do(f, &a, "GET", "/v1/events?scope=demo&wait_ms=0", NULL, NULL), 200);
	snprintf(target, sizeof(target), "/v1/events?scope=demo&cursor=%s",
		 api_text(&a, "cursor", NULL));
	api_answer_fini(&a);
	assert_int_equal(api_open(f, &s, target, NULL, false), 200);
	json_decref(api_next_of(&s, "beat"));
	json_decref(api_next_of(&s, "beat"));
	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	json_decref(api_next_of(&s, "registered"));
	api_close(&s);
}

static void lines__of_a_head_request_are_a_head_and_the_end(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	char in[2048];
	size_t len = 0;
	ssize_t n;
	int fd = api_begin(f, "HEAD", "/v1/events?scope=demo", NULL, NULL);

	while ((n = read(fd, in + len, sizeof(in) - 1 - len)) > 0)
		len += (size_t)n;
	close(fd);
	in[len] = '\0';
	assert_memory_equal(in, "HTTP/1.1 200 ", 13);
	assert_string_equal(strstr(in, "\r\n\r\n"), "\r\n\r\n");
	assert_int_equal(api_do(f, &a, "GET", "/v1/agents?scope=demo", NULL, NULL), 200);
	api_answer_fini(&a);
}

/* A busy machine may have taken it for dead meanwhile. */
static void await_redis(struct api_fixture *f)
{
	struct api_answer a = { .status = 0 };

	while (api_do(f, &a, "GET", "/v1/agents?scope=demo", NULL, NULL) != 200)
		;
	api_answer_fini(&a);
}

static void lines__of_a_client_that_went_meanwhile_end_at_once(void **state)
{
	struct api_fixture *f = *state;
	char lease[512];
	int fd;

	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	test_redis_pause(&f->redis);
	fd = api_begin(f, "GET", "/v1/agents/node-a/events?scope=demo", lease, NULL);
	api_await_metric(f, "nanoctrl_http_requests_in_flight", 1);
	close(fd);
	api_await_metric(f, "nanoctrl_http_connections", 0);
	test_redis_resume(&f->redis);
	/* Redis answers in turn: who has its answer comes behind who has gone, on each loop. */
	for (int i = 0; i < 8; i++)
		await_redis(f);
	assert_int_equal(api_metric(f, "nanoctrl_streams"), 0);
	/* Nobody tells it of what happens now. */
	assert_int_equal(api_register(f, "node-b", "i1", OWNER_KEY_B, lease), 201);
	for (int i = 0; i < 8; i++)
		await_redis(f);
}

/* Until a region is published behind it. */
static void assert_hears_of_no_offer(struct api_stream *s)
{
	for (bool over = false; !over;) {
		json_t *v = api_next(s);
		const char *type = json_string_value(json_object_get(v, "type"));

		assert_non_null(type);
		assert_int_not_equal(strncmp(type, "offer", strlen("offer")), 0);
		over = strcmp(type, "region") == 0;
		json_decref(v);
	}
}

/* The types of what a poll has, each with a blank behind it. */
static void assert_polled(struct api_fixture *f, struct api_answer *a, const char *path,
			  const char *cursor, const char *lease, const char *wanted)
{
	char target[200], types[200] = "";

	snprintf(target, sizeof(target), "%s?scope=demo&wait_ms=0&cursor=%s", path, cursor);
	assert_int_equal(api_do(f, a, "GET", target, lease, NULL), 200);
	for (size_t i = 0; i < api_count(a, "events"); i++) {
		const json_t *v = json_array_get(json_object_get(a->body, "events"), i);

		snprintf(types + strlen(types), sizeof(types) - strlen(types), "%s ",
			 json_string_value(json_object_get(v, "type")));
	}
	assert_string_equal(types, wanted);
}

#define A_TO_B	 "/v1/agents/node-a/exchange/node-b/default?scope=demo"
#define REGION_A "/v1/agents/node-a/regions/kv?scope=demo"

/* Of what is posted for one agent nobody else hears, in whichever way; of regions everybody does.
 */
static void offer__is_told_to_its_agent_alone(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	static struct api_stream session, lines;
	char lease_a[512], lease_b[512], lease_c[512], cursor[64], target[200];

	api_join(f, &session, "node-c", "i3", lease_c);
	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease_a), 201);
	assert_int_equal(api_register(f, "node-b", "i2", OWNER_KEY_A, lease_b), 201);
	assert_int_equal(api_do(f, &a, "GET", "/v1/events?scope=demo&wait_ms=0", NULL, NULL), 200);
	snprintf(cursor, sizeof(cursor), "%s", api_text(&a, "cursor", NULL));
	snprintf(target, sizeof(target), "/v1/events?scope=demo&cursor=%s", cursor);
	assert_int_equal(api_open(f, &lines, target, NULL, false), 200);

	assert_int_equal(api_do(f, &a, "PUT", A_TO_B, lease_a, OFFER), 200);
	assert_int_equal(api_do(f, &a, "DELETE", A_TO_B "&connection_epoch=1", lease_a, NULL), 200);
	assert_int_equal(api_do(f, &a, "PUT", REGION_A, lease_a,
				"{\"revision\":3,\"size\":1,\"access\":[\"read\"],"
				"\"descriptor\":\"QUJD\"}"),
			 201);
	assert_int_equal(api_do(f, &a, "DELETE", REGION_A "&revision=7", lease_a, NULL), 200);

	assert_hears_of_no_offer(&session);
	assert_hears_of_no_offer(&lines);
	assert_polled(f, &a, "/v1/events", cursor, NULL, "region region_gone ");
	assert_polled(f, &a, "/v1/agents/node-c/events", cursor, lease_c, "region region_gone ");
	assert_int_equal(api_number(&a, "events", "1", "revision", NULL), 7);
	assert_polled(f, &a, "/v1/agents/node-b/events", cursor, lease_b,
		      "offer offer_gone region region_gone ");
	assert_string_equal(api_text(&a, "events", "1", "from", NULL), "node-a");
	assert_int_equal(api_number(&a, "events", "1", "connection_epoch", NULL), 1);
	api_close(&session);
	api_close(&lines);
	api_answer_fini(&a);
}

/* It is soon answered, but not before it is known where events are. */
static void poll__of_a_server_that_shuts_down_has_a_cursor(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	struct store_cursor at;
	char lease[512];

	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	api_drain(f);
	while (api_do(f, &a, "GET", "/readyz?local=1", NULL, NULL) != 503)
		;
	assert_int_equal(api_do(f, &a, "GET", "/v1/events?scope=demo&wait_ms=30000", NULL, NULL),
			 200);
	assert_true(model_parse_cursor(api_text(&a, "cursor", NULL), &at));
	assert_true(at.epoch && at.id);
	api_answer_fini(&a);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, api_setup, api_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(poll__waits_for_the_next_event),
		TEST(list__of_the_last_events_is_in_their_order),
		TEST(lines__carry_events_and_beats),
		TEST(lines__of_a_head_request_are_a_head_and_the_end),
		TEST(lines__of_a_client_that_went_meanwhile_end_at_once),
		TEST(offer__is_told_to_its_agent_alone),
		cmocka_unit_test_setup_teardown(poll__of_a_server_that_shuts_down_has_a_cursor,
						api_setup_long_drain, api_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
