/* SPDX-License-Identifier: Apache-2.0 */
/* The client and the real server, over a real Redis. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <event2/event.h>

#include "nanoctrl/client/nanoctrl_client.h"
#include "stand.h"

#define KEY_A "00112233445566778899001122334455667788990011223344556677889900aa"
#define KEY_B "00112233445566778899001122334455667788990011223344556677889900bb"

/* One agent and what it heard. */
struct agent {
	struct nc_client *client;
	const char *name, *incarnation, *key;
	int n_done;
	struct nc_error error;
	struct nc_grant grant;
	unsigned seen; /* a bit for each type of event */
	int n_up, n_resets, n_ended;
	enum nc_session_end ended;
	uint64_t number;
	size_t n;
	char text[256];
	unsigned char bytes[8];
	char cursor[64]; /* of the last page or poll */
	bool lost;
};

static struct {
	struct stand stand;
	struct event_base *base;
	struct agent a, b, c;
} t;

/* --- the agents --- */

static void create_agent(struct agent *g, const char *name, const char *incarnation,
			 const char *key)
{
	struct nc_client_attr attr = NC_CLIENT_ATTR_INIT;
	const char *url = t.stand.server.url;

	*g = (struct agent){ .name = name, .incarnation = incarnation, .key = key };
	attr.base = t.base;
	attr.urls = &url;
	attr.n_urls = 1;
	attr.scope = "live";
	attr.timeout_ms = 60000;
	assert_int_equal(nc_client_create(&g->client, &attr), 0);
}

static void note(struct agent *g, const struct nc_error *error)
{
	g->n_done++;
	g->error = error ? *error : (struct nc_error){ 0 };
}

static void on_done(void *arg, const struct nc_error *error)
{
	note(arg, error);
}

static void on_grant(void *arg, const struct nc_error *error, const struct nc_grant *grant)
{
	struct agent *g = arg;

	note(g, error);
	if (grant)
		g->grant = *grant;
}

static void on_region(void *arg, const struct nc_error *error, const struct nc_region *region)
{
	struct agent *g = arg;

	note(g, error);
	if (!region)
		return;
	g->number = region->size;
	g->n = region->descriptor_len;
	if (region->descriptor)
		memcpy(g->bytes, region->descriptor, region->descriptor_len);
}

static void on_offer(void *arg, const struct nc_error *error, const struct nc_offer *offer)
{
	struct agent *g = arg;

	note(g, error);
	if (!offer)
		return;
	g->number = offer->connection_epoch;
	g->n = offer->descriptor_len;
	memcpy(g->bytes, offer->descriptor, offer->descriptor_len);
}

static void on_agents(void *arg, const struct nc_error *error, const struct nc_page *page)
{
	struct agent *g = arg;

	note(g, error);
	g->n = page ? page->n : 0;
	if (g->n)
		snprintf(g->text, sizeof(g->text), "%s %s %s", page->agents[0].name,
			 page->agents[0].labels.list[0].value, page->agents[0].services[0].name);
}

static void on_links(void *arg, const struct nc_error *error, const struct nc_page *page)
{
	struct agent *g = arg;

	note(g, error);
	g->n = page ? page->n : 0;
	if (g->n)
		snprintf(g->text, sizeof(g->text), "%s>%s %d %s %s", page->links[0].agent,
			 page->links[0].peer, page->links[0].state, page->links[0].transport,
			 page->links[0].attributes.n ? page->links[0].attributes.list[0].value
						     : "-");
}

static void on_agent(void *arg, const struct nc_error *error, const struct nc_agent *agent)
{
	struct agent *g = arg;

	note(g, error);
	if (!agent)
		return;
	g->number = agent->revision;
	g->n = agent->n_services;
	snprintf(g->text, sizeof(g->text), "%s %s %s", agent->address, agent->labels.list[0].value,
		 agent->attributes.n ? agent->attributes.list[0].value : "-");
}

static void on_providers(void *arg, const struct nc_error *error, const struct nc_page *page)
{
	struct agent *g = arg;
	const struct nc_provider *p;

	note(g, error);
	g->n = page ? page->n : 0;
	if (!g->n)
		return;
	p = &page->providers[0];
	snprintf(g->text, sizeof(g->text), "%s of %s %s at '%s'", p->service, p->agent,
		 p->incarnation, p->address);
}

