/* SPDX-License-Identifier: Apache-2.0 */
/* What calls send, and what they make of the answers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "client/stage.h"

static void on_page(void *arg, const struct nc_error *error, const struct nc_page *page)
{
	(void)arg;
	note(error);
	if (!page)
		return;
	t.n = page->n;
	snprintf(t.text, sizeof(t.text), "%s", page->next ? page->next : "");
}

static void on_offer(void *arg, const struct nc_error *error, const struct nc_offer *offer)
{
	(void)arg;
	note(error);
	if (!offer)
		return;
	t.n = offer->descriptor_len;
	memcpy(t.bytes, offer->descriptor, offer->descriptor_len);
	t.number = offer->connection_epoch;
}

static void on_region(void *arg, const struct nc_error *error, const struct nc_region *region)
{
	(void)arg;
	note(error);
	if (!region)
		return;
	t.number = region->size;
	t.n = region->n_allow;
	snprintf(t.text, sizeof(t.text), "%u %d", region->access, region->descriptor != NULL);
}

static void reply_chunked(struct fake_conn *conn, const char *request)
{
	static const char text[] =
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
		"9\r\n{\"agents\"\r\n12;x=y\r\n:[],\"next\":\"zz\"}  \r\n0\r\n\r\n";

	(void)request;
	fake_send(conn, text, strlen(text));
}

static void register__keeps_the_lease_and_sends_what_was_held(void **state)
{
	(void)state;
	begin(script(reply_grant, reply_beat, reply_grant), 60000);
	do_register(1);
	assert_int_equal(t.number, 7);
	assert_non_null(strstr(t.requests[0], "PUT /v1/agents/a?scope=demo&order="));
	assert_non_null(strstr(t.requests[0], "Authorization: Bearer tok.en\r\n"));
	assert_null(strstr(t.requests[0], "Slime-Lease"));
	assert_non_null(strstr(t.requests[0], "\"labels\":{\"role\":\"prefill\"}"));
	assert_null(strstr(t.requests[0], "previous"));

	assert_int_equal(nc_heartbeat(t.client, on_done, NULL), 0);
	await(2);
	assert_non_null(
		strstr(t.requests[1], "POST /v1/agents/a/heartbeat?scope=demo HTTP/1.1\r\n"));
	assert_non_null(strstr(t.requests[1], "Slime-Lease: a/1/secret\r\n"));

	do_register(3);
	assert_non_null(strstr(t.requests[2], "\"previous\":{\"epoch\":5,\"generation\":7}"));
}

static void reply_unavailable(struct fake_conn *conn, const char *request)
{
	(void)request;
	fake_reply(conn, 503, "", "{\"status\":\"error\",\"code\":\"unavailable\"}");
}

#define KNOWN UINT64_C(9007199254740000)

static void reply_stale(struct fake_conn *conn, const char *request)
{
	(void)request;
	fake_reply(conn, 409, "",
		   "{\"status\":\"error\",\"code\":\"stale\",\"order\":9007199254740000}");
}

static uint64_t order_of(size_t i)
{
	const char *at = strstr(t.requests[i], "&order=");

	assert_non_null(at);
	return strtoull(at + strlen("&order="), NULL, 10);
}

/* The one before may be executed after it; and the clock of another process was ahead. */
static void register__is_above_each_attempt_before_and_what_the_server_knows(void **state)
{
	(void)state;
	begin(script(reply_unavailable, reply_stale, reply_grant, reply_grant), 60000);
	do_register(1);
	assert_true(order_of(1) > order_of(0));
	assert_int_equal(order_of(2), KNOWN + 1);
	do_register(2);
	assert_int_equal(order_of(3), KNOWN + 2);
}

static void reply_beat_of_epoch_6(struct fake_conn *conn, const char *request)
{
	(void)request;
	fake_reply(conn, 200, "", "{\"status\":\"ok\",\"epoch\":6,\"ttl_ms\":15000}");
}

static void heartbeat__in_another_epoch_is_of_a_lease_that_has_ended(void **state)
{
	(void)state;
	begin(script(reply_grant, reply_beat, reply_beat_of_epoch_6, reply_ok), 60000);
	do_register(1);
	assert_int_equal(nc_heartbeat(t.client, on_done, NULL), 0);
	await(2);
	assert_false(t.failed);
	assert_int_equal(nc_heartbeat(t.client, on_done, NULL), 0);
	await(3);
	assert_true(t.failed);
	assert_int_equal(t.error.err, -EKEYEXPIRED);
	assert_string_equal(t.error.code, "epoch");
	assert_int_equal(nc_heartbeat(t.client, on_done, NULL), 0);
	await(4);
	assert_int_equal(t.error.err, -EPROTO);
}

static struct fake_conn *held;

static void hold(struct fake_conn *conn, const char *request)
{
	(void)request;
	held = conn;
}

