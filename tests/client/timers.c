/* SPDX-License-Identifier: Apache-2.0 */
/* Each timer that the client sets fails in turn: no heartbeat is forgotten for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <base/clock.h>
#include <event2/event.h>

#include "client/fake.h"
#include "nanoctrl/client/nanoctrl_client.h"

#define BEATS	   4
#define GIVE_UP_MS 10000

static struct {
	struct event_base *base;
	struct fake fake;
	struct nc_client *client;
	long fail_at; /* the n-th timer from here on; 0: none */
	bool failed;
	bool registered;
	int n_beats;
} t;

int __real_event_add(struct event *ev, const struct timeval *tv);
int __wrap_event_add(struct event *ev, const struct timeval *tv);

__attribute__((visibility("default"))) int __wrap_event_add(struct event *ev,
							    const struct timeval *tv)
{
	if (tv && t.fail_at && --t.fail_at == 0) {
		t.failed = true;
		event_del(ev); /* as for one that libevent finds no room for */
		return -1;
	}
	return __real_event_add(ev, tv);
}

static void on_request(void *arg, struct fake_conn *conn, const char *text)
{
	(void)arg;
	if (strstr(text, "/session")) {
		fake_upgrade(conn, text);
		fake_text(conn, "{\"type\":\"hello\",\"cursor\":\"5:1\",\"beat_ms\":20}");
	} else {
		fake_reply(conn, 201, "",
			   "{\"lease\":\"a/1/s\",\"epoch\":5,\"generation\":7,\"ttl_ms\":60,"
			   "\"beat_ms\":20,\"grace_ms\":20}");
	}
}

static void on_message(void *arg, struct fake_conn *conn, const char *text)
{
	(void)arg;
	(void)conn;
	t.n_beats += strstr(text, "beat") != NULL;
}

static void on_grant(void *arg, const struct nc_error *error, const struct nc_grant *grant)
{
	(void)arg;
	(void)grant;
	assert_null(error);
	t.registered = true;
}

static void on_event(void *arg, const struct nc_event *event)
{
	(void)arg;
	(void)event;
}

static void on_reset(void *arg)
{
	(void)arg;
}

static void on_ended(void *arg, enum nc_session_end why, const struct nc_error *error)
{
	(void)arg;
	(void)why;
	(void)error;
	fail();
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
}

static void run_until(const bool *done, const int *n_beats)
{
	uint64_t deadline = sl_deadline_ns(GIVE_UP_MS);

	while (!*done || (n_beats && *n_beats < BEATS)) {
		assert_true(sl_clock_ns() < deadline);
		event_base_loop(t.base, EVLOOP_ONCE);
	}
}

/* Whether a timer failed. */
static bool beat_with_failure_at(long n)
{
	static const struct nc_session_ops ops = { NULL, NULL, on_event, on_reset, on_ended };
	const struct nc_registration r = { .name = "a", .incarnation = "i", .owner_key = "00" };
	struct nc_client_attr attr = NC_CLIENT_ATTR_INIT;
	const char *url = t.fake.url;

	attr.base = t.base;
	attr.urls = &url;
	attr.n_urls = 1;
	t.n_beats = 0;
	t.registered = false;
	t.failed = false;
	t.fail_at = n;
	assert_int_equal(nc_client_create(&t.client, &attr), 0);
	assert_int_equal(nc_register(t.client, &r, on_grant, NULL), 0);
	run_until(&t.registered, NULL);
	assert_int_equal(nc_session_open(t.client, &ops, NULL), 0);
	run_until(&t.registered, &t.n_beats);
	t.fail_at = 0;
	nc_client_destroy(t.client);
	return t.failed;
}

static void timer__that_cannot_be_set_costs_no_beat(void **state)
{
	const struct timeval often = { .tv_usec = 20000 };
	struct event *tick;
	long n = 1;

	(void)state;
	t.base = event_base_new();
	tick = event_new(t.base, -1, EV_PERSIST, on_tick, NULL);
	assert_int_equal(__real_event_add(tick, &often), 0);
	fake_start(&t.fake, t.base, on_request, on_message, NULL);
	while (n < 100 && beat_with_failure_at(n))
		n++;
	assert_in_range(n, BEATS, 99);
	fake_stop(&t.fake);
	event_free(tick);
	event_base_free(t.base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(timer__that_cannot_be_set_costs_no_beat),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
