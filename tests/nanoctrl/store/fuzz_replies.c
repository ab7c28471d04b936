/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any replies of Redis to any question of ours. The first byte says what is asked; behind it stand
 * the replies, one after the other, and when there are no more the connection breaks. Whatever was
 * asked is called back once, and what comes out of it is told as JSON that is JSON.
 */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <event2/event.h>
#include <jansson.h>
#include <base/utf8.h>
#include "tests/nanoctrl/store/fake_connection.h"
#include "nanoctrl/net/loop.h"
#include "model/model.h"
#include "compat/model.h"
#include "compat/redis_gc.h"
#include "commands/obs_redis.h"
#include "redis/reader.h"
#include <base/log.h>
#include "compat/store.h"
#include "store/reaper.h"
#include "compat/peer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TURNS_MAX 200 /* of the loop, for one input */

/* ---- the replies ---- */

static struct {
	struct redis_reader reader;
	bool empty;  /* there are no more */
	bool pushed; /* they are no answers, but messages of subscriptions */
} input;

static redisReply *next_reply(void)
{
	redisReply *reply = NULL;
	const char *why;

	if (input.empty || redis_reader_next(&input.reader, &reply, &why) || !reply) {
		input.empty = true;
		return NULL;
	}
	return reply;
}

static redisReply *answer(size_t n, const struct fake_word *words)
{
	size_t len = 0;

	for (size_t i = 0; i < n; i++) /* all of it can be read */
		len += strnlen(words[i].at, words[i].len);
	assert(len);
	return input.pushed ? NULL : next_reply();
}

/* ---- what is asked, and what comes of it ---- */

static struct store *store;
static unsigned n_asked, n_told;

static const struct store_lease lease = { "node-a", 7, "00112233" };
static const struct store_text text = { "tex:t", 5 };
static const char scope[] = "scope";

/* Numbers may be larger than jansson's, and texts of the store nested as deep as it reads. */
static void check(char *json)
{
	json_error_t err;
	json_t *root;

	if (!json)
		return;
	root = json_loads(json, JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, &err);
	assert(root || json_error_code(&err) == json_error_numeric_overflow ||
	       json_error_code(&err) == json_error_stack_overflow);
	json_decref(root);
	free(json);
}

static void told(int result)
{
	assert(result >= -4096 && result <= STORE_TOO_LARGE);
	n_told++;
}

static void on_done(void *arg, int result)
{
	(void)arg;
	told(result);
}

static void on_beat(void *arg, int result, uint64_t epoch)
{
	(void)arg;
	(void)epoch;
	told(result);
}

static void on_put(void *arg, int result, bool created)
{
	(void)arg;
	(void)created;
	told(result);
}

static void on_grant(void *arg, int result, const struct store_grant *g)
{
	const struct store_registration r = { .name = "a", .incarnation = "i" };

	(void)arg;
	told(result);
	assert(result != STORE_OK || g);
	if (result == STORE_OK)
		check(model_grant(scope, &r, g, "lease", store_config(store)));
	assert(result != STORE_STALE || !g || !g->holder);
	if (g && g->holder)
		check(model_holder(g->holder));
}

static void on_page(void *arg, int result, const struct store_page *page)
{
	char *whole;

	(void)arg;
	told(result);
	assert(result != STORE_OK || page);
	if (result != STORE_OK)
		return;
	check(model_agents(scope, page, "zone=a,name=b"));
	check(model_services(page, "s", NULL));
	check(model_regions(page, NULL));
	check(model_links(page, "zone=a,name=b"));
	if (page->n_agents)
		check(model_agent(scope, page));
	for (size_t i = 0; i < page->n_agents; i++)
		assert(key_name_valid(page->agents[i].name));
	for (size_t i = 0; i < page->n_objects; i++)
		if (!model_region(&page->objects[i], true, &whole))
			check(whole);
}

static void on_offers(void *arg, int result, const struct store_cursor *cursor,
		      const struct store_offer *offers, size_t n)
{
	(void)arg;
	told(result);
	if (result != STORE_OK)
		return;
	check(model_offers(cursor, offers, n));
	for (size_t i = 0; i < n; i++)
		check(model_offer(&offers[i]));
}

static void take_events(const struct store_events *ev)
{
	const struct store_cursor at = { ev->epoch, ev->last };

	assert(!ev->reset || !ev->n);
	for (size_t i = 0; i < ev->n; i++) {
		const char *line = model_event(ev->epoch, &ev->events[i]);

		assert(!i || ev->events[i].id == ev->events[i - 1].id + 1);
		if (line)
			check(strdup(line));
	}
	check(model_events(ev, &at, ev->reset, "node-a"));
}