static void reply_grant_of_epoch_6(struct fake_conn *conn, const char *request)
{
	(void)request;
	fake_reply(conn, 201, "",
		   "{\"status\":\"ok\",\"lease\":\"a/2/secret\",\"epoch\":6,\"generation\":8,"
		   "\"ttl_ms\":15000,\"beat_ms\":5000,\"grace_ms\":2000,\"resumed\":false}");
}

static void heartbeat__answered_after_a_new_registration_is_none_of_the_old_one(void **state)
{
	(void)state;
	begin(script(reply_grant, hold, reply_grant_of_epoch_6), 60000);
	do_register(1);
	assert_int_equal(nc_heartbeat(t.client, on_done, NULL), 0);
	do_register(2);
	reply_beat_of_epoch_6(held, NULL);
	await(3);
	assert_false(t.failed);
}

static void calls__without_a_lease_are_refused_here(void **state)
{
	struct nc_link link = { .peer = "b", .profile = "default" };

	(void)state;
	begin(script(NULL), 60000);
	assert_int_equal(nc_heartbeat(t.client, on_done, NULL), -ENOKEY);
	assert_int_equal(nc_report_link(t.client, &link, on_done, NULL), -ENOKEY);
	assert_int_equal(nc_session_open(t.client, NULL, NULL), -ENOKEY);
	assert_int_equal(nc_get_agent(t.client, "..", on_agent, NULL), -EINVAL);
	assert_int_equal(nc_get_agent(t.client, "", on_agent, NULL), -EINVAL);
}

static void get_agent__decodes_what_it_knows(void **state)
{
	(void)state;
	begin(script(reply_agent), 60000);
	assert_int_equal(nc_get_agent(t.client, "b/../c d", on_agent, NULL), 0);
	await(1);
	assert_non_null(strstr(t.requests[0], "GET /v1/agents/b%2F..%2Fc%20d?scope=demo "));
	assert_string_equal(t.text, "b 10.0.0.1 role=decode x=1 echo");
	assert_int_equal(t.number, 9);
	assert_int_equal(t.left, -3);
	assert_int_equal(t.n, 1);
}

static void list_agents__takes_chunks_and_asks_for_the_page(void **state)
{
	(void)state;
	begin(script(reply_chunked), 60000);
	assert_int_equal(nc_list_agents(t.client, "role=decode", "k&l", on_page, NULL), 0);
	await(1);
	assert_false(t.failed);
	assert_int_equal(t.n, 0);
	assert_string_equal(t.text, "zz");
	assert_non_null(strstr(t.requests[0], "&limit=200&selector=role%3Ddecode&after=k%26l "));
}

static void reply_offer(struct fake_conn *conn, const char *request)
{
	(void)request;
	fake_reply(
		conn, 200, "",
		"{\"offer\":{\"from\":\"b\",\"to\":\"a\",\"profile\":\"default\",\"generation\":1,"
		"\"incarnation\":\"i\",\"peer_generation\":2,\"connection_epoch\":3,"
		"\"descriptor\":\"AP8B\"}}");
}

static void reply_region(struct fake_conn *conn, const char *request)
{
	(void)request;
	fake_reply(
		conn, 200, "",
		"{\"region\":{\"agent\":\"b\",\"name\":\"kv\",\"generation\":1,\"incarnation\":\"i\","
		"\"revision\":1,\"size\":4294967296,\"access\":[\"read\",\"write\"],"
		"\"allow\":[\"role=decode\"],\"attributes\":{}}}");
}

static void exchange__carries_bytes_both_ways(void **state)
{
	(void)state;
	begin(script(reply_grant, reply_ok, reply_offer), 60000);
	do_register(1);
	assert_int_equal(nc_post_offer(t.client, "b", "default", 7, "i", "\x00\xff\x01\x02", 4,
				       on_done, NULL),
			 0);
	await(2);
	assert_non_null(strstr(t.requests[1], "PUT /v1/agents/a/exchange/b/default?scope=demo "));
	assert_non_null(strstr(t.requests[1], "{\"connection_epoch\":7,\"peer_incarnation\":\"i\","
					      "\"descriptor\":\"AP8BAg==\"}"));
	assert_int_equal(nc_get_offer(t.client, "b", "default", on_offer, NULL), 0);
	await(3);
	assert_non_null(strstr(t.requests[2], "GET /v1/agents/b/exchange/a/default?scope=demo "));
	assert_int_equal(t.n, 3);
	assert_memory_equal(t.bytes, "\x00\xff\x01", 3);
	assert_int_equal(t.number, 3);
}

