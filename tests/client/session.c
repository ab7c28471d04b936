/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <event2/bufferevent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "client/steps.h"
#include "nanoctrl/client/nanoctrl_client.h"
#include "nanoctrl/net/ws_frame.h"
#include "support/log_lines.h"

#define GRANT                                                                                       \
	"{\"lease\":\"a/1/secret\",\"epoch\":5,\"generation\":7,\"ttl_ms\":15000,\"beat_ms\":5000," \
	"\"grace_ms\":400}"
#define HELLO "{\"type\":\"hello\",\"epoch\":5,\"generation\":7,\"cursor\":\"5:1\",\"beat_ms\":100}"
#define OFFER                                                                                         \
	"{\"type\":\"offer\",\"cursor\":\"5:2\",\"from\":\"b\",\"to\":\"a\",\"profile\":\"default\"," \
	"\"generation\":9,\"connection_epoch\":3}"
#define REGION                                                                                        \
	"{\"type\":\"region\",\"cursor\":\"5:3\",\"agent\":\"b\",\"generation\":9,\"region\":\"kv\"," \
	"\"revision\":4,\"new\":true}"

static struct {
	struct event_base *base;
	struct fake fake;
	struct nc_client *client;
	step_fn *const *steps;	/* what the server does with the next upgrade */
	struct fake_conn *conn; /* the last that was upgraded */
	char upgrade[4096];
	int n_upgrades;
	char message[4096]; /* the last from the client */
	int n_messages;
	char log[512]; /* what the callbacks said, one letter or word each */
	struct nc_event event;
	char agent[64], region[64], profile[64];
	bool close_on_event;
	int n_retries;
	uint64_t wait_ms[16]; /* that was told of each */
	int n_publications;   /* that came */
} t;

static void on_request(void *arg, struct fake_conn *conn, const char *text)
{
	(void)arg;
	if (strstr(text, "/regions/")) {
		t.n_publications++;
		assert_non_null(strstr(text, "Slime-Lease: a/1/secret\r\n"));
		fake_reply(conn, 503, "", "{\"code\":\"unavailable\"}");
		return;
	}
	if (!strstr(text, "/session")) {
		fake_reply(conn, 200, "", GRANT);
		return;
	}
	snprintf(t.upgrade, sizeof(t.upgrade), "%s", text);
	t.n_upgrades++;
	t.conn = conn;
	assert_non_null(*t.steps);
	(*t.steps++)(conn, text);
}

static void on_message(void *arg, struct fake_conn *conn, const char *text)
{
	(void)arg;
	(void)conn;
	snprintf(t.message, sizeof(t.message), "%s", text);
	t.n_messages++;
}

static void say(const char *word)
{
	size_t n = strlen(t.log);

	snprintf(t.log + n, sizeof(t.log) - n, "%s%s", n ? " " : "", word);
}

static void on_up(void *arg)
{
	(void)arg;
	say("up");
}

static void on_down(void *arg, const char *cause)
{
	(void)arg;
	assert_non_null(cause);
	say("down");
}

static void on_event(void *arg, const struct nc_event *event)
{
	(void)arg;
	say("event");
	t.event = *event;
	snprintf(t.agent, sizeof(t.agent), "%s", event->agent);
	snprintf(t.region, sizeof(t.region), "%s", event->region);
	snprintf(t.profile, sizeof(t.profile), "%s", event->profile);
	if (t.close_on_event)
		nc_session_close(t.client);
}

static void on_reset(void *arg)
{
	(void)arg;
	say("reset");
}

static void on_ended(void *arg, enum nc_session_end why, const struct nc_error *error)
{
	static const char *const words[] = { "resync", "superseded", "replaced", "refused" };

	(void)arg;
	assert_int_equal(error != NULL, why == NC_SESSION_REFUSED);
	say(words[why]);
}

static const struct nc_session_ops ops = { on_up, on_down, on_event, on_reset, on_ended };

static void on_retry(void *arg, const char *url, const char *cause, uint64_t wait_ms)
{
	(void)arg;
	assert_string_equal(url, t.fake.url);
	assert_true(cause[0] && t.n_retries < 16);
	t.wait_ms[t.n_retries++] = wait_ms;
}

