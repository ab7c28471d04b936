/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "client/fake.h"
#include "nanoctrl/client/nanoctrl_client.h"

#define GRANT                                                                                        \
	"{\"status\":\"ok\",\"lease\":\"a/1/secret\",\"epoch\":5,\"generation\":7,\"ttl_ms\":15000," \
	"\"beat_ms\":5000,\"grace_ms\":2000,\"resumed\":true,\"more\":[1]}"
#define AGENT                                                                                          \
	"{\"name\":\"b\",\"epoch\":5,\"generation\":9,\"incarnation\":\"i\",\"address\":\"10.0.0.1\"," \
	"\"labels\":{\"role\":\"decode\"},\"attributes\":{\"x\":\"1\",\"n\":2},\"lease_left_ms\":-3,"  \
	"\"session\":true,\"services\":[{\"name\":\"echo\",\"attributes\":{}}]}"

/* One step of a script: what the fake does with the next request. */
typedef void step_fn(struct fake_conn *conn, const char *request);

static struct {
	struct event_base *base;
	struct fake fake, second;
	struct nc_client *client;
	step_fn *const *steps;
	char requests[16][4096]; /* what came */
	int n_requests;
	int n_done; /* calls that called back */
	int n_retries;
	char failed_url[64];
	uint64_t wait_ms; /* that was told last */
	struct nc_error error;
	bool failed;
	char text[256];
	uint64_t number;
	int64_t left;
	size_t n;
	unsigned char bytes[16];
} t;

static void on_request(void *arg, struct fake_conn *conn, const char *text)
{
	(void)arg;
	assert_true(t.n_requests < 16);
	snprintf(t.requests[t.n_requests++], sizeof(t.requests[0]), "%s", text);
	assert_non_null(*t.steps);
	(*t.steps++)(conn, text);
}

