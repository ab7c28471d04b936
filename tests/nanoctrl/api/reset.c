/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of events that are not read, and go on behind a reset. */
#include "tests/nanoctrl/api/fixture.h"

#include <stdio.h>
#include <string.h>
#include "model/model.h"
#include "tests/nanoctrl/api/stream_client.h"

/* Publishes a region under a long name again and again, until the server has dropped a queue. */
static void flood(struct api_fixture *f, const char *name, const char *lease)
{
	struct api_answer a = { .status = 0 };
	char target[700];
	char body[200];

	snprintf(target, sizeof(target), "/v1/agents/%s/regions/%0253d?scope=demo", name, 7);
	for (int i = 1; !api_metric(f, "nanoctrl_stream_resets_total"); i++) {
		assert_true(i < 10000);
		snprintf(
			body, sizeof(body),
			"{\"revision\":%d,\"size\":1,\"access\":[\"read\"],\"descriptor\":\"QUJD\"}",
			i);
		assert_int_equal(api_do(f, &a, "PUT", target, lease, body), i == 1 ? 201 : 200);
	}
	api_answer_fini(&a);
}

/* Reads on behind a reset until node-c has come: nothing that happens after it is lost. */
static void goes_on_behind_a_reset(struct api_fixture *f, struct api_stream *s)
{
	json_t *v = api_next_of(s, "reset");
	struct store_cursor at;
	char lease[512];

	assert_true(model_parse_cursor(json_string_value(json_object_get(v, "cursor")), &at));
	json_decref(v);
	assert_int_equal(api_register(f, "node-c", "i3", OWNER_KEY_A, lease), 201);
	for (bool seen = false; !seen;) {
		struct store_cursor next;

		v = api_next_of(s, "registered");
		assert_true(
			model_parse_cursor(json_string_value(json_object_get(v, "cursor")), &next));
		assert_true(next.epoch == at.epoch && next.id > at.id);
		seen = strcmp(json_string_value(json_object_get(v, "agent")), "node-c") == 0;
		json_decref(v);
	}
}

static void session__that_is_not_read_is_reset(void **state)
{
	struct api_fixture *f = *state;
	static struct api_stream s;
	char lease_a[512];
	char lease_b[512];
	char name[254];

	snprintf(name, sizeof(name), "%0253d", 5);
	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease_a), 201);
	assert_int_equal(api_open_narrow(f, &s, SESSION_A, lease_a, true), 101);
	json_decref(api_next_of(&s, "hello"));
	assert_int_equal(api_register(f, name, "i2", OWNER_KEY_A, lease_b), 201);
	flood(f, name, lease_b);
	goes_on_behind_a_reset(f, &s);
	assert_int_equal(api_metric(f, "nanoctrl_stream_resets_total"), 1);
	api_close(&s);
}

/* Beats alone fill it. What happens while there is no room, not even for the reset, is told of by
 * the reset that is owed. */
static void owes_a_reset(struct api_fixture *f, const char *target, const char *lease,
			 bool websocket)
{
	static struct api_stream s;
	char lease_b[512];

	assert_int_equal(api_open_narrow(f, &s, target, lease, websocket), websocket ? 101 : 200);
	while (!api_metric(f, "nanoctrl_stream_resets_total"))
		;
	assert_int_equal(api_register(f, "node-b", "i2", OWNER_KEY_A, lease_b), 201);
	goes_on_behind_a_reset(f, &s);
	api_close(&s);
}

static void lines__without_room_for_a_reset_owe_it(void **state)
{
	struct api_answer a = { .status = 0 };
	char lease[512], target[100];

	assert_int_equal(api_register(*state, "node-a", "i1", OWNER_KEY_A, lease), 201);
	assert_int_equal(api_do(*state, &a, "GET", "/v1/events?scope=demo&wait_ms=0", NULL, NULL),
			 200);
	snprintf(target, sizeof(target), "/v1/events?scope=demo&cursor=%s",
		 api_text(&a, "cursor", NULL));
	api_answer_fini(&a);
	owes_a_reset(*state, target, NULL, false);
}

static void session__without_room_for_a_reset_owes_it(void **state)
{
	char lease[512];

	assert_int_equal(api_register(*state, "node-a", "i1", OWNER_KEY_A, lease), 201);
	owes_a_reset(*state, SESSION_A, lease, true);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, api_setup, api_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(session__that_is_not_read_is_reset),
		cmocka_unit_test_setup_teardown(lines__without_room_for_a_reset_owe_it,
						api_setup_short_queues, api_teardown),
		cmocka_unit_test_setup_teardown(session__without_room_for_a_reset_owes_it,
						api_setup_short_queues, api_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