static void on_directory(void *arg, const struct nc_error *error, const struct nc_page *page)
{
	struct agent *g = arg;

	note(g, error);
	g->n = page ? page->n : 0;
	g->text[0] = '\0';
	for (size_t i = 0; i < g->n; i++)
		snprintf(g->text + strlen(g->text), sizeof(g->text) - strlen(g->text), "%s/%s %d ",
			 page->regions[i].agent, page->regions[i].name,
			 page->regions[i].descriptor != NULL);
	if (page)
		snprintf(g->cursor, sizeof(g->cursor), "%s", page->cursor);
}

static void on_polled(void *arg, const struct nc_error *error, const struct nc_events *events)
{
	struct agent *g = arg;

	note(g, error);
	if (!events)
		return;
	snprintf(g->cursor, sizeof(g->cursor), "%s", events->cursor);
	g->lost = events->lost;
	g->n = events->n;
	g->text[0] = '\0';
	for (size_t i = 0; i < g->n; i++)
		snprintf(g->text + strlen(g->text), sizeof(g->text) - strlen(g->text), "%d %s%s%s ",
			 events->list[i].type, events->list[i].agent, events->list[i].region,
			 events->list[i].profile);
}

/* How many there are, and whose the first one is. */
static void on_snapshots(void *arg, const struct nc_error *error, const char *text, size_t len)
{
	static const char who[] = "\"peer_id\":\"";
	const char *at = text, *end = text + len;
	struct agent *g = arg;

	note(g, error);
	g->n = 0;
	g->text[0] = '\0';
	while (!error && (at = memmem(at, (size_t)(end - at), who, strlen(who)))) {
		at += strlen(who);
		if (g->n++ == 0)
			snprintf(g->text, sizeof(g->text), "%.*s",
				 (int)((const char *)memchr(at, '"', (size_t)(end - at)) - at), at);
	}
}

static void on_up(void *arg)
{
	((struct agent *)arg)->n_up++;
}

static void on_event(void *arg, const struct nc_event *event)
{
	((struct agent *)arg)->seen |= 1u << event->type;
}

static void on_reset(void *arg)
{
	((struct agent *)arg)->n_resets++;
}

static void on_ended(void *arg, enum nc_session_end why, const struct nc_error *error)
{
	struct agent *g = arg;

	(void)error;
	g->n_ended++;
	g->ended = why;
}

static const struct nc_session_ops ops = { on_up, NULL, on_event, on_reset, on_ended };

#define spin_until(condition)                                                      \
	do {                                                                       \
		while (!(condition))                                               \
			assert_int_equal(event_base_loop(t.base, EVLOOP_ONCE), 0); \
	} while (0)

/* Runs the loop until the one call that was made called back; its errno. */
static int await(struct agent *g, int ret)
{
	int n = g->n_done + 1;

	assert_int_equal(ret, 0);
	spin_until(g->n_done == n);
	return g->error.err;
}

static void join(struct agent *g)
{
	static const struct nc_pair labels[] = { { "role", "decode" } };
	static const struct nc_service services[] = { { .name = "echo" } };
	struct nc_registration r = { .name = g->name,
				     .incarnation = g->incarnation,
				     .owner_key = g->key,
				     .labels = { labels, 1 },
				     .services = services,
				     .n_services = 1 };
	int n = g->n_up + 1;

	assert_int_equal(await(g, nc_register(g->client, &r, on_grant, g)), 0);
	assert_int_equal(nc_session_open(g->client, &ops, g), 0);
	spin_until(g->n_up == n);
}

static void spin_until_seen(struct agent *g, enum nc_event_type type)
{
	spin_until(g->seen & 1u << type);
}

static int setup(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	test_redis_start(&t.stand.redis);
	stand_start(&t.stand, "server.drain_accept=0s");
	t.base = event_base_new();
	create_agent(&t.a, "a", "inc-a", KEY_A);
	create_agent(&t.b, "b", "inc-b", KEY_B);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	nc_client_destroy(t.a.client);
	nc_client_destroy(t.b.client);
	nc_client_destroy(t.c.client);
	event_base_free(t.base);
	return stand_stop(&t.stand);
}