static int setup(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	t.base = event_base_new();
	fake_start(&t.fake, t.base, on_request, NULL, NULL);
	fake_start(&t.second, t.base, on_request, NULL, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	nc_client_destroy(t.client);
	fake_stop(&t.fake);
	fake_stop(&t.second);
	event_base_free(t.base);
	return 0;
}

static void on_retry(void *arg, const char *url, const char *cause, uint64_t wait_ms)
{
	assert_ptr_equal(arg, &t);
	assert_true(cause[0]);
	t.wait_ms = wait_ms;
	if (!t.n_retries++)
		snprintf(t.failed_url, sizeof(t.failed_url), "%s", url);
}

static void begin(step_fn *const *steps, int timeout_ms)
{
	const char *urls[] = { t.fake.url, t.second.url };
	struct nc_client_attr attr = NC_CLIENT_ATTR_INIT;

	attr.base = t.base;
	attr.urls = urls;
	attr.n_urls = 2;
	attr.scope = "demo";
	attr.token = "tok.en";
	attr.timeout_ms = timeout_ms;
	attr.on_retry = on_retry;
	attr.arg = &t;
	t.steps = steps;
	assert_int_equal(nc_client_create(&t.client, &attr), 0);
}

#define script(...)               \
	(step_fn *const[])        \
	{                         \
		__VA_ARGS__, NULL \
	}

/* Runs the loop until so many calls called back. */
static void await(int n_done)
{
	while (t.n_done < n_done)
		assert_int_equal(event_base_loop(t.base, EVLOOP_ONCE), 0);
}

static void note(const struct nc_error *error)
{
	t.n_done++;
	t.failed = error != NULL;
	if (error)
		t.error = *error;
}

static void on_done(void *arg, const struct nc_error *error)
{
	(void)arg;
	note(error);
}

static void on_grant(void *arg, const struct nc_error *error, const struct nc_grant *grant)
{
	(void)arg;
	note(error);
	if (grant)
		t.number = grant->generation;
}

static void on_agent(void *arg, const struct nc_error *error, const struct nc_agent *agent)
{
	(void)arg;
	note(error);
	if (!agent)
		return;
	snprintf(t.text, sizeof(t.text), "%s %s %s=%s %s=%s %s", agent->name, agent->address,
		 agent->labels.list[0].key, agent->labels.list[0].value,
		 agent->attributes.list[0].key, agent->attributes.list[0].value,
		 agent->services[0].name);
	t.number = agent->generation;
	t.left = agent->lease_left_ms;
	t.n = agent->attributes.n;
}

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

static void reply_ok(struct fake_conn *conn, const char *request)
{
	(void)request;
	fake_reply(conn, 200, "", "{\"status\":\"ok\"}");
}

static void reply_grant(struct fake_conn *conn, const char *request)
{
	(void)request;
	fake_reply(conn, 201, "", GRANT);
}

static void reply_agent(struct fake_conn *conn, const char *request)
{
	(void)request;
	fake_reply(conn, 200, "", "{\"status\":\"ok\",\"agent\":" AGENT "}");
}

static void reply_chunked(struct fake_conn *conn, const char *request)
{
	static const char text[] =
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
		"9\r\n{\"agents\"\r\n12;x=y\r\n:[],\"next\":\"zz\"}  \r\n0\r\n\r\n";

	(void)request;
	fake_send(conn, text, strlen(text));
}

static void reply_busy(struct fake_conn *conn, const char *request)
{
	(void)request;
	fake_reply(conn, 503, "Retry-After: 1\r\n",
		   "{\"code\":\"unavailable\",\"message\":\"no redis\"}");
}

static void reply_busy_for_long(struct fake_conn *conn, const char *request)
{
	(void)request;
	fake_reply(conn, 503, "Retry-After: 60\r\n",
		   "{\"code\":\"unavailable\",\"message\":\"no redis\"}");
}

static void reply_and_close(struct fake_conn *conn, const char *request)
{
	reply_ok(conn, request);
	fake_close(conn);
}

static void abort_it(struct fake_conn *conn, const char *request)
{
	(void)request;
	fake_abort(conn);
}

static void say_nothing(struct fake_conn *conn, const char *request)
{
	(void)conn;
	(void)request;
}

static void reply_garbage(struct fake_conn *conn, const char *request)
{
	(void)request;
	fake_send(conn, "SSH-2.0-x\r\n", 11);
}

static void reply_no_json(struct fake_conn *conn, const char *request)
{
	(void)request;
	fake_reply(conn, 200, "", "[]");
}

static const struct nc_pair labels[] = { { "role", "prefill" } };

static struct nc_registration registration(void)
{
	return (struct nc_registration){
		.name = "a", .incarnation = "inc", .owner_key = "00ff", .labels = { labels, 1 }
	};
}

static void do_register(int n)
{
	struct nc_registration r = registration();

	assert_int_equal(nc_register(t.client, &r, on_grant, NULL), 0);
	await(n);
	assert_false(t.failed);
}

static void register__keeps_the_lease_and_sends_what_was_held(void **state)
{
	(void)state;
	begin(script(reply_grant, reply_ok, reply_grant), 60000);
	do_register(1);
	assert_int_equal(t.number, 7);
	assert_non_null(strstr(t.requests[0], "PUT /v1/agents/a?scope=demo HTTP/1.1\r\n"));
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

static void call__is_repeated_after_a_reset_on_the_next_server(void **state)
{
	(void)state;
	begin(script(abort_it, reply_agent), 60000);
	assert_int_equal(nc_get_agent(t.client, "b", on_agent, NULL), 0);
	await(1);
	assert_false(t.failed);
	assert_int_equal(t.second.n_connections, 1);
	assert_string_equal(nc_client_url(t.client), t.second.url);
	assert_int_equal(t.n_retries, 1);
	assert_string_equal(t.failed_url, t.fake.url);
}

static void call__goes_to_the_next_server_when_one_refuses(void **state)
{
	(void)state;
	begin(script(reply_agent), 60000);
	fake_stop(&t.fake);
	assert_int_equal(nc_get_agent(t.client, "b", on_agent, NULL), 0);
	await(1);
	assert_false(t.failed);
	assert_int_equal(t.second.n_connections, 1);
}

static void call__keeps_retry_after(void **state)
{
	uint64_t start;

	(void)state;
	begin(script(reply_busy, reply_agent), 60000);
	start = sl_clock_ms();
	assert_int_equal(nc_get_agent(t.client, "b", on_agent, NULL), 0);
	await(1);
	assert_false(t.failed);
	assert_true(sl_clock_ms() - start >= 1000);
	assert_true(t.wait_ms >= 1000);
}

static void call__ends_at_its_deadline_with_the_cause(void **state)
{
	(void)state;
	begin(script(reply_busy_for_long), 2000);
	assert_int_equal(nc_get_agent(t.client, "b", on_agent, NULL), 0);
	await(1);
	assert_int_equal(t.error.err, -ETIMEDOUT);
	assert_int_equal(t.error.status, 503);
	assert_string_equal(t.error.message, "no redis");
}

static void call__of_a_silent_server_ends_at_its_deadline(void **state)
{
	(void)state;
	begin(script(say_nothing), 200);
	assert_int_equal(nc_get_agent(t.client, "b", on_agent, NULL), 0);
	await(1);
	assert_int_equal(t.error.err, -ETIMEDOUT);
	assert_int_equal(t.error.status, 0);
	assert_non_null(strstr(t.error.message, "no answer from http://127.0.0.1:"));
}

static void call__on_a_kept_connection_that_was_closed_is_repeated_at_once(void **state)
{
	(void)state;
	begin(script(reply_ok, abort_it, reply_agent), 60000);
	assert_int_equal(nc_get_agent(t.client, "b", on_agent, NULL), 0);
	await(1);
	assert_int_equal(t.error.err, -EPROTO);
	assert_int_equal(nc_get_agent(t.client, "b", on_agent, NULL), 0);
	await(2);
	assert_false(t.failed);
	assert_int_equal(t.fake.n_connections, 2);
	assert_int_equal(t.second.n_connections, 0);
}

static void call__after_a_server_that_closes_opens_another_connection(void **state)
{
	(void)state;
	begin(script(reply_grant, reply_and_close, reply_ok), 60000);
	do_register(1);
	assert_int_equal(nc_heartbeat(t.client, on_done, NULL), 0);
	await(2);
	assert_int_equal(nc_heartbeat(t.client, on_done, NULL), 0);
	await(3);
	assert_false(t.failed);
}

static void call__of_what_is_no_answer_fails_at_once(void **state)
{
	(void)state;
	begin(script(reply_garbage, reply_no_json), 60000);
	assert_int_equal(nc_get_agent(t.client, "b", on_agent, NULL), 0);
	await(1);
	assert_int_equal(t.error.err, -EPROTO);
	assert_int_equal(nc_get_agent(t.client, "b", on_agent, NULL), 0);
	await(2);
	assert_int_equal(t.error.err, -EPROTO);
	assert_string_equal(t.error.message, "the answer is no JSON object");
}

static void calls__beyond_the_bound_are_refused(void **state)
{
	(void)state;
	begin(script(say_nothing, say_nothing, say_nothing, say_nothing), 60000);
	for (int i = 0; i < NC_MAX_CALLS; i++)
		assert_int_equal(nc_get_agent(t.client, "b", on_agent, NULL), 0);
	assert_int_equal(nc_get_agent(t.client, "b", on_agent, NULL), -EAGAIN);
	/* They are given back without callbacks. */
	nc_client_destroy(t.client);
	t.client = NULL;
	assert_int_equal(t.n_done, 0);
}

static void cancel__silences_the_calls_of_one_arg(void **state)
{
	int gone, stays;

	(void)state;
	begin(script(reply_agent, reply_agent), 60000);
	assert_int_equal(nc_get_agent(t.client, "b", on_agent, &gone), 0);
	assert_int_equal(nc_get_agent(t.client, "b", on_agent, &stays), 0);
	nc_cancel(t.client, &gone);
	await(1);
	while (t.n_requests < 2)
		event_base_loop(t.base, EVLOOP_ONCE);
	assert_int_equal(t.n_done, 1);
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
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(register__keeps_the_lease_and_sends_what_was_held),
		T(calls__without_a_lease_are_refused_here),
		T(get_agent__decodes_what_it_knows),
		T(list_agents__takes_chunks_and_asks_for_the_page),
		T(exchange__carries_bytes_both_ways),
		T(publish__and_get_region),
		T(error__is_the_errno_of_its_status),
		T(call__is_repeated_after_a_reset_on_the_next_server),
		T(call__goes_to_the_next_server_when_one_refuses),
		T(call__keeps_retry_after),
		T(call__ends_at_its_deadline_with_the_cause),
		T(call__of_a_silent_server_ends_at_its_deadline),
		T(call__on_a_kept_connection_that_was_closed_is_repeated_at_once),
		T(call__after_a_server_that_closes_opens_another_connection),
		T(call__of_what_is_no_answer_fails_at_once),
		T(calls__beyond_the_bound_are_refused),
		T(cancel__silences_the_calls_of_one_arg),
		T(create__refuses_what_it_cannot_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
