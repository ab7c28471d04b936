/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's session with nanoctrl, beside a server that says what a test wants. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <event2/event.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/client/fake.h"
#include "peeragent/lib/control/ctrl.h"

/* Far more than anything here takes. */
#define LONG_MS 60000

/* More than the client makes calls at one time. */
#define MANY 1500

#define assert_ok(expr) assert_int_equal((expr), 0)

#define GRANT                                                                                        \
	"{\"lease\":\"a/1/secret\",\"epoch\":%d,\"generation\":7,\"ttl_ms\":15000,\"beat_ms\":5000," \
	"\"grace_ms\":2000,\"resumed\":%s}"
#define HELLO \
	"{\"type\":\"hello\",\"epoch\":5,\"generation\":7,\"cursor\":\"5:1\",\"beat_ms\":5000}"

static const struct slime_label decode = { "role", "decode" };
static const struct slime_label nic = { "nic.mlx5_0:1", "link=Ethernet state=ACTIVE" };

static struct {
	struct event_base *base;
	struct fake fake;
	struct ctrl *ctrl;
	bool hold_grants, hold_lists; /* they are not answered */
	bool break_sessions;
	struct fake_conn *grant, *session;	  /* who waits for a grant; the last session */
	struct fake_conn *put;			  /* who waits for the answer to a region */
	char registration[4096];		  /* the last */
	int epoch, up_epoch;			  /* of grants; of the last session */
	int n_registrations, n_sessions, n_lists; /* that were asked for */
	int n_up, n_down, n_list_ends, n_offers;  /* that the agent was told */
	int n_posted;				  /* by so many peers */
	int n_reports;				  /* of links */
	int n_regions;				  /* of others, that the agent was told */
	char report[8192];			  /* the last */
	const char *wanted;			  /* the list of wanted links; NULL: not known */
	const char *next_page;			  /* that follows; NULL: it has one page */
	bool hold_pages;			  /* later ones are not answered */
	bool stale_page;			  /* the next later one is of a former list */
	int n_firsts, n_laters;			  /* pages that were asked for */
	int n_wanted;				  /* that the agent was told */
	/* In the last: "PEER/PROFILE:TOPOLOGY " for each, with the refusal. */
	char wanted_links[512];
	int n_puts, n_goodbyes, n_left; /* of regions; that were said; that were taken */
	enum ctrl_trouble trouble;	/* the last */
} t;

/* ---- the server ---- */

/* Only the first registration is fresh. */
static void reply_grant(struct fake_conn *conn)
{
	char grant[256];

	snprintf(grant, sizeof(grant), GRANT, t.epoch, t.n_registrations > 1 ? "true" : "false");
	fake_reply(conn, 200, "", grant);
}

static void on_registration(struct fake_conn *conn, const char *text)
{
	snprintf(t.registration, sizeof(t.registration), "%s", text);
	t.n_registrations++;
	if (t.hold_grants)
		t.grant = conn;
	else
		reply_grant(conn);
}

static void on_list(struct fake_conn *conn)
{
	t.n_lists++;
	if (!t.hold_lists)
		fake_reply(conn, 200, "", "{\"agents\":[]}");
}

/* From b0, b1, ... */
static void on_offer_list(struct fake_conn *conn)
{
	const size_t room = 64 + (size_t)t.n_posted * 192;
	char *body = malloc(room);
	size_t len;

	assert_non_null(body);
	len = (size_t)snprintf(body, room, "{\"offers\":[");
	for (int i = 0; i < t.n_posted; i++)
		len += (size_t)snprintf(
			body + len, room - len,
			"%s{\"from\":\"b%d\",\"to\":\"a\",\"profile\":\"default\",\"generation\":1,"
			"\"incarnation\":\"i\",\"peer_generation\":7,\"connection_epoch\":1}",
			i ? "," : "", i);
	snprintf(body + len, room - len, "]}");
	fake_reply(conn, 200, "", body);
	free(body);
}

static void on_offer_read(struct fake_conn *conn, const char *text)
{
	char body[256];

	snprintf(body, sizeof(body),
		 "{\"offer\":{\"from\":\"b%d\",\"to\":\"a\",\"profile\":\"default\","
		 "\"generation\":1,\"incarnation\":\"i\",\"peer_generation\":7,"
		 "\"connection_epoch\":1,\"descriptor\":\"AQ==\"}}",
		 atoi(strstr(text, "/agents/b") + strlen("/agents/b")));
	fake_reply(conn, 200, "", body);
}