static void publish__and_get_region(void **state)
{
	const char *allow[] = { "role=decode" };
	struct nc_region region = { .name = "kv",
				    .revision = 1,
				    .size = 64,
				    .access = NC_READ,
				    .allow = allow,
				    .n_allow = 1,
				    .descriptor = "d",
				    .descriptor_len = 1 };

	(void)state;
	begin(script(reply_grant, reply_ok, reply_region), 60000);
	do_register(1);
	assert_int_equal(nc_publish(t.client, &region, on_done, NULL), 0);
	await(2);
	assert_non_null(strstr(t.requests[1], "{\"revision\":1,\"size\":64,\"access\":[\"read\"],"
					      "\"allow\":[\"role=decode\"],\"attributes\":{},"
					      "\"descriptor\":\"ZA==\"}"));
	assert_int_equal(nc_get_region(t.client, "b", "kv", on_region, NULL), 0);
	await(3);
	assert_int_equal(t.number, 4294967296);
	assert_int_equal(t.n, 1);
	assert_string_equal(t.text, "3 0");
}

static void update__sends_what_changes_only(void **state)
{
	static const struct nc_pair pair = { "role", "decode" };
	static const struct nc_pairs labels = { &pair, 1 };
	struct nc_change change = { .revision = 3, .labels = &labels };

	(void)state;
	begin(script(reply_grant, reply_ok, reply_ok), 60000);
	do_register(1);
	assert_int_equal(nc_update(t.client, &change, on_done, NULL), 0);
	await(2);
	assert_non_null(strstr(t.requests[1], "PATCH /v1/agents/a?scope=demo HTTP/1.1\r\n"));
	assert_non_null(strstr(t.requests[1], "Slime-Lease: a/1/secret\r\n"));
	assert_non_null(
		strstr(t.requests[1], "\r\n{\"revision\":3,\"labels\":{\"role\":\"decode\"}}"));
	change = (struct nc_change){ .revision = 4, .address = "", .no_services = true };
	assert_int_equal(nc_update(t.client, &change, on_done, NULL), 0);
	await(3);
	assert_non_null(
		strstr(t.requests[2], "\r\n{\"revision\":4,\"address\":\"\",\"services\":[]}"));
}

static void on_events(void *arg, const struct nc_error *error, const struct nc_events *events)
{
	(void)arg;
	note(error);
	if (!events)
		return;
	t.n = events->n;
	t.number = events->n ? events->list[0].epoch : 0;
	snprintf(t.text, sizeof(t.text), "%s %d", events->cursor, events->lost);
}

static void reply_events(struct fake_conn *conn, const char *request)
{
	(void)request;
	fake_reply(conn, 200, "",
		   "{\"status\":\"ok\",\"cursor\":\"5:9\",\"reset\":false,\"events\":["
		   "{\"type\":\"of_a_later_release\",\"cursor\":\"5:8\"},"
		   "{\"type\":\"left\",\"cursor\":\"5:9\",\"agent\":\"b\",\"generation\":2}]}");
}

static void reply_no_cursor(struct fake_conn *conn, const char *request)
{
	(void)request;
	fake_reply(conn, 200, "", "{\"status\":\"ok\",\"events\":[]}");
}

static void poll__knows_its_events_and_passes_over_others(void **state)
{
	(void)state;
	begin(script(reply_events, reply_no_cursor), 60000);
	assert_int_equal(nc_poll_events(t.client, "5:7", 100, on_events, NULL), 0);
	await(1);
	assert_non_null(
		strstr(t.requests[0], "GET /v1/events?scope=demo&wait_ms=100&cursor=5%3A7 "));
	assert_int_equal(t.n, 1);
	assert_int_equal(t.number, 5);
	assert_string_equal(t.text, "5:9 0");
	assert_int_equal(nc_poll_events(t.client, "5:9", 100, on_events, NULL), 0);
	await(2);
	assert_int_equal(t.error.err, -EPROTO);
}

/* A silent server is none that waits for an event: each has its wait beside its time. */
static void poll__that_is_not_answered_has_its_wait_and_the_time_of_a_call(void **state)
{
	uint64_t start = sl_clock_ns();

	(void)state;
	begin(script(hold, hold), 200);
	assert_int_equal(nc_poll_events(t.client, "5:7", 300, on_events, NULL), 0);
	await(1);
	assert_int_equal(t.error.err, -ETIMEDOUT);
	assert_true(sl_clock_ns() - start >= 500 * SL_NS_PER_MS);
	assert_int_equal(t.fake.n_connections, 1);
}

static int next_status;
static const char *next_code;

static void reply_status(struct fake_conn *conn, const char *request)
{
	char body[256];

	(void)request;
	snprintf(body, sizeof(body), "{\"code\":\"%s\",\"message\":\"m\",\"field\":\"f\"}",
		 next_code);
	fake_reply(conn, next_status, "", body);
}