static void on_events(void *arg, int result, const struct store_events *ev)
{
	(void)arg;
	told(result);
	assert(result != STORE_OK || ev);
	if (ev)
		take_events(ev);
}

static void on_batch(void *arg, const struct store_events *ev)
{
	(void)arg;
	take_events(ev);
}

static void on_entities(void *arg, int result, const struct store_entities *found)
{
	(void)arg;
	told(result);
	if (result != STORE_OK || !found->n)
		return;
	check(compat_found(found));
	check(compat_mr_info(found));
}

/* A list in batches is told of once, when it is whole. */
static struct out list;

static void end_of_list(int result, bool more)
{
	if (result == STORE_OK && more)
		return;
	told(result);
	if (result == STORE_OK)
		check(out_finish(&list));
	else
		free(list.at);
	list = (struct out){ .at = NULL };
}

static void on_listed(void *arg, int result, const struct store_entities *found)
{
	(void)arg;
	if (result == STORE_OK)
		compat_listed(&list, found);
	end_of_list(result, result == STORE_OK && found->more);
}

static void on_peers(void *arg, int result, const struct store_peer_list *found)
{
	(void)arg;
	if (result == STORE_OK)
		compat_peers(&list, found);
	end_of_list(result, result == STORE_OK && found->more);
}

static void on_started(void *arg, int result, const struct store_peer *peer, size_t n)
{
	const struct compat_request r = { .scope = { "", 0 } };

	(void)arg;
	told(result);
	assert(n == (result == STORE_OK));
	if (n && sl_utf8_valid(peer->name.at, peer->name.len)) /* as the handler does */
		check(compat_started(&r, peer->name, "redis:1"));
}

static void on_snapshots(void *arg, int result, const struct store_snapshots *page)
{
	(void)arg;
	told(result);
	if (result == STORE_OK)
		check(model_snapshots(page, "zone=a"));
}

static void ask_register(void)
{
	const struct store_registration r = {
		.name = "node-a", .incarnation = "i", .owner_hash = "00", .secret_hash = "11"
	};

	store_register(store, scope, &r, on_grant, NULL);
}

static void ask_session(void)
{
	store_open_session(store, scope, &lease, "s", 0, on_grant, NULL);
}

static void ask_agent(void)
{
	store_get_agent(store, scope, "node-a", on_page, NULL);
}

static void ask_agents(void)
{
	store_list_agents(store, scope, "", 10, on_page, NULL);
}

static void ask_beats(void)
{
	n_asked += 2;
	for (int i = 0; i < 3; i++)
		store_beat(store, scope, &lease, "s", &(struct store_cursor){ 0, 1 }, on_beat,
			   NULL);
}

static void ask_leave(void)
{
	store_leave(store, scope, &lease, on_done, NULL);
}

static void ask_put(void)
{
	const struct store_object o = { .name = "kv", .revision = 1, .doc = { "{}", 2 } };

	store_put(store, scope, &lease, STORE_REGION, &o, on_put, NULL);
}

static void ask_object(void)
{
	store_get(store, scope, "node-a", STORE_REGION, "kv", on_page, NULL);
}

static void ask_objects(void)
{
	store_list(store, scope, STORE_LINK, "", 10, true, on_page, NULL);
}

static void ask_offer(void)
{
	store_get_offer(store, scope, &lease, "node-a", "node-b", "default", on_offers, NULL);
}

static void ask_offers(void)
{
	store_list_offers(store, scope, &lease, on_offers, NULL);
}

static void ask_events(void)
{
	const struct store_cursor at = { 5, 9 };

	store_read_events(store, scope, &at, 100, on_events, NULL);
}

static void ask_shared(void)
{
	n_asked += 2;
	for (uint64_t i = 0; i < 3; i++)
		store_share_events(store, scope, &(struct store_cursor){ 5, 9 + i }, on_events,
				   NULL);
}

static struct store_follower follower = { .events = on_batch };
static bool follows;

static void ask_follow(void)
{
	n_asked--;
	follows = store_follow(store, scope, &follower) == 0;
}

static const struct store_entity_id entity = { { "s", 1 }, { "type", 4 }, { "id", 2 } };

static void ask_put_entity(void)
{
	const struct store_entity e = { .info = { "{}", 2 } };

	store_put_entity(store, &entity, &e, on_done, NULL);
}

static void ask_entity(void)
{
	store_get_entity(store, &entity, on_entities, NULL);
}

static void ask_entities(void)
{
	store_list_entities(store, text, text, text, on_listed, NULL);
}