static void on_wanted_read(struct fake_conn *conn, const char *text)
{
	bool later = strstr(text, "&after=7"), more = !later && t.next_page;
	const char *links = later ? t.next_page : t.wanted;
	char body[1024];

	t.n_firsts += !later;
	t.n_laters += later;
	if (later && t.stale_page) {
		t.stale_page = false;
		fake_reply(conn, 409, "", "{\"code\":\"stale\",\"message\":\"it has changed\"}");
	} else if (!later || !t.hold_pages) {
		snprintf(body, sizeof(body),
			 "{\"revision\":7,\"known\":%s,\"links\":[%s],\"next\":%s}",
			 t.wanted ? "true" : "false", links ? links : "", more ? "\"7\"" : "null");
		fake_reply(conn, 200, "", body);
	}
}

static void on_session(struct fake_conn *conn, const char *text)
{
	t.n_sessions++;
	if (t.break_sessions) {
		fake_close(conn);
		return;
	}
	fake_upgrade(conn, text);
	fake_text(conn, HELLO);
	t.session = conn;
}

static void on_request(void *arg, struct fake_conn *conn, const char *text)
{
	(void)arg;
	if (!strncmp(text, "PUT ", 4) && strstr(text, "/links/")) {
		snprintf(t.report, sizeof(t.report), "%s", text);
		t.n_reports++;
		fake_reply(conn, 200, "", "{\"status\":\"ok\"}");
	} else if (!strncmp(text, "PUT ", 4) && strstr(text, "/regions/")) {
		t.n_puts++;
		t.put = conn;
	} else if (!strncmp(text, "DELETE ", 7)) {
		t.n_goodbyes++;
		fake_reply(conn, 200, "", "{\"left\":true}");
	} else if (!strncmp(text, "PUT ", 4)) {
		on_registration(conn, text);
	} else if (strstr(text, "/session?")) {
		on_session(conn, text);
	} else if (strstr(text, "/wanted?")) {
		on_wanted_read(conn, text);
	} else if (strstr(text, "/exchange?")) {
		on_offer_list(conn);
	} else if (strstr(text, "/exchange/")) {
		on_offer_read(conn, text);
	} else {
		on_list(conn);
	}
}

static void on_message(void *arg, struct fake_conn *conn, const char *text)
{
	(void)arg;
	(void)conn;
	(void)text;
}

/* ---- the agent ---- */

static void on_up(void *arg, bool fresh)
{
	(void)arg;
	assert_int_equal(fresh, !t.n_up || t.epoch != t.up_epoch);
	t.up_epoch = t.epoch;
	t.n_up++;
}

/* "PEER/PROFILE:TOPOLOGY ", and what it asks of rdma, if anything. */
static int write_wanted(char *at, const struct ctrl_wanted *w)
{
	const struct slime_agent_link *l = &w->link;
	int n = sprintf(at, "%s/%s:%s%s%s ", l->to, l->profile, w->topology,
			w->refusal ? " refused: " : "", w->refusal ? w->refusal : "");

	if (l->qps || l->rails || l->devices || l->peer_devices || l->min_bandwidth)
		n += sprintf(at + n, "(%u %u %s %s %llu) ", l->qps, l->rails,
			     l->devices ? l->devices : "-", l->peer_devices ? l->peer_devices : "-",
			     (unsigned long long)l->min_bandwidth);
	return n;
}

static void on_wanted(void *arg, const struct ctrl_wanted *links, size_t n)
{
	char *at = t.wanted_links;

	(void)arg;
	*at = '\0';
	for (size_t i = 0; i < n; i++)
		at += write_wanted(at, &links[i]);
	t.n_wanted++;
}

static void on_down(void *arg, enum ctrl_trouble trouble, const char *text)
{
	(void)arg;
	assert_non_null(text);
	t.trouble = trouble;
	t.n_down++;
}

static void on_list_begin(void *arg)
{
	(void)arg;
}

static void on_list_end(void *arg)
{
	(void)arg;
	t.n_list_ends++;
}

/* Each is told of once. */
static void on_offer(void *arg, const struct ctrl_offer *offer)
{
	static bool told[MANY];
	int i = atoi(offer->from + 1);

	(void)arg;
	assert_in_range(i, 0, MANY - 1);
	assert_false(told[i]);
	told[i] = true;
	t.n_offers++;
}

static void on_region(void *arg, const char *agent, const char *name)
{
	(void)arg;
	assert_string_equal(agent, "b");
	assert_string_equal(name, "kv");
	t.n_regions++;
}