static void error__is_the_errno_of_its_status(void **state)
{
	static const struct {
		int status;
		const char *code;
		int err;
	} rows[] = {
		{ 400, "bad_json", -EINVAL },	     { 401, "lease_required", -EACCES },
		{ 403, "forbidden", -EACCES },	     { 404, "not_found", -ENOENT },
		{ 409, "name_taken", -EEXIST },	     { 409, "superseded", -EKEYREVOKED },
		{ 409, "peer_changed", -ESTALE },    { 409, "stale", -ESTALE },
		{ 410, "lease_gone", -EKEYEXPIRED }, { 413, "too_large", -EMSGSIZE },
		{ 422, "bad_type", -EINVAL },	     { 429, "too_many_objects", -EDQUOT },
		{ 500, "internal", -EIO },	     { 302, "", -EPROTO },
	};
	step_fn *steps[sizeof(rows) / sizeof(rows[0]) + 1] = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		steps[i] = reply_status;
	begin(steps, 60000);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		next_status = rows[i].status;
		next_code = rows[i].code;
		assert_int_equal(nc_get_agent(t.client, "b", on_agent, NULL), 0);
		await((int)i + 1);
		assert_true(t.failed);
		assert_int_equal(t.error.err, rows[i].err);
		assert_int_equal(t.error.status, rows[i].status);
		assert_string_equal(t.error.code, rows[i].code);
		assert_string_equal(t.error.field, "f");
		assert_string_equal(t.error.message, "m");
	}
	assert_int_equal(t.fake.n_connections, 1);
}

static void reply_forged(struct fake_conn *conn, const char *request)
{
	(void)request;
	fake_reply(conn, 400, "",
		   "{\"code\":\"bad_json\",\"message\":\"a\\u001b[2J\\u202e\",\"field\":\"\\n\"}");
}

static void error__drives_no_terminal(void **state)
{
	(void)state;
	begin(script(reply_forged), 60000);
	assert_int_equal(nc_get_agent(t.client, "b", on_agent, NULL), 0);
	await(1);
	assert_string_equal(t.error.message, "a?[2J???");
	assert_string_equal(t.error.field, "?");
}

/* What is under way is asked of the other server, once more. */
static void set_urls__repeats_calls_at_the_other_server(void **state)
{
	const char *to[] = { t.second.url };

	(void)state;
	begin(script(say_nothing, reply_agent), 20000);
	assert_int_equal(nc_get_agent(t.client, "b", on_agent, &t), 0);
	while (!t.n_requests)
		event_base_loop(t.base, EVLOOP_ONCE);
	assert_int_equal(nc_client_set_urls(t.client, to, 1), 0);
	await(1);
	assert_false(t.failed);
	assert_int_equal(t.n_requests, 2);
	assert_string_equal(nc_client_url(t.client), t.second.url);
}

static void create__refuses_what_it_cannot_use(void **state)
{
	static const struct {
		const char *url;
		int ret;
	} rows[] = {
		{ "https://x", -EPROTONOSUPPORT },
		{ "localhost:3000", -EINVAL },
		{ "http://", -EINVAL },
		{ "http://x:0", -EINVAL },
		{ "http://x:99999", -EINVAL },
		{ "http://x:1/path", -EINVAL },
		{ "http://a b", -EINVAL },
		{ "http://x\r\nA: b", -EINVAL },
		{ "http://[::1", -EINVAL },
		{ "http://[::1]:3000/", 0 },
		{ "HTTP://x.example", 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct nc_client_attr attr = NC_CLIENT_ATTR_INIT;
		struct nc_client *client = NULL;

		attr.base = t.base;
		attr.urls = &rows[i].url;
		attr.n_urls = 1;
		assert_int_equal(nc_client_create(&client, &attr), rows[i].ret);
		nc_client_destroy(client);
		attr.token = "two words";
		assert_true(nc_client_create(&client, &attr) < 0);
	}
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, stage_setup, stage_teardown)
	const struct CMUnitTest tests[] = {
		T(register__keeps_the_lease_and_sends_what_was_held),
		T(register__is_above_each_attempt_before_and_what_the_server_knows),
		T(heartbeat__in_another_epoch_is_of_a_lease_that_has_ended),
		T(heartbeat__answered_after_a_new_registration_is_none_of_the_old_one),
		T(calls__without_a_lease_are_refused_here),
		T(get_agent__decodes_what_it_knows),
		T(list_agents__takes_chunks_and_asks_for_the_page),
		T(exchange__carries_bytes_both_ways),
		T(publish__and_get_region),
		T(update__sends_what_changes_only),
		T(poll__knows_its_events_and_passes_over_others),
		T(poll__that_is_not_answered_has_its_wait_and_the_time_of_a_call),
		T(error__is_the_errno_of_its_status),
		T(error__drives_no_terminal),
		T(set_urls__repeats_calls_at_the_other_server),
		T(create__refuses_what_it_cannot_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
