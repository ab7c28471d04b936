/* SPDX-License-Identifier: Apache-2.0 */
/* Replicas behind one name: 127.0.0.2, where nobody is, then 127.0.0.1, and a third one at times.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <event2/dns.h>
#include <event2/dns_struct.h>
#include <event2/listener.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/stage.h"
#include "support/lookups.h"

/* What the host's /etc/hosts would say, */
static const char *hosts;
/* and who its name server is, or NULL. */
static const char *name_server;

__attribute__((visibility("default"))) int
__wrap_evdns_base_resolv_conf_parse(struct evdns_base *base, int flags, const char *path);
int __wrap_evdns_base_resolv_conf_parse(struct evdns_base *base, int flags, const char *path)
{
	char name[] = "/tmp/slime-hosts-XXXXXX";
	int fd = mkstemp(name);

	(void)flags;
	(void)path;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, hosts, strlen(hosts)), (ssize_t)strlen(hosts));
	close(fd);
	assert_int_equal(evdns_base_load_hosts(base, name), 0);
	if (name_server)
		assert_int_equal(evdns_base_nameserver_ip_add(base, name_server), 0);
	return unlink(name);
}

static bool silent; /* it answers nothing */

/* Knows "replicas" only, in letters of any case: the resolver mixes them. */
static void on_question(struct evdns_server_request *request, void *arg)
{
	const unsigned char addresses[] = { 127, 0, 0, 2, 127, 0, 0, 1 };
	int error = 3; /* no such name */

	(void)arg;
	if (silent) {
		assert_int_equal(evdns_server_request_drop(request), 0);
		return;
	}
	for (int i = 0; i < request->nquestions; i++) {
		const struct evdns_server_question *q = request->questions[i];

		if (strcasecmp(q->name, "replicas"))
			continue;
		error = 0;
		if (q->type == EVDNS_TYPE_A)
			assert_int_equal(
				evdns_server_request_add_a_reply(request, q->name, 2, addresses, 0),
				0);
	}
	assert_int_equal(evdns_server_request_respond(request, error), 0);
}

static struct evdns_server_port *serve_names(char *at, size_t room)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
	snprintf(at, room, "127.0.0.1:%d", ntohs(addr.sin_port));
	return evdns_add_server_port_with_base(t.base, fd, 0, on_question, NULL);
}

static void begin_as(const char *name, step_fn *const *steps, int timeout_ms)
{
	struct nc_client_attr attr = NC_CLIENT_ATTR_INIT;
	char url[64];
	const char *urls[] = { url };

	snprintf(url, sizeof(url), "http://%s:%s", name, strrchr(t.fake.url, ':') + 1);
	attr.base = t.base;
	attr.urls = urls;
	attr.n_urls = 1;
	attr.scope = "demo";
	attr.timeout_ms = timeout_ms;
	attr.impatient = t.impatient;
	t.steps = steps;
	assert_int_equal(nc_client_create(&t.client, &attr), 0);
}

static void begin_at(const char *addresses, step_fn *const *steps, int timeout_ms)
{
	hosts = addresses;
	begin_as("replicas", steps, timeout_ms);
}

/* At the first fake's port of another address. */
static void serve_too(const char *address, struct fake *f)
{
	struct sockaddr_storage at;
	char text[64];
	int len = sizeof(at);

	snprintf(text, sizeof(text), "%s:%s", address, strrchr(t.fake.url, ':') + 1);
	assert_int_equal(evutil_parse_sockaddr_port(text, (struct sockaddr *)&at, &len), 0);
	fake_stop(f);
	fake_start_at(f, t.base, (struct sockaddr *)&at, len, t.fake.request, NULL, NULL);
}

static void get_agent(int n)
{
	assert_int_equal(nc_get_agent(t.client, "b", on_agent, NULL), 0);
	await(n);
}

static void call__of_a_name_goes_to_its_next_address_when_the_first_refuses(void **state)
{
	(void)state;
	t.impatient = true;
	begin_at("127.0.0.2 replicas\n127.0.0.1 replicas\n", script(reply_agent, reply_agent),
		 60000);
	get_agent(1);
	assert_false(t.failed);
	assert_int_equal(t.fake.n_connections, 1);
	get_agent(2);
	assert_false(t.failed);
	assert_int_equal(t.fake.n_connections, 1);
}