static void on_grant(void *arg, const struct nc_error *error, const struct nc_grant *grant)
{
	(void)grant;
	assert_null(error);
	*(bool *)arg = true;
}

static void spin_until_log(const char *log)
{
	while (!strstr(t.log, log))
		assert_int_equal(event_base_loop(t.base, EVLOOP_ONCE), 0);
}

static void spin_until_messages(int n)
{
	while (t.n_messages < n)
		assert_int_equal(event_base_loop(t.base, EVLOOP_ONCE), 0);
}

static void spin_until_upgrades(int n)
{
	while (t.n_upgrades < n)
		assert_int_equal(event_base_loop(t.base, EVLOOP_ONCE), 0);
}

static int setup(void **state)
{
	struct nc_client_attr attr = NC_CLIENT_ATTR_INIT;
	const struct nc_registration r = { .name = "a", .incarnation = "i", .owner_key = "00" };
	const char *url;
	bool done = false;

	(void)state;
	memset(&t, 0, sizeof(t));
	t.base = event_base_new();
	fake_start(&t.fake, t.base, on_request, on_message, NULL);
	url = t.fake.url;
	attr.base = t.base;
	attr.urls = &url;
	attr.n_urls = 1;
	attr.on_retry = on_retry;
	assert_int_equal(nc_client_create(&t.client, &attr), 0);
	assert_int_equal(nc_register(t.client, &r, on_grant, &done), 0);
	while (!done)
		event_base_loop(t.base, EVLOOP_ONCE);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	nc_client_destroy(t.client);
	fake_stop(&t.fake);
	event_base_free(t.base);
	return 0;
}

static void begin(step_fn *const *steps)
{
	t.steps = steps;
	assert_int_equal(nc_session_open(t.client, &ops, NULL), 0);
}

static void hello(struct fake_conn *conn, const char *request)
{
	fake_upgrade(conn, request);
	fake_text(conn, HELLO);
}

static void hello_and_events(struct fake_conn *conn, const char *request)
{
	hello(conn, request);
	fake_text(conn, OFFER);
	fake_text(conn, "{\"type\":\"from-the-future\"}");
	fake_text(conn, "{\"type\":\"beat\",\"lease_left_ms\":1}");
	fake_text(conn, REGION);
}

static void hello_then_close(struct fake_conn *conn, const char *request)
{
	hello(conn, request);
	fake_text(conn, OFFER);
	fake_close(conn);
}

static void open__says_hello_and_proves_its_lease(void **state)
{
	(void)state;
	begin(script(hello));
	assert_false(nc_session_is_up(t.client));
	assert_int_equal(nc_session_open(t.client, &ops, NULL), -EBUSY);
	spin_until_log("up");
	assert_true(nc_session_is_up(t.client));
	assert_non_null(
		strstr(t.upgrade, "GET /v1/agents/a/session?scope=default&order=1 HTTP/1.1\r\n"));
	assert_non_null(strstr(t.upgrade, "Slime-Lease: a/1/secret\r\n"));
	assert_non_null(strstr(t.upgrade, "Sec-WebSocket-Version: 13\r\n"));
}

static void open__leaves_one_connection(void **state)
{
	(void)state;
	assert_int_equal(t.fake.n_open, 1); /* of the registration */
	begin(script(hello));
	spin_until_log("up");
	assert_int_equal(t.fake.n_connections, 2);
	while (t.fake.n_open != 1)
		assert_int_equal(event_base_loop(t.base, EVLOOP_ONCE), 0);
	assert_true(nc_session_is_up(t.client));
}

static void events__come_in_order_and_are_acknowledged_by_the_beat(void **state)
{
	(void)state;
	begin(script(hello_and_events));
	spin_until_log("up event event");
	assert_int_equal(t.event.type, NC_EVENT_REGION);
	assert_string_equal(t.agent, "b");
	assert_string_equal(t.region, "kv");
	assert_int_equal(t.event.revision, 4);
	assert_int_equal(t.event.epoch, 5);
	assert_int_equal(t.event.generation, 9);
	spin_until_messages(1);
	assert_string_equal(t.message, "{\"type\":\"beat\",\"cursor\":\"5:3\"}");
	spin_until_messages(2);
}