static const struct ctrl_ops ops = {
	.up = on_up,
	.down = on_down,
	.wanted = on_wanted,
	.list_begin = on_list_begin,
	.list_end = on_list_end,
	.offer = on_offer,
	.region = on_region,
};

static void spin_until(const int *count, int n)
{
	uint64_t deadline_ns = sl_deadline_ns(LONG_MS);

	while (*count < n) {
		assert_true(sl_clock_ns() < deadline_ns);
		assert_ok(event_base_loop(t.base, EVLOOP_ONCE));
	}
}

static int setup(void **state)
{
	const char *url;
	struct ctrl_attr attr = {
		.name = "a",
		.scope = "default",
		.urls = &url,
		.n_urls = 1,
		.incarnation = "i",
		.owner_key = "00",
		.address = "here",
		.attributes = &nic,
		.n_attributes = 1,
	};

	(void)state;
	memset(&t, 0, sizeof(t));
	t.epoch = 5;
	t.base = event_base_new();
	fake_start(&t.fake, t.base, on_request, on_message, NULL);
	url = t.fake.url;
	assert_ok(ctrl_create(t.base, &attr, &ops, NULL, &t.ctrl));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ctrl_destroy(t.ctrl);
	fake_stop(&t.fake);
	event_base_free(t.base);
	return 0;
}

/* In session, and the first list has been reported. */
static void begin(void)
{
	ctrl_start(t.ctrl);
	spin_until(&t.n_list_ends, 1);
}

/* ---- lists ---- */

static void list__before_the_start_is_the_one_of_the_first_session(void **state)
{
	(void)state;
	ctrl_list(t.ctrl);
	begin();
	assert_int_equal(t.n_lists, 1);
}

static void list__while_registering_comes_with_the_session(void **state)
{
	(void)state;
	begin();
	assert_ok(ctrl_set_labels(t.ctrl, &decode, 1));
	ctrl_list(t.ctrl);
	spin_until(&t.n_up, 2);
	spin_until(&t.n_list_ends, 2);
}

static void list__while_nanoctrl_is_away_comes_with_the_session(void **state)
{
	(void)state;
	begin();
	fake_close(t.session);
	spin_until(&t.n_down, 1);
	ctrl_list(t.ctrl);
	spin_until(&t.n_up, 2);
	spin_until(&t.n_list_ends, 2);
}

static void list__that_other_labels_interrupt_is_made_again(void **state)
{
	(void)state;
	t.hold_lists = true;
	ctrl_start(t.ctrl);
	spin_until(&t.n_lists, 1);
	t.hold_lists = false;
	assert_ok(ctrl_set_labels(t.ctrl, &decode, 1));
	spin_until(&t.n_list_ends, 1);
	assert_int_equal(t.n_registrations, 2);
}

static void list__of_very_many_offers_is_read_to_its_end(void **state)
{
	(void)state;
	t.n_posted = MANY;
	begin();
	spin_until(&t.n_offers, MANY);
	assert_int_equal(t.n_lists, 1);
}

/* ---- links that topologies want ---- */

#define WANTED(peer, more) "{\"peer\":\"" peer "\",\"profile\":\"p\",\"topology\":\"t\"" more "}"

static void wanted__is_told_at_the_start_and_with_each_event(void **state)
{
	(void)state;
	t.wanted = WANTED("b", "");
	begin();
	spin_until(&t.n_wanted, 1);
	assert_string_equal(t.wanted_links, "b/p:t ");
	t.wanted = WANTED("b", ",\"transports\":[\"tcp\"]") "," WANTED("c", ",\"qps\":4");
	fake_text(t.session,
		  "{\"type\":\"wanted\",\"cursor\":\"5:2\",\"agent\":\"a\",\"revision\":2}");
	spin_until(&t.n_wanted, 2);
	assert_string_equal(t.wanted_links, "b/p:t c/p:t (4 0 - - 0) ");
	assert_int_equal(t.n_lists, 1);
}

static void wanted__that_this_agent_cannot_have_is_refused(void **state)
{
	(void)state;
	t.wanted = WANTED("b", ",\"transports\":[\"ether\"]") "," WANTED(
		"c", ",\"transports\":[\"tcp\",\"tcp\"]") "," WANTED("d", "");
	begin();
	spin_until(&t.n_wanted, 1);
	assert_string_equal(t.wanted_links,
			    "b/p:t refused: this agent does not know a transport of it "
			    "c/p:t refused: it has a transport twice d/p:t ");
}

