/* SPDX-License-Identifier: Apache-2.0 */
#include "client/stage.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define GRANT                                                                                        \
	"{\"status\":\"ok\",\"lease\":\"a/1/secret\",\"epoch\":5,\"generation\":7,\"ttl_ms\":15000," \
	"\"beat_ms\":5000,\"grace_ms\":2000,\"resumed\":true,\"more\":[1]}"
#define AGENT                                                                                          \
	"{\"name\":\"b\",\"epoch\":5,\"generation\":9,\"incarnation\":\"i\",\"address\":\"10.0.0.1\"," \
	"\"labels\":{\"role\":\"decode\"},\"attributes\":{\"x\":\"1\",\"n\":2},\"lease_left_ms\":-3,"  \
	"\"session\":true,\"services\":[{\"name\":\"echo\",\"attributes\":{}}]}"

struct stage t;

static void on_request(void *arg, struct fake_conn *conn, const char *text)
{
	(void)arg;
	assert_true(t.n_requests < 16);
	snprintf(t.requests[t.n_requests++], sizeof(t.requests[0]), "%s", text);
	assert_non_null(*t.steps);
	(*t.steps++)(conn, text);
}

int stage_setup(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	t.base = event_base_new();
	fake_start(&t.fake, t.base, on_request, NULL, NULL);
	fake_start(&t.second, t.base, on_request, NULL, NULL);
	return 0;
}

int stage_teardown(void **state)
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
	for (uint64_t end = sl_deadline_ns((int64_t)t.turn_ms); sl_clock_ns() < end;)
		;
	if (!t.n_retries++)
		snprintf(t.failed_url, sizeof(t.failed_url), "%s", url);
}

void begin(step_fn *const *steps, int timeout_ms)
{
	const char *urls[] = { t.fake.url, t.second.url };
	struct nc_client_attr attr = NC_CLIENT_ATTR_INIT;

	attr.base = t.base;
	attr.urls = urls;
	attr.n_urls = 2;
	attr.scope = "demo";
	attr.token = "tok.en";
	attr.timeout_ms = timeout_ms;
	attr.impatient = t.impatient;
	attr.on_retry = on_retry;
	attr.arg = &t;
	t.steps = steps;
	assert_int_equal(nc_client_create(&t.client, &attr), 0);
}

void await(int n_done)
{
	while (t.n_done < n_done)
		assert_int_equal(event_base_loop(t.base, EVLOOP_ONCE), 0);
}

void note(const struct nc_error *error)
{
	t.n_done++;
	t.failed = error != NULL;
	if (error)
		t.error = *error;
}

void on_done(void *arg, const struct nc_error *error)
{
	(void)arg;
	note(error);
}

void on_grant(void *arg, const struct nc_error *error, const struct nc_grant *grant)
{
	(void)arg;
	note(error);
	if (grant)
		t.number = grant->generation;
}

void on_agent(void *arg, const struct nc_error *error, const struct nc_agent *agent)
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

void reply_ok(struct fake_conn *conn, const char *request)
{
	(void)request;
	fake_reply(conn, 200, "", "{\"status\":\"ok\"}");
}

void reply_beat(struct fake_conn *conn, const char *request)
{
	(void)request;
	fake_reply(conn, 200, "", "{\"status\":\"ok\",\"epoch\":5,\"ttl_ms\":15000}");
}

void reply_grant(struct fake_conn *conn, const char *request)
{
	(void)request;
	fake_reply(conn, 201, "", GRANT);
}

void reply_agent(struct fake_conn *conn, const char *request)
{
	(void)request;
	fake_reply(conn, 200, "", "{\"status\":\"ok\",\"agent\":" AGENT "}");
}

static const struct nc_pair labels[] = { { "role", "prefill" } };

static struct nc_registration registration(void)
{
	return (struct nc_registration){
		.name = "a", .incarnation = "inc", .owner_key = "00ff", .labels = { labels, 1 }
	};
}

void do_register(int n)
{
	struct nc_registration r = registration();

	assert_int_equal(nc_register(t.client, &r, on_grant, NULL), 0);
	await(n);
	assert_false(t.failed);
}