static void agents__find_each_other_and_exchange(void **state)
{
	static const struct nc_pair transports = { "transports", "tcp,shm" };
	const char *allow[] = { "name=b" };
	struct nc_region region = { .name = "kv",
				    .revision = 1,
				    .size = 4096,
				    .access = NC_READ,
				    .allow = allow,
				    .n_allow = 1,
				    .descriptor = "\x00\xff",
				    .descriptor_len = 2 };
	struct nc_link link = { .peer = "b",
				.profile = "default",
				.revision = 1,
				.state = NC_CONNECTED,
				.transport = "shm",
				.attributes = { &transports, 1 } };

	(void)state;
	join(&t.a);
	join(&t.b);
	spin_until_seen(&t.a, NC_EVENT_REGISTERED);

	assert_int_equal(await(&t.b, nc_list_agents(t.b.client, "name=a", NULL, on_agents, &t.b)),
			 0);
	assert_string_equal(t.b.text, "a decode echo");

	assert_int_equal(await(&t.a, nc_publish(t.a.client, &region, on_done, &t.a)), 0);
	spin_until_seen(&t.b, NC_EVENT_REGION);
	assert_int_equal(await(&t.b, nc_get_region(t.b.client, "a", "kv", on_region, &t.b)), 0);
	assert_int_equal(t.b.number, 4096);
	assert_int_equal(t.b.n, 2);
	assert_memory_equal(t.b.bytes, "\x00\xff", 2);

	assert_int_equal(await(&t.a, nc_post_offer(t.a.client, "b", "default", 7, "inc-b", "xyz", 3,
						   on_done, &t.a)),
			 0);
	spin_until_seen(&t.b, NC_EVENT_OFFER);
	assert_int_equal(await(&t.b, nc_get_offer(t.b.client, "a", "default", on_offer, &t.b)), 0);
	assert_int_equal(t.b.number, 7);
	assert_memory_equal(t.b.bytes, "xyz", 3);
	assert_int_equal(await(&t.a, nc_post_offer(t.a.client, "b", "default", 6, NULL, "old", 3,
						   on_done, &t.a)),
			 -ESTALE);
	assert_int_equal(await(&t.a, nc_post_offer(t.a.client, "b", "default", 8, "other", "x", 1,
						   on_done, &t.a)),
			 -ESTALE);
	assert_string_equal(t.a.error.code, "peer_changed");

	assert_int_equal(await(&t.a, nc_report_link(t.a.client, &link, on_done, &t.a)), 0);
	assert_int_equal(await(&t.b, nc_list_links(t.b.client, NULL, NULL, on_links, &t.b)), 0);
	assert_string_equal(t.b.text, "a>b 1 shm tcp,shm");

	assert_int_equal(await(&t.a, nc_leave(t.a.client, on_done, &t.a)), 0);
	spin_until_seen(&t.b, NC_EVENT_LEFT);
	assert_int_equal(await(&t.b, nc_get_region(t.b.client, "a", "kv", on_region, &t.b)),
			 -ENOENT);
}