static void session__comes_back_behind_the_last_event(void **state)
{
	(void)state;
	begin(script(hello_then_close, hello));
	spin_until_log("up event down up");
	assert_string_equal(t.profile, "default");
	assert_int_equal(t.event.connection_epoch, 3);
	assert_non_null(strstr(t.upgrade, "/session?scope=default&cursor=5%3A2&order=2 HTTP"));
}

static void bad_accept(struct fake_conn *conn, const char *request)
{
	static const char text[] = "HTTP/1.1 101 X\r\nUpgrade: websocket\r\n"
				   "Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n";

	(void)request;
	fake_send(conn, text, strlen(text));
}

static void garbage(struct fake_conn *conn, const char *request)
{
	hello(conn, request);
	fake_send(conn, "\xff\xff\xff\xff", 4);
}

static void no_hello(struct fake_conn *conn, const char *request)
{
	fake_upgrade(conn, request);
	fake_text(conn, OFFER);
}

static void no_json(struct fake_conn *conn, const char *request)
{
	hello(conn, request);
	fake_text(conn, "[");
}

static void session__connects_again_whatever_goes_wrong(void **state)
{
	(void)state;
	begin(script(abort_it, reply_late, reply_busy, bad_accept, no_hello, garbage, no_json,
		     hello));
	spin_until_upgrades(8);
	spin_until_log("up down up down up");
	assert_string_equal(t.log, "up down up down up");
}

/* Each wait is half to all of twice the last, up to half of the grace of 400 ms. */
static void session__that_dies_at_its_beginning_each_time_waits_longer(void **state)
{
	(void)state;
	begin(script(hello_then_close, hello_then_close, hello_then_close, hello_then_close,
		     hello_then_close, hello));
	spin_until_upgrades(6);
	assert_int_equal(t.n_retries, 5);
	assert_true(t.wait_ms[0] <= 50);
	for (int i = 2; i < 5; i++)
		assert_true(t.wait_ms[i] >= 100 && t.wait_ms[i] <= 200);
}

static void refuse_beat(void *arg, struct fake_conn *conn, const char *text)
{
	on_message(arg, conn, text);
	fake_text(conn, "{\"type\":\"error\",\"code\":\"unavailable\",\"message\":\"not taken\"}");
}

static void beats__that_are_refused_are_in_the_log_once(void **state)
{
	(void)state;
	t.fake.message = refuse_beat;
	log_lines_keep();
	begin(script(hello));
	spin_until_messages(4);
	assert_int_equal(log_lines_with("the server says: not taken"), 1);
	log_lines_release();
}

static void beat_then_close(struct fake_conn *conn, const char *request)
{
	hello(conn, request);
	fake_text(conn, "{\"type\":\"beat\",\"lease_left_ms\":1}");
	fake_close(conn);
}

static void session__that_stood_is_had_again_at_once(void **state)
{
	(void)state;
	begin(script(hello_then_close, hello_then_close, hello_then_close, beat_then_close, hello));
	spin_until_upgrades(5);
	assert_true(t.wait_ms[2] >= 100);
	assert_true(t.wait_ms[3] <= 50);
}

/* How long the last connection that was told so waits for a word of the server. */
static int64_t silence_ms;

int __real_bufferevent_set_timeouts(struct bufferevent *bev, const struct timeval *read,
				    const struct timeval *write);
__attribute__((visibility("default"))) int
__wrap_bufferevent_set_timeouts(struct bufferevent *bev, const struct timeval *read,
				const struct timeval *write);
int __wrap_bufferevent_set_timeouts(struct bufferevent *bev, const struct timeval *read,
				    const struct timeval *write)
{
	if (read)
		silence_ms = (int64_t)read->tv_sec * 1000 + read->tv_usec / 1000;
	return __real_bufferevent_set_timeouts(bev, read, write);
}

static const char *hello_says;

static void hello_with(struct fake_conn *conn, const char *request)
{
	char text[256];

	snprintf(text, sizeof(text), "{\"type\":\"hello\",\"cursor\":\"5:1\",%s}", hello_says);
	fake_upgrade(conn, request);
	fake_text(conn, text);
}

