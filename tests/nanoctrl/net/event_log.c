/* SPDX-License-Identifier: Apache-2.0 */
/* What libevent has to say is in the log, not on standard error. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <event2/dns.h>
#include <event2/event.h>

#include "nanoctrl/net/loop.h"
#include "nanoctrl/net/resolver.h"
#include "tests/support/log_lines.h"

/* libevent warns of a name server whose address is none. */
static void provoke(struct event_base *base)
{
	struct evdns_base *dns = evdns_base_new(base, 0);

	assert_non_null(dns);
	assert_int_not_equal(evdns_base_nameserver_ip_add(dns, "no address"), 0);
	evdns_base_free(dns, 0);
}

static void loop__has_the_messages_of_libevent_in_the_log(void **state)
{
	struct loop *loop;

	(void)state;
	assert_int_equal(loop_create(&loop), 0);
	log_lines_keep();
	provoke(loop_base(loop));
	assert_int_equal(log_lines_with("no address"), 1);
	log_lines_release();
	loop_destroy(loop);
}

static void resolver__has_the_messages_of_libevent_in_the_log(void **state)
{
	struct event_base *base = event_base_new();
	struct nc_resolver *resolver;

	(void)state;
	assert_non_null(base);
	assert_int_equal(nc_resolver_create(base, &resolver), 0);
	log_lines_keep();
	provoke(base);
	assert_int_equal(log_lines_with("no address"), 1);
	log_lines_release();
	nc_resolver_destroy(resolver);
	event_base_free(base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(resolver__has_the_messages_of_libevent_in_the_log),
		cmocka_unit_test(loop__has_the_messages_of_libevent_in_the_log),
	};

	return cmocka_run_group_tests_name("event_log", tests, NULL, NULL);
}