static void agent__changes_what_it_says(void **state)
{
	static const struct nc_pair label = { "role", "prefill" }, attribute = { "rack", "7" };
	static const struct nc_pairs labels = { &label, 1 }, attributes = { &attribute, 1 };
	static const struct nc_service service = { .name = "sum" };
	struct nc_change change = { .address = "10.0.0.9" };

	(void)state;
	assert_int_equal(nc_update(t.a.client, &change, on_done, &t.a), -ENOKEY);
	join(&t.a);
	join(&t.b);
	assert_int_equal(nc_update(t.a.client, &change, on_done, &t.a), -EINVAL);
	change.revision = 2;
	change.labels = &labels;
	assert_int_equal(await(&t.a, nc_update(t.a.client, &change, on_done, &t.a)), 0);
	spin_until_seen(&t.b, NC_EVENT_CHANGED);
	assert_int_equal(await(&t.b, nc_get_agent(t.b.client, "a", on_agent, &t.b)), 0);
	assert_string_equal(t.b.text, "10.0.0.9 prefill -");
	assert_int_equal(t.b.number, 2);
	assert_int_equal(t.b.n, 1);

	assert_int_equal(await(&t.a, nc_update(t.a.client, &change, on_done, &t.a)), 0);
	change.revision = 1;
	assert_int_equal(await(&t.a, nc_update(t.a.client, &change, on_done, &t.a)), -ESTALE);
	change = (struct nc_change){
		.revision = 3, .attributes = &attributes, .services = &service, .n_services = 1
	};
	assert_int_equal(await(&t.a, nc_update(t.a.client, &change, on_done, &t.a)), 0);
	assert_int_equal(await(&t.b, nc_get_agent(t.b.client, "a", on_agent, &t.b)), 0);
	assert_string_equal(t.b.text, "10.0.0.9 prefill 7");
	assert_int_equal(await(&t.b, nc_list_services(t.b.client, "sum", "role=prefill", NULL,
						      on_providers, &t.b)),
			 0);
	assert_int_equal(t.b.n, 1);
	assert_string_equal(t.b.text, "sum of a inc-a at '10.0.0.9'");

	change = (struct nc_change){ .revision = 4, .address = "", .no_services = true };
	assert_int_equal(await(&t.a, nc_update(t.a.client, &change, on_done, &t.a)), 0);
	assert_int_equal(await(&t.b, nc_get_agent(t.b.client, "a", on_agent, &t.b)), 0);
	assert_string_equal(t.b.text, " prefill 7");
	assert_int_equal(t.b.n, 0);
	assert_int_equal(
		await(&t.b, nc_list_services(t.b.client, NULL, NULL, NULL, on_providers, &t.b)), 0);
	assert_int_equal(t.b.n, 1);
	assert_string_equal(t.b.text, "echo of b inc-b at ''");
}

static void publish(struct agent *g, const char *name, uint64_t revision)
{
	struct nc_region region = { .name = name,
				    .revision = revision,
				    .size = 1,
				    .access = NC_READ,
				    .descriptor = "x",
				    .descriptor_len = 1 };

	assert_int_equal(await(g, nc_publish(g->client, &region, on_done, g)), 0);
}

static void directory__has_the_regions_and_links_of_all(void **state)
{
	struct nc_link link = { .peer = "b",
				.profile = "default",
				.revision = 1,
				.state = NC_BROKEN,
				.transport = "tcp" };

	(void)state;
	join(&t.a);
	join(&t.b);
	publish(&t.a, "kv", 1);
	publish(&t.b, "w", 1);
	assert_int_equal(await(&t.a, nc_list_directory(t.a.client, NULL, NULL, on_directory, &t.a)),
			 0);
	assert_string_equal(t.a.text, "a/kv 0 b/w 0 ");
	assert_int_equal(await(&t.a, nc_list_directory(t.a.client, NULL, "a", on_directory, &t.a)),
			 0);
	assert_string_equal(t.a.text, "b/w 0 ");
	assert_int_equal(await(&t.a, nc_list_directory(t.a.client, "role=decode,name=a", NULL,
						       on_directory, &t.a)),
			 0);
	assert_string_equal(t.a.text, "a/kv 0 ");

	assert_int_equal(await(&t.a, nc_report_link(t.a.client, &link, on_done, &t.a)), 0);
	assert_int_equal(await(&t.b, nc_list_links(t.b.client, "name=b", NULL, on_links, &t.b)), 0);
	assert_int_equal(t.b.n, 0);
	assert_int_equal(await(&t.b, nc_list_links(t.b.client, "name=a", NULL, on_links, &t.b)), 0);
	assert_int_equal(t.b.n, 1);
	assert_int_equal(await(&t.b, nc_list_links_of(t.b.client, "a", on_links, &t.b)), 0);
	assert_string_equal(t.b.text, "a>b 2 tcp -");
	assert_int_equal(await(&t.b, nc_list_links_of(t.b.client, "b", on_links, &t.b)), 0);
	assert_int_equal(t.b.n, 0);
	assert_int_equal(await(&t.b, nc_list_links_of(t.b.client, "c", on_links, &t.b)), -ENOENT);
}

static int list_snapshots(const char *selector, const char *after)
{
	return await(&t.c, nc_list_snapshots(t.c.client, selector, after, on_snapshots, &t.c));
}