static void call__of_a_name_goes_on_to_another_address_when_one_is_busy(void **state)
{
	(void)state;
	serve_too("127.0.0.2", &t.second);
	begin_at("127.0.0.2 replicas\n127.0.0.1 replicas\n",
		 script(reply_busy, reply_agent, reply_agent), 60000);
	get_agent(1);
	assert_false(t.failed);
	assert_int_equal(t.second.n_connections, 1);
	assert_int_equal(t.fake.n_connections, 1);
	get_agent(2);
	assert_int_equal(t.second.n_connections, 1);
}

/* Each has its part of the call's time: the silent one is left before the end of it. */
static void call__of_a_name_goes_on_to_another_address_when_one_is_silent(void **state)
{
	uint64_t start = sl_clock_ns();

	(void)state;
	serve_too("127.0.0.2", &t.second);
	t.impatient = true;
	begin_at("127.0.0.2 replicas\n127.0.0.1 replicas\n", script(say_nothing, reply_agent),
		 1000);
	get_agent(1);
	assert_false(t.failed);
	assert_true(sl_clock_ns() - start >= 500 * SL_NS_PER_MS);
	assert_int_equal(t.fake.n_connections, 1);
}

static void call__of_a_name_comes_back_when_its_server_goes_away(void **state)
{
	(void)state;
	serve_too("127.0.0.2", &t.second);
	begin_at("127.0.0.2 replicas\n127.0.0.1 replicas\n", script(reply_agent, reply_agent),
		 60000);
	get_agent(1);
	assert_int_equal(t.second.n_connections, 1);
	fake_stop(&t.second);
	get_agent(2);
	assert_false(t.failed);
	assert_int_equal(t.fake.n_connections, 1);
}

/* Its connection was refused by the first address before this call was there: that is no answer to
 * it. */
static void call__of_a_name_on_a_kept_connection_counts_no_address_of_its_connect(void **state)
{
	(void)state;
	t.impatient = true;
	begin_at("127.0.0.2 replicas\n127.0.0.1 replicas\n",
		 script(reply_agent, say_nothing, reply_agent), 1000);
	get_agent(1);
	assert_int_equal(t.fake.n_connections, 1);
	serve_too("127.0.0.2", &t.second);
	get_agent(2);
	assert_false(t.failed);
	assert_int_equal(t.second.n_connections, 1);
}

static void on_unwanted(void *arg, const struct nc_error *error, const struct nc_events *events)
{
	(void)arg;
	(void)error;
	(void)events;
	fail();
}

/* That nobody waits for its answer any more is no fault of the address. */
static void cancel__of_a_poll_of_a_name_leaves_its_address_in_use(void **state)
{
	int gone;

	(void)state;
	serve_too("127.0.0.2", &t.second);
	begin_at("127.0.0.2 replicas\n127.0.0.1 replicas\n", script(say_nothing, reply_agent),
		 60000);
	assert_int_equal(nc_poll_events(t.client, "5:7", 30000, on_unwanted, &gone), 0);
	while (!t.n_requests)
		event_base_loop(t.base, EVLOOP_ONCE);
	nc_cancel(t.client, &gone);
	get_agent(1);
	assert_false(t.failed);
	assert_int_equal(t.second.n_connections, 2);
	assert_int_equal(t.fake.n_connections, 0);
}

static void call__of_a_name_of_which_nobody_serves_says_so(void **state)
{
	(void)state;
	t.impatient = true;
	begin_at("127.0.0.2 replicas\n127.0.0.3 replicas\n", script(NULL), 60000);
	get_agent(1);
	assert_int_equal(t.error.err, -ETIMEDOUT);
	assert_non_null(strstr(t.error.message, "none of 2 addresses: Connection refused"));
}

static void call__of_a_name_that_is_asked_for_goes_round_its_addresses_in_time(void **state)
{
	char at[32];
	struct evdns_server_port *port = serve_names(at, sizeof(at));

	(void)state;
	serve_too("127.0.0.2", &t.second);
	name_server = at;
	t.impatient = true;
	begin_at("", script(say_nothing, reply_agent), 4000);
	get_agent(1);
	assert_false(t.failed);
	assert_int_equal(t.second.n_connections, 1);
	assert_int_equal(t.fake.n_connections, 1);

	nc_client_destroy(t.client);
	begin_as("nobody", script(NULL), 60000);
	get_agent(2);
	assert_int_equal(t.error.err, -ETIMEDOUT);
	assert_non_null(strstr(t.error.message, "cannot resolve the name"));
	evdns_close_server_port(port);
	name_server = NULL;
}