static void wanted__of_a_peer_that_cannot_be_is_left_out(void **state)
{
	(void)state;
	t.wanted = WANTED("a", "") "," WANTED("..", "") "," WANTED("d", "");
	begin();
	spin_until(&t.n_wanted, 1);
	assert_string_equal(t.wanted_links, "d/p:t ");
}

static void wanted__of_several_pages_is_told_whole(void **state)
{
	(void)state;
	t.wanted = WANTED("b", "");
	t.next_page = WANTED("c", "") "," WANTED("d", "");
	begin();
	spin_until(&t.n_wanted, 1);
	assert_string_equal(t.wanted_links, "b/p:t c/p:t d/p:t ");
	assert_int_equal(t.n_wanted, 1);
	assert_int_equal(t.n_firsts, 1);
	assert_int_equal(t.n_laters, 1);
}

static void wanted__that_changed_between_two_pages_is_read_anew(void **state)
{
	(void)state;
	t.wanted = WANTED("b", "");
	t.next_page = WANTED("c", "");
	t.stale_page = true;
	begin();
	spin_until(&t.n_wanted, 1);
	assert_string_equal(t.wanted_links, "b/p:t c/p:t ");
	assert_int_equal(t.n_firsts, 2);
	assert_int_equal(t.n_laters, 2);
}

/* The session breaks before the second page has come. */
static void wanted__that_was_interrupted_goes_on_with_its_next_page(void **state)
{
	(void)state;
	t.wanted = WANTED("b", "");
	t.next_page = WANTED("c", "");
	t.hold_pages = true;
	begin();
	spin_until(&t.n_laters, 1);
	fake_close(t.session);
	spin_until(&t.n_down, 1);
	t.hold_pages = false;
	spin_until(&t.n_wanted, 1);
	assert_string_equal(t.wanted_links, "b/p:t c/p:t ");
	assert_int_equal(t.n_firsts, 1);
}

static void wanted__has_what_is_asked_of_rdma(void **state)
{
	(void)state;
	t.wanted =
		WANTED("b", ",\"qps\":8,\"rails\":\"all\",\"min_bandwidth\":100000000000") "," WANTED(
			"c",
			",\"rails\":2,\"devices\":\"mlx5_0,mlx5_1:2\",\"peer_devices\":\"rxe0\"");
	begin();
	spin_until(&t.n_wanted, 1);
	assert_string_equal(t.wanted_links,
			    "b/p:t (8 0 - - 100000000000) c/p:t (0 2 mlx5_0,mlx5_1:2 rxe0 0) ");
}

static void wanted__of_rdma_that_cannot_be_is_refused(void **state)
{
	static const char *const links[] = {
		WANTED("b", ",\"qps\":9"),
		WANTED("b", ",\"rails\":9"),
		WANTED("b", ",\"devices\":\"mlx5_0:0\""),
		WANTED("b", ",\"peer_devices\":\"x,x\""),
	};
	char event[128];

	(void)state;
	t.wanted = "";
	begin();
	spin_until(&t.n_wanted, 1);
	for (unsigned i = 0; i < sizeof(links) / sizeof(*links); i++) {
		t.wanted = links[i];
		snprintf(
			event, sizeof(event),
			"{\"type\":\"wanted\",\"cursor\":\"5:%u\",\"agent\":\"a\",\"revision\":%u}",
			i + 2, i + 2);
		fake_text(t.session, event);
		spin_until(&t.n_wanted, (int)i + 2);
		assert_string_equal(
			t.wanted_links,
			"b/p:t refused: this agent cannot have its qps, rails or devices ");
	}
}

/* The agent registered anew and was not expanded yet: it closes nothing. */
static void wanted__that_is_not_known_yet_changes_nothing(void **state)
{
	(void)state;
	begin();
	t.wanted = "";
	fake_text(t.session,
		  "{\"type\":\"wanted\",\"cursor\":\"5:2\",\"agent\":\"a\",\"revision\":2}");
	spin_until(&t.n_wanted, 1);
	assert_string_equal(t.wanted_links, "");
	assert_int_equal(t.n_wanted, 1);
}

/* ---- regions of others ---- */