static void snapshots__are_listed_by_the_labels_of_their_agents(void **state)
{
	static const struct nc_snapshot snapshot = {
		.session_id = "s", .host = "h", .pid = 7, .interval_ms = 1000
	};

	(void)state;
	create_agent(&t.c, "c", "inc-c", KEY_B);
	join(&t.a);
	join(&t.b);
	assert_int_equal(await(&t.a, nc_put_snapshot(t.a.client, &snapshot, on_done, &t.a)), 0);
	assert_int_equal(await(&t.b, nc_put_snapshot(t.b.client, &snapshot, on_done, &t.b)), 0);
	assert_int_equal(list_snapshots(NULL, NULL), 0);
	assert_int_equal(t.c.n, 2);
	assert_int_equal(list_snapshots("role=decode,name=b", NULL), 0);
	assert_int_equal(t.c.n, 1);
	assert_string_equal(t.c.text, "b");
	assert_int_equal(list_snapshots("role=prefill", NULL), 0);
	assert_int_equal(t.c.n, 0);
	assert_int_equal(list_snapshots("role", NULL), -EINVAL);
}

/* c watches, an agent of its own without a session. */
static void poll__goes_on_from_its_cursor_over_a_killed_server(void **state)
{
	int n;

	(void)state;
	join(&t.a);
	create_agent(&t.c, "c", "inc-c", KEY_B);
	assert_int_equal(await(&t.c, nc_list_directory(t.c.client, NULL, NULL, on_directory, &t.c)),
			 0);
	publish(&t.a, "kv", 1);
	assert_int_equal(
		await(&t.c, nc_poll_events(t.c.client, t.c.cursor, 30000, on_polled, &t.c)), 0);
	assert_string_equal(t.c.text, "4 akv ");
	assert_false(t.c.lost);

	n = t.c.n_done + 1;
	assert_int_equal(nc_poll_events(t.c.client, t.c.cursor, 30000, on_polled, &t.c), 0);
	publish(&t.a, "kv", 2);
	spin_until(t.c.n_done == n);
	assert_string_equal(t.c.text, "4 akv ");

	assert_int_equal(nc_poll_events(t.c.client, t.c.cursor, 30000, on_polled, &t.c), 0);
	server_kill(&t.stand.server);
	server_start(&t.stand.server);
	publish(&t.a, "other", 1);
	spin_until(t.c.n_done == n + 1);
	assert_int_equal(t.c.error.err, 0);
	assert_string_equal(t.c.text, "4 aother ");
	assert_false(t.c.lost);

	assert_int_equal(await(&t.c, nc_poll_events(t.c.client, t.c.cursor, 0, on_polled, &t.c)),
			 0);
	assert_int_equal(t.c.n, 0);
}

static void poll__of_what_is_not_kept_says_that_it_is_lost(void **state)
{
	(void)state;
	join(&t.a);
	assert_int_equal(await(&t.b, nc_poll_events(t.b.client, "7:1", 30000, on_polled, &t.b)), 0);
	assert_true(t.b.lost);
	assert_int_equal(t.b.n, 0);
	publish(&t.a, "kv", 1);
	assert_int_equal(
		await(&t.b, nc_poll_events(t.b.client, t.b.cursor, 30000, on_polled, &t.b)), 0);
	assert_false(t.b.lost);
	assert_string_equal(t.b.text, "4 akv ");
	assert_int_equal(await(&t.b, nc_poll_events(t.b.client, "rubbish", 0, on_polled, &t.b)),
			 -EINVAL);
}

static void poll__of_an_agent_has_what_is_posted_for_it(void **state)
{
	struct nc_registration r = { .name = "b", .incarnation = "inc-b", .owner_key = KEY_B };

	(void)state;
	assert_int_equal(nc_poll_own_events(t.b.client, NULL, 0, on_polled, &t.b), -ENOKEY);
	join(&t.a);
	assert_int_equal(await(&t.b, nc_register(t.b.client, &r, on_grant, &t.b)), 0);
	assert_int_equal(await(&t.b, nc_poll_own_events(t.b.client, NULL, 0, on_polled, &t.b)), 0);
	assert_int_equal(await(&t.a, nc_post_offer(t.a.client, "b", "default", 1, NULL, "x", 1,
						   on_done, &t.a)),
			 0);
	assert_int_equal(
		await(&t.b, nc_poll_own_events(t.b.client, t.b.cursor, 30000, on_polled, &t.b)), 0);
	assert_string_equal(t.b.text, "6 adefault ");
}