static void name__of_more_addresses_than_are_looked_at_is_bounded(void **state)
{
	char many[1024] = "";
	size_t len = 0;

	(void)state;
	t.impatient = true;
	for (int i = 2; i < 18; i++)
		len += (size_t)snprintf(many + len, sizeof(many) - len, "127.0.0.%d replicas\n", i);
	snprintf(many + len, sizeof(many) - len, "127.0.0.1 replicas\n");
	begin_at(many, script(reply_agent), 60000);
	get_agent(1);
	assert_true(t.failed);
	assert_non_null(strstr(t.error.message, "none of 16 addresses"));
}

/* Fills the queue of one who listens and never accepts: the next one hears nothing at all. */
static int listen_deaf(const char *address, int *queued, size_t n)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(inet_pton(AF_INET, address, &at.sin_addr), 1);
	at.sin_port = htons((uint16_t)strtoul(strrchr(t.fake.url, ':') + 1, NULL, 10));
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 0), 0);
	for (size_t i = 0; i < n; i++) {
		queued[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		assert_true(queued[i] >= 0);
		connect(queued[i], (struct sockaddr *)&at, sizeof(at));
	}
	return fd;
}

/* Two addresses share the 3 s in which a connection is to stand. */
static void call__of_a_name_goes_on_when_an_address_does_not_answer_its_connect(void **state)
{
	int queued[4], fd = listen_deaf("127.0.0.2", queued, 4);
	uint64_t start = sl_clock_ns();

	(void)state;
	begin_at("127.0.0.2 replicas\n127.0.0.1 replicas\n", script(reply_agent), 60000);
	get_agent(1);
	assert_false(t.failed);
	assert_true(sl_clock_ns() - start >= 1400 * SL_NS_PER_MS);
	for (int i = 0; i < 4; i++)
		close(queued[i]);
	close(fd);
}

static void lookup__that_is_not_answered_ends_with_its_call_and_with_its_client(void **state)
{
	char at[32];
	struct evdns_server_port *port = serve_names(at, sizeof(at));

	(void)state;
	name_server = at;
	silent = true;
	begin_at("", script(reply_agent), 300);
	assert_int_equal(nc_get_agent(t.client, "b", on_agent, NULL), 0);
	await(1);
	assert_int_equal(t.error.err, -ETIMEDOUT);
	assert_int_equal(nc_get_agent(t.client, "b", on_agent, NULL), 0);
	event_base_loop(t.base, EVLOOP_NONBLOCK);
	assert_int_equal(lookups_out(), 1);
	nc_client_destroy(t.client);
	t.client = NULL;
	event_base_loop(t.base, EVLOOP_NONBLOCK);
	assert_int_equal(lookups_out(), 0);
	evdns_close_server_port(port);
	name_server = NULL;
	silent = false;
}

static void on_ended(void *arg, enum nc_session_end why, const struct nc_error *error)
{
	(void)arg;
	(void)why;
	note(error);
}

static void refuse_upgrade(struct fake_conn *conn, const char *request)
{
	assert_non_null(strstr(request, "Upgrade: websocket"));
	fake_reply(conn, 403, "", "{\"code\":\"forbidden\",\"message\":\"no\"}");
}

static void session__of_a_name_goes_to_its_next_address(void **state)
{
	static const struct nc_session_ops ops = { .ended = on_ended };

	(void)state;
	begin_at("127.0.0.2 replicas\n127.0.0.1 replicas\n", script(reply_grant, refuse_upgrade),
		 60000);
	do_register(1);
	assert_int_equal(nc_session_open(t.client, &ops, NULL), 0);
	await(2);
	assert_int_equal(t.error.err, -EACCES);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, stage_setup, stage_teardown)
	const struct CMUnitTest tests[] = {
		T(call__of_a_name_goes_to_its_next_address_when_the_first_refuses),
		T(call__of_a_name_goes_on_to_another_address_when_one_is_busy),
		T(call__of_a_name_goes_on_to_another_address_when_one_is_silent),
		T(call__of_a_name_comes_back_when_its_server_goes_away),
		T(call__of_a_name_on_a_kept_connection_counts_no_address_of_its_connect),
		T(cancel__of_a_poll_of_a_name_leaves_its_address_in_use),
		T(call__of_a_name_of_which_nobody_serves_says_so),
		T(call__of_a_name_that_is_asked_for_goes_round_its_addresses_in_time),
		T(call__of_a_name_goes_on_when_an_address_does_not_answer_its_connect),
		T(lookup__that_is_not_answered_ends_with_its_call_and_with_its_client),
		T(name__of_more_addresses_than_are_looked_at_is_bounded),
		T(session__of_a_name_goes_to_its_next_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