static void region__of_another_agent_is_told(void **state)
{
	(void)state;
	begin();
	fake_text(t.session,
		  "{\"type\":\"region\",\"cursor\":\"5:2\",\"agent\":\"a\",\"generation\":1,"
		  "\"region\":\"kv\",\"revision\":1}");
	fake_text(t.session,
		  "{\"type\":\"region\",\"cursor\":\"5:3\",\"agent\":\"b\",\"generation\":2,"
		  "\"region\":\"kv\",\"revision\":1}");
	spin_until(&t.n_regions, 1);
	assert_int_equal(t.n_regions, 1);
}

/* ---- labels ---- */

static void register__says_the_attributes(void **state)
{
	(void)state;
	ctrl_start(t.ctrl);
	spin_until(&t.n_registrations, 1);
	assert_non_null(strstr(t.registration, "\"attributes\":{\"nic.mlx5_0:1\":"
					       "\"link=Ethernet state=ACTIVE\"}"));
}

static void set_labels__while_registering_registers_with_them(void **state)
{
	(void)state;
	t.hold_grants = true;
	ctrl_start(t.ctrl);
	spin_until(&t.n_registrations, 1);
	assert_ok(ctrl_set_labels(t.ctrl, &decode, 1));
	t.hold_grants = false;
	reply_grant(t.grant);
	spin_until(&t.n_up, 1);
	assert_int_equal(t.n_registrations, 2);
	assert_non_null(strstr(t.registration, "\"role\":\"decode\""));
}

/* The generation goes on, and what was published in it may be lost. */
static void registration__in_another_epoch_publishes_again(void **state)
{
	(void)state;
	ctrl_start(t.ctrl);
	spin_until(&t.n_up, 1);
	t.epoch++;
	fake_text(t.session, "{\"type\":\"resync\",\"cause\":\"epoch\",\"spread_ms\":0}");
	spin_until(&t.n_up, 2); /* which looks whether it is told that it is fresh */
	assert_int_equal(t.up_epoch, t.epoch);
}

/* ---- what cannot be written ---- */

static const struct slime_label no_utf8 = { "role", "\xff\xfe" };

static void set_labels__that_cannot_be_written_is_told(void **state)
{
	(void)state;
	begin();
	assert_ok(ctrl_set_labels(t.ctrl, &no_utf8, 1));
	spin_until(&t.n_down, 1);
	assert_int_equal(t.trouble, CTRL_FORBIDDEN);
	assert_ok(ctrl_set_labels(t.ctrl, &decode, 1));
	spin_until(&t.n_up, 2);
}

static void on_put(void *arg, int result)
{
	(void)arg;
	(void)result;
}

static void put_region__that_cannot_be_written_is_invalid(void **state)
{
	static const char *const allow[] = { "role=\xff" };
	struct ctrl_region kv = { .name = "kv", .size = 1, .allow = allow, .n_allow = 1 };

	(void)state;
	begin();
	assert_int_equal(ctrl_put_region(t.ctrl, &kv, on_put, NULL), -EINVAL);
	kv.n_allow = 0;
	kv.name = "..";
	assert_int_equal(ctrl_put_region(t.ctrl, &kv, on_put, NULL), -EINVAL);
}

/* Which is 4 KiB for all of them, with what JSON needs for each. */
static void report_link__is_within_bounds_whatever_its_texts_are(void **state)
{
	char quotes[1024];
	struct ctrl_link link = {
		.peer = "b",
		.profile = "default",
		.state = SLIME_LINK_CONNECTED,
		.cause = "",
		.transport = "tcp",
		.attempt = 1,
		.transports = "shm,tcp",
		.own_order = true,
		.passed_over = quotes,
		.last_error = "shm: \x1b\xff",
		.n_connects = 2,
	};
	const char *attributes;

	(void)state;
	memset(quotes, '"', sizeof(quotes) - 1);
	quotes[sizeof(quotes) - 1] = '\0';
	begin();
	assert_ok(ctrl_report_link(t.ctrl, &link, on_put, NULL));
	spin_until(&t.n_reports, 1);
	attributes = strstr(t.report, "\"attributes\":{");
	assert_non_null(attributes);
	assert_in_range(strlen(attributes), 1000, 4000);
	assert_non_null(strstr(attributes, "\"transports\":\"shm,tcp\""));
	assert_non_null(strstr(attributes, "\"order\":\"own\""));
	assert_non_null(strstr(attributes, "\"last_error\":\"shm: ??\""));
	assert_non_null(strstr(attributes, "\"connects\":\"2\""));
	assert_null(strstr(attributes, "failures"));
}

/* ---- the end ---- */

static void on_left(void *arg, int result)
{
	(void)arg;
	assert_ok(result);
	t.n_left++;
}