static void ask_put_peer(void)
{
	const struct store_peer p = { .name = text };

	store_put_peer(store, text, &p, text, on_started, NULL);
}

static void ask_peers(void)
{
	store_list_peers(store, text, on_peers, NULL);
}

static void ask_mr(void)
{
	store_get_mr(store, text, text, text, on_entities, NULL);
}

static void ask_snapshots(void)
{
	store_list_snapshots(store, text, text, 10, true, on_snapshots, NULL);
}

static void ask_port(void)
{
	private_port_open(store, on_done, NULL);
}

/* What the housekeeping asks by itself. */
static void keep_house(void)
{
	n_asked--;
}

static void push_all(enum fake_connection which)
{
	redisReply *reply;

	n_asked--;
	while ((reply = next_reply()))
		fake_connection_push(which, reply);
}

static void push_notices(void)
{
	push_all(FAKE_NOTICES);
}

static void push_keys(void)
{
	key_indexer_wait(store->compat->indexer, store->slot); /* a pong may be among them */
	push_all(FAKE_KEYS);
}

static void on_orphan(void *arg, const char *key, size_t len)
{
	(void)arg;
	assert(strlen(key) <= len);
}

static int on_snapshot(void *arg, const char *doc, size_t len, enum obs_lease known)
{
	(void)arg;
	(void)known;
	(void)model_is_snapshot((struct store_text){ doc, len });
	return 0;
}

static const struct redis_url url = { .shown = "redis" };

static void ask_gc(void)
{
	struct redis_gc_report report;

	n_asked--;
	redis_gc(&url, 1000, on_orphan, NULL, &report);
}

static void ask_obs(void)
{
	static const struct redis_obs_scope scopes[] = { { "", "", "default" }, { "", "s:", "s" } };
	struct redis_obs_report report;

	n_asked--;
	redis_obs(&url, 1000, scopes, 2, on_snapshot, NULL, &report);
}

/* By the first byte, modulo their number. */
static void (*const questions[])(void) = {
	ask_register, ask_session,  ask_agent,	   ask_agents,	   ask_beats,  ask_leave,
	ask_put,      ask_object,   ask_objects,   ask_offer,	   ask_offers, ask_events,
	ask_shared,   ask_follow,   ask_entity,	   ask_put_entity, ask_mr,     ask_entities,
	ask_peers,    ask_put_peer, ask_snapshots, ask_port,	   keep_house, push_notices,
	push_keys,    ask_gc,	    ask_obs,
};

/* ---- one input ---- */

static void ask(uint8_t what)
{
	void (*question)(void) = questions[what % (sizeof(questions) / sizeof(*questions))];

	/* Beside the one question nothing is asked, unless it is the housekeeping's. */
	if (question != keep_house && question != push_notices && question != push_keys) {
		reaper_destroy(store->reaper);
		key_indexer_destroy(store->compat->indexer);
		store->reaper = NULL;
		store->compat->indexer = NULL;
	}
	n_asked++;
	input.pushed = question == push_notices || question == push_keys;
	event_base_loop(store->base, EVLOOP_NONBLOCK);
	question();
	for (int i = 0; i < TURNS_MAX && !input.empty; i++)
		event_base_loop(store->base, EVLOOP_NONBLOCK);
}

static void begin(void)
{
	struct store_config config = STORE_CONFIG_INIT;
	struct store_hub *hub;
	struct loop *loop;

	fake_connections_begin(answer);
	n_asked = n_told = 0;
	follows = false;
	config.compat = &compat_store;
	config.ttl_ms = 0; /* what leases do begins at once */
	assert(!store_hub_create(&config, &hub));
	assert(!loop_create(&loop));
	assert(!store_create(hub, loop, &store));
}

static void finish(void)
{
	struct store_hub *hub = store->hub;
	struct loop *loop = store->loop;

	if (follows)
		store_unfollow(store, &follower);
	store_destroy(store);
	loop_destroy(loop);
	store_hub_destroy(hub);
	assert(n_asked == n_told);
}

static void be_silent(void *arg, enum slime_log_level level, const char *part, const char *line)
{
	(void)arg;
	(void)level;
	(void)part;
	for (size_t left = strlen(line), n; left; line += n, left -= n) {
		n = sl_utf8_char(line, left);
		assert(n && !sl_utf8_is_control(line, n));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	slime_log_set(be_silent, NULL, SLIME_LOG_INFO);
	input.empty = false;
	assert(!redis_reader_init(&input.reader));
	assert(!redis_reader_feed(&input.reader, (const char *)data + 1, size - 1, SIZE_MAX));
	begin();
	ask(*data);
	finish();
	redis_reader_fini(&input.reader);
	return 0;
}