static void polls__leave_places_for_other_calls(void **state)
{
	(void)state;
	join(&t.a);
	assert_int_equal(await(&t.b, nc_poll_events(t.b.client, NULL, 0, on_polled, &t.b)), 0);
	for (int i = 0; i < NC_MAX_POLLS; i++)
		assert_int_equal(nc_poll_events(t.b.client, t.b.cursor, 30000, on_polled, &t.b), 0);
	assert_int_equal(nc_poll_events(t.b.client, NULL, 30000, on_polled, &t.b), -EBUSY);
	assert_int_equal(nc_poll_events(t.b.client, NULL, 30001, on_polled, &t.b), -EINVAL);
	assert_int_equal(await(&t.b, nc_get_agent(t.b.client, "a", on_agent, &t.b)), 0);
	publish(&t.a, "kv", 1);
	spin_until(t.b.n_done == 2 + NC_MAX_POLLS);
	assert_string_equal(t.b.text, "4 akv ");
	assert_int_equal(await(&t.b, nc_poll_events(t.b.client, NULL, 1, on_polled, &t.b)), 0);
}

static void session__outlives_a_killed_server(void **state)
{
	(void)state;
	join(&t.a);
	join(&t.b);
	server_kill(&t.stand.server);
	server_start(&t.stand.server);
	spin_until(t.a.n_up == 2 && t.b.n_up == 2);
	assert_int_equal(t.a.n_ended, 0);
	t.a.seen = 0;
	assert_int_equal(await(&t.b, nc_leave(t.b.client, on_done, &t.b)), 0);
	spin_until_seen(&t.a, NC_EVENT_LEFT);
}

static void session__of_a_store_that_lost_its_data_ends_in_resync(void **state)
{
	uint64_t epoch;

	(void)state;
	join(&t.a);
	epoch = t.a.grant.epoch;
	test_redis_kill(&t.stand.redis);
	test_redis_restart(&t.stand.redis);
	spin_until(t.a.n_ended == 1);
	assert_int_equal(t.a.ended, NC_SESSION_RESYNC);
	join(&t.a);
	assert_true(t.a.grant.epoch > epoch);
	assert_false(t.a.grant.resumed);
}

static void register__by_a_newer_process_supersedes_the_older(void **state)
{
	struct nc_registration stranger = { .name = "a", .incarnation = "x", .owner_key = KEY_B };
	struct nc_registration again = { .name = "a", .incarnation = "inc-a", .owner_key = KEY_A };

	(void)state;
	join(&t.a);
	assert_int_equal(await(&t.b, nc_register(t.b.client, &stranger, on_grant, &t.b)), -EEXIST);

	create_agent(&t.c, "a", "inc-c", KEY_A);
	join(&t.c);
	assert_true(t.c.grant.generation > t.a.grant.generation);
	spin_until(t.a.n_ended == 1);
	assert_int_equal(t.a.ended, NC_SESSION_SUPERSEDED);
	assert_int_equal(await(&t.a, nc_register(t.a.client, &again, on_grant, &t.a)),
			 -EKEYREVOKED);
}

static void call__waits_for_a_redis_that_comes_back(void **state)
{
	(void)state;
	join(&t.a);
	test_redis_kill(&t.stand.redis);
	assert_int_equal(nc_get_region(t.a.client, "a", "none", on_region, &t.a), 0);
	/* It meets the 503 at least once before Redis is there again. */
	for (int i = 0; i < 3; i++)
		event_base_loop(t.base, EVLOOP_ONCE);
	test_redis_restart(&t.stand.redis);
	spin_until(t.a.n_done == 2);
	assert_true(t.a.error.err == -ENOENT || t.a.error.err == -EKEYEXPIRED);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(agents__find_each_other_and_exchange),
		T(agent__changes_what_it_says),
		T(directory__has_the_regions_and_links_of_all),
		T(snapshots__are_listed_by_the_labels_of_their_agents),
		T(poll__goes_on_from_its_cursor_over_a_killed_server),
		T(poll__of_what_is_not_kept_says_that_it_is_lost),
		T(poll__of_an_agent_has_what_is_posted_for_it),
		T(polls__leave_places_for_other_calls),
		T(session__outlives_a_killed_server),
		T(session__of_a_store_that_lost_its_data_ends_in_resync),
		T(register__by_a_newer_process_supersedes_the_older),
		T(call__waits_for_a_redis_that_comes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