/* A region is being put, and a goodbye said. */
static void leave_meanwhile(void)
{
	static const struct ctrl_region region = { .name = "r",
						   .size = 1,
						   .access = SLIME_ACCESS_REMOTE_READ,
						   .descriptor = "d",
						   .len = 1 };

	ctrl_start(t.ctrl);
	spin_until(&t.n_list_ends, 1);
	assert_ok(ctrl_put_region(t.ctrl, &region, on_put, NULL));
	assert_ok(ctrl_leave(t.ctrl, on_left, NULL));
	spin_until(&t.n_puts, 1);
}

static void leave__comes_behind_what_is_under_way(void **state)
{
	uint64_t patience_ns = sl_deadline_ns(500);

	(void)state;
	leave_meanwhile();
	/* Where all of that took longer it tells nothing. */
	assert_true(t.n_goodbyes == 0 || sl_clock_ns() > patience_ns);
	fake_reply(t.put, 200, "", "{\"revision\":1}");
	spin_until(&t.n_left, 1);
	assert_int_equal(t.n_goodbyes, 1);
}

static void leave__does_not_wait_for_ever_for_what_is_under_way(void **state)
{
	(void)state;
	leave_meanwhile();
	spin_until(&t.n_left, 1);
	assert_int_equal(t.n_goodbyes, 1);
}

/* Nothing is left that could bring the session back: the loop ends by itself. */
static void leave__while_the_session_is_broken_is_for_good(void **state)
{
	int n_turns = 0;

	(void)state;
	t.break_sessions = true;
	ctrl_start(t.ctrl);
	spin_until(&t.n_sessions, 2);
	fake_stop(&t.fake);
	assert_int_equal(ctrl_leave(t.ctrl, on_left, NULL), -EAGAIN);
	while (!event_base_loop(t.base, EVLOOP_ONCE))
		assert_true(++n_turns < 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			list__before_the_start_is_the_one_of_the_first_session, setup, teardown),
		cmocka_unit_test_setup_teardown(list__while_registering_comes_with_the_session,
						setup, teardown),
		cmocka_unit_test_setup_teardown(list__while_nanoctrl_is_away_comes_with_the_session,
						setup, teardown),
		cmocka_unit_test_setup_teardown(list__that_other_labels_interrupt_is_made_again,
						setup, teardown),
		cmocka_unit_test_setup_teardown(list__of_very_many_offers_is_read_to_its_end, setup,
						teardown),
		cmocka_unit_test_setup_teardown(wanted__is_told_at_the_start_and_with_each_event,
						setup, teardown),
		cmocka_unit_test_setup_teardown(wanted__that_this_agent_cannot_have_is_refused,
						setup, teardown),
		cmocka_unit_test_setup_teardown(wanted__of_a_peer_that_cannot_be_is_left_out, setup,
						teardown),
		cmocka_unit_test_setup_teardown(wanted__of_several_pages_is_told_whole, setup,
						teardown),
		cmocka_unit_test_setup_teardown(wanted__that_changed_between_two_pages_is_read_anew,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			wanted__that_was_interrupted_goes_on_with_its_next_page, setup, teardown),
		cmocka_unit_test_setup_teardown(wanted__has_what_is_asked_of_rdma, setup, teardown),
		cmocka_unit_test_setup_teardown(wanted__of_rdma_that_cannot_be_is_refused, setup,
						teardown),
		cmocka_unit_test_setup_teardown(wanted__that_is_not_known_yet_changes_nothing,
						setup, teardown),
		cmocka_unit_test_setup_teardown(region__of_another_agent_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(register__says_the_attributes, setup, teardown),
		cmocka_unit_test_setup_teardown(set_labels__while_registering_registers_with_them,
						setup, teardown),
		cmocka_unit_test_setup_teardown(registration__in_another_epoch_publishes_again,
						setup, teardown),
		cmocka_unit_test_setup_teardown(set_labels__that_cannot_be_written_is_told, setup,
						teardown),
		cmocka_unit_test_setup_teardown(put_region__that_cannot_be_written_is_invalid,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			report_link__is_within_bounds_whatever_its_texts_are, setup, teardown),
		cmocka_unit_test_setup_teardown(leave__while_the_session_is_broken_is_for_good,
						setup, teardown),
		cmocka_unit_test_setup_teardown(leave__comes_behind_what_is_under_way, setup,
						teardown),
		cmocka_unit_test_setup_teardown(leave__does_not_wait_for_ever_for_what_is_under_way,
						setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
