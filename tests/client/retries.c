/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that a server does not answer, or not well: what is tried again, where, and for how long.
 */
#include <errno.h>
#include <event2/bufferevent.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "client/stage.h"

static void reply_busy_for_a_second(struct fake_conn *conn, const char *request)
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

/* As a proxy whose server is away, or that gives up a request. */
static void reply_bad_gateway(struct fake_conn *conn, const char *request)
{
	(void)request;
	fake_reply(conn, 502, "", "<html>bad gateway</html>");
}

static void reply_gateway_timeout(struct fake_conn *conn, const char *request)
{
	(void)request;
	fake_reply(conn, 504, "", "<html>gateway timeout</html>");
}

static void reply_and_close(struct fake_conn *conn, const char *request)
{
	reply_beat(conn, request);
	fake_close(conn);
}

static void stop_first(struct fake_conn *conn, const char *request)
{
	abort_it(conn, request);
	fake_stop(&t.fake);
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

static void call__that_did_not_get_through_is_repeated(void **state)
{
	(void)state;
	begin(script(reply_late, reply_bad_gateway, reply_gateway_timeout, reply_agent), 60000);
	assert_int_equal(nc_get_agent(t.client, "b", on_agent, NULL), 0);
	await(1);
	assert_false(t.failed);
	assert_int_equal(t.n_retries, 3);
	assert_string_equal(nc_client_url(t.client), t.second.url);
}

static void call__that_never_gets_through_ends_with_the_last_status(void **state)
{
	(void)state;
	t.impatient = true;
	begin(script(reply_bad_gateway, reply_gateway_timeout), 60000);
	assert_int_equal(nc_get_agent(t.client, "b", on_agent, NULL), 0);
	await(1);
	assert_int_equal(t.error.err, -ETIMEDOUT);
	assert_int_equal(t.error.status, 504);
	assert_int_equal(t.n_retries, 2);
	assert_int_equal(t.wait_ms, 0);
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
	begin(script(reply_busy_for_a_second, reply_agent), 60000);
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

/* Its timer counts from the turn's beginning, and is early. */
static void call__after_a_long_turn_of_the_loop_is_not_repeated_too_early(void **state)
{
	(void)state;
	t.turn_ms = 100;
	begin(script(reply_busy_for_long), 1000);
	assert_int_equal(nc_get_agent(t.client, "b", on_agent, NULL), 0);
	await(1);
	assert_int_equal(t.error.err, -ETIMEDOUT);
	assert_int_equal(t.n_requests, 1);
}

static void call__of_a_silent_server_ends_at_its_deadline(void **state)
{
	(void)state;
	begin(script(say_nothing, say_nothing), 200);
	assert_int_equal(nc_get_agent(t.client, "b", on_agent, NULL), 0);
	await(1);
	assert_int_equal(t.error.err, -ETIMEDOUT);
	assert_int_equal(t.error.status, 0);
	assert_non_null(strstr(t.error.message, "no answer"));
	assert_non_null(strstr(t.error.message, t.fake.url));
}

static void call__of_a_silent_server_goes_to_the_next_one_in_time(void **state)
{
	(void)state;
	begin(script(say_nothing, reply_agent), 1000);
	assert_int_equal(nc_get_agent(t.client, "b", on_agent, NULL), 0);
	await(1);
	assert_false(t.failed);
	assert_string_equal(t.failed_url, t.fake.url);
	assert_string_equal(nc_client_url(t.client), t.second.url);
	assert_int_equal(t.n_retries, 1);
}

static void call__of_an_impatient_client_ends_when_nobody_is_there(void **state)
{
	(void)state;
	t.impatient = true;
	begin(script(reply_agent), 60000);
	fake_stop(&t.fake);
	fake_stop(&t.second);
	assert_int_equal(nc_get_agent(t.client, "b", on_agent, NULL), 0);
	await(1);
	assert_int_equal(t.error.err, -ETIMEDOUT);
	assert_non_null(strstr(t.error.message, "refused"));
	assert_int_equal(t.n_retries, 2);
	assert_int_equal(t.wait_ms, 0);
}

static void call__of_an_impatient_client_asks_a_busy_server_again(void **state)
{
	(void)state;
	t.impatient = true;
	begin(script(abort_it, reply_busy_for_a_second, reply_agent), 60000);
	assert_int_equal(nc_get_agent(t.client, "b", on_agent, NULL), 0);
	await(1);
	assert_false(t.failed);
}

static void call__of_an_impatient_client_asks_the_busy_server_again_when_one_refuses(void **state)
{
	(void)state;
	t.impatient = true;
	begin(script(reply_busy, reply_agent), 60000);
	fake_stop(&t.second);
	assert_int_equal(nc_get_agent(t.client, "b", on_agent, NULL), 0);
	await(1);
	assert_false(t.failed);
	assert_int_equal(t.n_retries, 2);
}

/* It closes the connection that was kept, and takes no other. */
static void call__of_an_impatient_client_whose_server_goes_away_asks_the_other_one(void **state)
{
	(void)state;
	t.impatient = true;
	begin(script(reply_agent, stop_first, reply_agent), 60000);
	assert_int_equal(nc_get_agent(t.client, "b", on_agent, NULL), 0);
	await(1);
	assert_int_equal(nc_get_agent(t.client, "b", on_agent, NULL), 0);
	await(2);
	assert_false(t.failed);
	assert_int_equal(t.n_retries, 1);
	assert_int_equal(t.second.n_connections, 1);
}

static void note_message(void *arg, const struct nc_error *error, const struct nc_agent *agent)
{
	(void)agent;
	assert_non_null(error);
	snprintf(arg, sizeof(error->message), "%s", error->message);
	note(error);
}

/* Its time is over while it asks the second one: others had all places until they gave up. */
static void call__that_waited_names_the_server_that_it_asked(void **state)
{
	char message[sizeof(t.error.message)] = "";

	(void)state;
	begin(script(say_nothing, say_nothing, say_nothing, say_nothing, say_nothing, say_nothing,
		     say_nothing, say_nothing, say_nothing),
	      400);
	for (int i = 0; i < 4; i++)
		assert_int_equal(nc_get_agent(t.client, "b", on_agent, NULL), 0);
	assert_int_equal(nc_get_agent(t.client, "b", note_message, message), 0);
	await(5);
	assert_non_null(strstr(message, "no answer from "));
	assert_non_null(strstr(message, t.second.url));
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

/* How long an idle connection is kept, in place of twenty seconds; 0: those. */
static int idle_ms;
static int n_shortened; /* how often it was */

int __real_bufferevent_set_timeouts(struct bufferevent *bev, const struct timeval *read,
				    const struct timeval *write);
__attribute__((visibility("default"))) int
__wrap_bufferevent_set_timeouts(struct bufferevent *bev, const struct timeval *read,
				const struct timeval *write);
int __wrap_bufferevent_set_timeouts(struct bufferevent *bev, const struct timeval *read,
				    const struct timeval *write)
{
	const struct timeval idle = { idle_ms / 1000, idle_ms % 1000 * 1000 };
	bool shorten = idle_ms && read && read->tv_sec == 20;

	n_shortened += shorten;
	return __real_bufferevent_set_timeouts(bev, shorten ? &idle : read, write);
}

static int teardown(void **state)
{
	idle_ms = 0;
	return stage_teardown(state);
}

static void answer_now(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	reply_agent(arg, "");
}

static void reply_after_half_of_it(struct fake_conn *conn, const char *request)
{
	const struct timeval half = { idle_ms / 2000, idle_ms / 2 % 1000 * 1000 };

	(void)request;
	assert_int_equal(event_base_once(t.base, -1, EV_TIMEOUT, answer_now, conn, &half), 0);
}

/* The lapse of time is what is tested: 1.5 s and 1 s of it are more than the 2 s. */
static void call__on_a_connection_that_was_idle_has_its_time_from_its_start(void **state)
{
	struct timeval most = { 1, 500000 };

	(void)state;
	idle_ms = 2000;
	n_shortened = 0;
	begin(script(reply_agent, reply_after_half_of_it, reply_agent), 60000);
	assert_int_equal(nc_get_agent(t.client, "b", on_agent, NULL), 0);
	await(1);
	event_base_loopexit(t.base, &most);
	event_base_dispatch(t.base);
	assert_int_equal(nc_get_agent(t.client, "b", on_agent, NULL), 0);
	await(2);
	assert_false(t.failed);
	assert_int_equal(t.n_retries, 0);
	assert_true(n_shortened > 0);
}

static void call__after_a_server_that_closes_opens_another_connection(void **state)
{
	(void)state;
	begin(script(reply_grant, reply_and_close, reply_beat), 60000);
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

static void on_polled(void *arg, const struct nc_error *error, const struct nc_events *events)
{
	(void)arg;
	(void)events;
	note(error);
}

static void reply_events(struct fake_conn *conn, const char *request)
{
	(void)request;
	fake_reply(conn, 200, "", "{\"status\":\"ok\",\"events\":[],\"cursor\":\"5:7\"}");
}

static void poll_for(void *arg)
{
	assert_int_equal(nc_poll_events(t.client, "5:7", 30000, on_polled, arg), 0);
}

static void cancel__of_polls_makes_room_for_others(void **state)
{
	int gone, stays;

	(void)state;
	begin(script(say_nothing, say_nothing, reply_events, reply_events), 60000);
	for (int i = 0; i < NC_MAX_POLLS; i++)
		poll_for(&gone);
	while (t.n_requests < NC_MAX_POLLS)
		event_base_loop(t.base, EVLOOP_ONCE);
	assert_int_equal(nc_poll_events(t.client, "5:7", 30000, on_polled, &stays), -EBUSY);
	nc_cancel(t.client, &gone);
	for (int i = 0; i < NC_MAX_POLLS; i++)
		poll_for(&stays);
	await(NC_MAX_POLLS);
	assert_false(t.failed);
	assert_string_equal(nc_client_url(t.client), t.fake.url);
	/* The server hears that nobody waits for the others. */
	assert_int_equal(t.fake.n_open, NC_MAX_POLLS);
}

static void cancel__of_a_poll_that_waits_for_a_place_ends_it(void **state)
{
	int gone, stays;

	(void)state;
	begin(script(say_nothing, say_nothing, say_nothing, say_nothing), 60000);
	for (int i = 0; i < 4; i++)
		assert_int_equal(nc_get_agent(t.client, "b", on_agent, &stays), 0);
	poll_for(&gone);
	nc_cancel(t.client, &gone);
	for (int i = 0; i < NC_MAX_POLLS; i++)
		poll_for(&stays);
	assert_int_equal(t.n_done, 0);
}

/* The time that the poll had for its answer is none of the connection that is idle then. */
static void poll__leaves_its_connection_the_time_of_an_idle_one(void **state)
{
	struct timeval most = { 10, 0 };
	int arg;

	(void)state;
	idle_ms = 200;
	begin(script(reply_events), 60000);
	poll_for(&arg);
	await(1);
	assert_false(t.failed);
	assert_int_equal(t.fake.n_open, 1);
	event_base_loopexit(t.base, &most);
	while (t.fake.n_open && !event_base_got_exit(t.base))
		event_base_loop(t.base, EVLOOP_ONCE);
	assert_int_equal(t.fake.n_open, 0);
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

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, stage_setup, teardown)
	const struct CMUnitTest tests[] = {
		T(call__is_repeated_after_a_reset_on_the_next_server),
		T(call__that_did_not_get_through_is_repeated),
		T(call__that_never_gets_through_ends_with_the_last_status),
		T(call__goes_to_the_next_server_when_one_refuses),
		T(call__keeps_retry_after),
		T(call__ends_at_its_deadline_with_the_cause),
		T(call__after_a_long_turn_of_the_loop_is_not_repeated_too_early),
		T(call__of_a_silent_server_ends_at_its_deadline),
		T(call__of_a_silent_server_goes_to_the_next_one_in_time),
		T(call__of_an_impatient_client_ends_when_nobody_is_there),
		T(call__of_an_impatient_client_asks_a_busy_server_again),
		T(call__of_an_impatient_client_asks_the_busy_server_again_when_one_refuses),
		T(call__of_an_impatient_client_whose_server_goes_away_asks_the_other_one),
		T(call__that_waited_names_the_server_that_it_asked),
		T(call__on_a_kept_connection_that_was_closed_is_repeated_at_once),
		T(call__on_a_connection_that_was_idle_has_its_time_from_its_start),
		T(call__after_a_server_that_closes_opens_another_connection),
		T(call__of_what_is_no_answer_fails_at_once),
		T(calls__beyond_the_bound_are_refused),
		T(cancel__silences_the_calls_of_one_arg),
		T(cancel__of_polls_makes_room_for_others),
		T(cancel__of_a_poll_that_waits_for_a_place_ends_it),
		T(poll__leaves_its_connection_the_time_of_an_idle_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