static void silence__means_a_dead_server_before_the_lease_ends(void **state)
{
	static const struct {
		const char *says;
		int64_t ms;
	} rows[] = {
		{ "\"beat_ms\":5000,\"ttl_ms\":15000,\"tick_ms\":5000", 10000 },
		{ "\"beat_ms\":7500,\"ttl_ms\":15000,\"tick_ms\":5000", 11250 },
		/* beats are rare: the server's own lines tell */
		{ "\"beat_ms\":1200000,\"ttl_ms\":3600000,\"tick_ms\":5000", 15000 },
		{ "\"beat_ms\":20000,\"ttl_ms\":60000,\"tick_ms\":60000", 40000 },
		/* never shorter than what a busy machine takes for an answer */
		{ "\"beat_ms\":100,\"ttl_ms\":300,\"tick_ms\":10", 1000 },
		/* of an older server */
		{ "\"beat_ms\":5000,\"ttl_ms\":60000", 15000 },
		{ "\"beat_ms\":5000", 15000 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		hello_says = rows[i].says;
		begin(script(hello_with));
		spin_until_log("up");
		assert_int_equal(silence_ms, rows[i].ms);
		teardown(state);
		setup(state);
	}
}

static void ping(struct fake_conn *conn, const char *request)
{
	hello(conn, request);
	fake_frame(conn, WS_PING, "x", 1);
}

static void ping__is_answered(void **state)
{
	(void)state;
	begin(script(ping));
	spin_until_messages(1);
	assert_string_equal(t.message, "pong");
}

static void say_reset(struct fake_conn *conn, const char *request)
{
	hello(conn, request);
	fake_text(conn, "{\"type\":\"reset\",\"cursor\":\"6:40\"}");
}

static void reset__is_told_and_its_cursor_counts(void **state)
{
	(void)state;
	begin(script(say_reset));
	spin_until_log("reset");
	spin_until_messages(1);
	assert_string_equal(t.message, "{\"type\":\"beat\",\"cursor\":\"6:40\"}");
}

static void say_resync(struct fake_conn *conn, const char *request)
{
	hello(conn, request);
	fake_text(conn, "{\"type\":\"resync\",\"cause\":\"epoch\",\"spread_ms\":20}");
}

static void say_superseded(struct fake_conn *conn, const char *request)
{
	hello(conn, request);
	fake_text(conn, "{\"type\":\"superseded\"}");
}

static void close_superseded(struct fake_conn *conn, const char *request)
{
	hello(conn, request);
	fake_frame(conn, WS_CLOSE, "\x0f\xa2", 2);
}

static void say_replaced(struct fake_conn *conn, const char *request)
{
	hello(conn, request);
	fake_text(conn, "{\"type\":\"goaway\",\"reason\":\"replaced\"}");
}

static void reply_gone(struct fake_conn *conn, const char *request)
{
	(void)request;
	fake_reply(conn, 410, "", "{\"code\":\"lease_gone\"}");
}

static void reply_superseded(struct fake_conn *conn, const char *request)
{
	(void)request;
	fake_reply(conn, 409, "", "{\"code\":\"superseded\"}");
}

static void reply_forbidden(struct fake_conn *conn, const char *request)
{
	(void)request;
	fake_reply(conn, 403, "", "{\"code\":\"forbidden\"}");
}

static void session__ends_for_good_reasons(void **state)
{
	static const struct {
		step_fn *step;
		const char *log;
	} rows[] = {
		{ say_resync, "up down resync" },
		{ say_superseded, "up superseded" },
		{ close_superseded, "up superseded" },
		{ say_replaced, "up replaced" },
		{ reply_gone, "resync" },
		{ reply_superseded, "superseded" },
		{ reply_forbidden, "refused" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		begin(script(rows[i].step));
		spin_until_log(strrchr(rows[i].log, ' ') ? strrchr(rows[i].log, ' ') + 1
							 : rows[i].log);
		assert_string_equal(t.log, rows[i].log);
		assert_false(nc_session_is_up(t.client));
		teardown(state);
		setup(state);
	}
}

static void resync__takes_the_lease_away(void **state)
{
	(void)state;
	begin(script(say_resync));
	spin_until_log("resync");
	assert_int_equal(nc_session_open(t.client, &ops, NULL), -ENOKEY);
}

static void on_published(void *arg, const struct nc_error *error)
{
	assert_non_null(error);
	*(int *)arg = error->err;
}

/* The next registration publishes again, and better than an old call could. */
static void call__whose_lease_is_over_is_not_repeated(void **state)
{
	const struct nc_region region = { .name = "kv",
					  .revision = 1,
					  .size = 1,
					  .access = NC_READ,
					  .descriptor = "x",
					  .descriptor_len = 1 };
	int published = 0;

	(void)state;
	begin(script(hello));
	spin_until_log("up");
	assert_int_equal(nc_publish(t.client, &region, on_published, &published), 0);
	while (!t.n_publications)
		assert_int_equal(event_base_loop(t.base, EVLOOP_ONCE), 0);
	fake_text(t.conn, "{\"type\":\"resync\",\"cause\":\"epoch\",\"spread_ms\":0}");
	while (!published)
		assert_int_equal(event_base_loop(t.base, EVLOOP_ONCE), 0);
	assert_int_equal(published, -EKEYEXPIRED);
	spin_until_log("resync");
}

static void say_goaway(struct fake_conn *conn, const char *request)
{
	hello(conn, request);
	fake_text(conn, "{\"type\":\"goaway\",\"reason\":\"age\",\"spread_ms\":10}");
}

static void goaway__is_followed_by_a_new_connection(void **state)
{
	(void)state;
	begin(script(say_goaway, hello));
	spin_until_log("up down up");
}

/* The lease is proved at the other server, and events go on behind the last one. */
static void set_urls__moves_the_session_to_the_other_server(void **state)
{
	const char *const none[] = { "ftp://x" };
	const char *to[1];
	struct fake other;

	(void)state;
	fake_start(&other, t.base, on_request, on_message, NULL);
	to[0] = other.url;
	begin(script(hello, hello));
	spin_until_log("up");
	assert_int_equal(nc_client_set_urls(t.client, none, 1), -EPROTONOSUPPORT);
	assert_int_equal(nc_client_set_urls(t.client, none, 0), -EINVAL);
	assert_int_equal(nc_client_set_urls(t.client, to, 1), 0);
	spin_until_log("up down up");
	assert_string_equal(nc_client_url(t.client), other.url);
	assert_non_null(strstr(t.upgrade, "Slime-Lease: a/1/secret\r\n"));
	/* Nothing is moved where nothing is another one. */
	assert_int_equal(nc_client_set_urls(t.client, to, 1), 0);
	event_base_loop(t.base, EVLOOP_NONBLOCK);
	assert_true(nc_session_is_up(t.client));
	assert_int_equal(t.n_upgrades, 2);
	fake_stop(&other);
}

static void close__from_inside_an_event_ends_it_there(void **state)
{
	(void)state;
	t.close_on_event = true;
	begin(script(hello_and_events));
	spin_until_log("event");
	event_base_loop(t.base, EVLOOP_NONBLOCK);
	assert_string_equal(t.log, "up event");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(open__says_hello_and_proves_its_lease),
		T(open__leaves_one_connection),
		T(events__come_in_order_and_are_acknowledged_by_the_beat),
		T(beats__that_are_refused_are_in_the_log_once),
		T(session__comes_back_behind_the_last_event),
		T(session__connects_again_whatever_goes_wrong),
		T(session__that_dies_at_its_beginning_each_time_waits_longer),
		T(session__that_stood_is_had_again_at_once),
		T(silence__means_a_dead_server_before_the_lease_ends),
		T(ping__is_answered),
		T(reset__is_told_and_its_cursor_counts),
		T(session__ends_for_good_reasons),
		T(resync__takes_the_lease_away),
		T(call__whose_lease_is_over_is_not_repeated),
		T(goaway__is_followed_by_a_new_connection),
		T(set_urls__moves_the_session_to_the_other_server),
		T(close__from_inside_an_event_ends_it_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
