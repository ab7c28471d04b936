/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each allocation of the client fails in turn, those of its JSON too: a call says so or is tried
 * again, the session comes back, and nothing is left behind.
 */
#include <errno.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <event2/event.h>
#include <tests/support/fail_alloc.h>

#include "client/fake.h"
#include "nanoctrl/client/nanoctrl_client.h"

#define GRANT                                                                                  \
	"{\"lease\":\"a/1/s\",\"epoch\":5,\"generation\":7,\"ttl_ms\":15000,\"beat_ms\":5000," \
	"\"grace_ms\":2000}"
#define REGION                                                                                 \
	"{\"region\":{\"agent\":\"b\",\"name\":\"kv\",\"generation\":1,\"incarnation\":\"i\"," \
	"\"revision\":1,\"size\":4,\"access\":[\"read\"],\"allow\":[\"x=y\"],"                 \
	"\"attributes\":{\"a\":\"b\"},\"descriptor\":\"AP8B\"}}"

static struct {
	struct event_base *base;
	struct fake fake;
	struct nc_client *client;
	bool done;
	int err;
	int n_events;
} t;

static void on_request(void *arg, struct fake_conn *conn, const char *text)
{
	(void)arg;
	if (strstr(text, "/session")) {
		fake_upgrade(conn, text);
		fake_text(conn, "{\"type\":\"hello\",\"cursor\":\"5:1\",\"beat_ms\":5000}");
		fake_text(
			conn,
			"{\"type\":\"left\",\"cursor\":\"5:2\",\"agent\":\"b\",\"generation\":1}");
	} else if (strstr(text, "GET ")) {
		fake_reply(conn, 200, "", REGION);
	} else if (strstr(text, "DELETE ")) {
		fake_reply(conn, 404, "", "{\"code\":\"not_found\",\"message\":\"gone\"}");
	} else {
		fake_reply(conn, 201, "", GRANT);
	}
}

static void on_message(void *arg, struct fake_conn *conn, const char *text)
{
	(void)arg;
	(void)conn;
	(void)text;
}

static void note(const struct nc_error *error)
{
	t.done = true;
	t.err = error ? error->err : 0;
}

static void on_grant(void *arg, const struct nc_error *error, const struct nc_grant *grant)
{
	(void)arg;
	(void)grant;
	note(error);
}

static void on_region(void *arg, const struct nc_error *error, const struct nc_region *region)
{
	(void)arg;
	(void)region;
	note(error);
}

static void on_done(void *arg, const struct nc_error *error)
{
	(void)arg;
	note(error);
}

static void on_event(void *arg, const struct nc_event *event)
{
	(void)arg;
	(void)event;
	t.n_events++;
}

static void on_reset(void *arg)
{
	(void)arg;
	fail();
}

static void on_ended(void *arg, enum nc_session_end why, const struct nc_error *error)
{
	(void)arg;
	(void)why;
	(void)error;
	fail();
}

static const struct nc_session_ops ops = { NULL, NULL, on_event, on_reset, on_ended };

static int await(int ret)
{
	if (ret)
		return ret;
	t.done = false;
	while (!t.done)
		event_base_loop(t.base, EVLOOP_ONCE);
	return t.err;
}

static int talk(void)
{
	const struct nc_pair labels[] = { { "role", "x" } };
	const struct nc_registration r = {
		.name = "a", .incarnation = "i", .owner_key = "00", .labels = { labels, 1 }
	};
	const struct nc_region region = {
		.name = "kv", .revision = 1, .size = 4, .descriptor = "abcd", .descriptor_len = 4
	};
	int ret = await(nc_register(t.client, &r, on_grant, NULL));

	if (!ret)
		ret = await(nc_publish(t.client, &region, on_done, NULL));
	if (!ret)
		ret = await(nc_get_region(t.client, "b", "kv", on_region, NULL));
	if (!ret)
		ret = nc_session_open(t.client, &ops, NULL);
	while (!ret && !t.n_events)
		event_base_loop(t.base, EVLOOP_ONCE);
	return ret ? ret : await(nc_leave(t.client, on_done, NULL));
}

static int scenario(void)
{
	struct nc_client_attr attr = NC_CLIENT_ATTR_INIT;
	const char *url = t.fake.url;
	int ret;

	attr.base = t.base;
	attr.urls = &url;
	attr.n_urls = 1;
	attr.token = "token";
	t.n_events = 0;
	ret = nc_client_create(&t.client, &attr);
	if (ret)
		return ret;
	ret = talk();
	nc_client_destroy(t.client);
	return ret;
}

static void client__without_memory_says_so_or_tries_again(void **state)
{
	long n = 1;

	(void)state;
	t.base = event_base_new();
	fake_start(&t.fake, t.base, on_request, on_message, NULL);
	for (;; n++) {
		bool happened;
		int ret;

		fail_alloc_at(n);
		ret = scenario();
		happened = fail_alloc_end(); /* what runs at exit may allocate, too */
		if (!happened)
			break;
		/* -ENOENT is what the whole scenario ends with. */
		assert_true(ret == -ENOENT || ret == -ENOMEM || ret == -EINVAL || ret == -EIO ||
			    ret == -EPROTO);
	}
	assert_true(n > 50);
	fake_stop(&t.fake);
	event_base_free(t.base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(client__without_memory_says_so_or_tries_again),
	};

	json_set_alloc_funcs(fail_alloc_malloc, fail_alloc_free);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
