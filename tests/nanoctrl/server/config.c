/* SPDX-License-Identifier: Apache-2.0 */
/* Each setting reaches the one place that it is for. */
#include "server/compat.h"
#include "mooncake/routes.h"
#include "server/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "cli/options/config.h"

struct all {
	struct store_config store;
	struct server_config server;
	struct cli_log_attr log;
};

#define FIELD(member) offsetof(struct all, member), sizeof(((struct all *)0)->member)

/* Each with a value of its own. */
static const struct row {
	const char *key, *value;
	size_t at, size;
	uint64_t number;
	const char *text; /* in the place of a number */
} rows[] = {
	{ "server.host", "127.0.0.2", FIELD(server.host), 0, "127.0.0.2" },
	{ "server.port", "4001", FIELD(server.port), 4001, NULL },
	{ "server.second_port", "4002", FIELD(server.second_port), 4002, NULL },
	{ "server.threads", "63", FIELD(server.n_loops), 63, NULL },
	{ "server.busy_poll", "7us", FIELD(server.busy_poll_ns), 7000, NULL },
	{ "server.max_connections", "201", FIELD(server.max_connections), 201, NULL },
	{ "server.max_body", "20001", FIELD(server.limits.body_bytes), 20001, NULL },
	{ "server.max_list", "20002", FIELD(store.max_list), 20002, NULL },
	{ "server.max_queue", "20003", FIELD(server.stream_queue), 20003, NULL },
	{ "server.idle_timeout", "202ms", FIELD(server.idle_ms), 202, NULL },
	{ "server.request_timeout", "203ms", FIELD(server.request_ms), 203, NULL },
	{ "server.stall_timeout", "204ms", FIELD(server.stall_ms), 204, NULL },
	{ "server.session_tick", "205ms", FIELD(server.tick_ms), 205, NULL },
	{ "server.session_age", "1206ms", FIELD(server.stream_age_ms), 1206, NULL },
	{ "server.drain_accept", "207ms", FIELD(server.drain_accept_ms), 207, NULL },
	{ "server.drain", "208ms", FIELD(server.drain_ms), 208, NULL },
	{ "redis.url", "redis://one:1", FIELD(store.url), 0, "redis://one:1" },
	{ "redis.advertise", "two:2", FIELD(store.advertise), 0, "two:2" },
	{ "redis.public_address", "three:3", FIELD(store.public_address), 0, "three:3" },
	{ "redis.timeout", "209ms", FIELD(store.timeout_ms), 209, NULL },
	{ "redis.max_inflight", "210", FIELD(store.max_inflight), 210, NULL },
	{ "lease.ttl", "1211ms", FIELD(store.ttl_ms), 1211, NULL },
	{ "lease.beat", "212ms", FIELD(store.beat_ms), 212, NULL },
	{ "lease.grace", "213ms", FIELD(store.grace_ms), 213, NULL },
	{ "lease.max_objects", "214", FIELD(store.max_objects), 214, NULL },
	{ "events.keep", "215", FIELD(store.keep_events), 215, NULL },
	{ "events.keep_for", "1216ms", FIELD(store.keep_ms), 1216, NULL },
	{ "log.level", "debug", FIELD(log.level), SLIME_LOG_DEBUG, NULL },
	{ "log.format", "json", FIELD(log.format), CLI_LOG_JSON, NULL },
	{ "log.access", "true", FIELD(server.access_log), true, NULL },
};

#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

/* compat has a test below; the others are of the program and of the private Redis: cli_settings.sh
 * and cli_redis.sh. */
static const char *const elsewhere[] = { "server.compat",     "server.mooncake", "server.names",
					 "server.insecure",   "redis.program",	 "redis.data_dir",
					 "redis.compat_port", "redis.max_memory" };

static struct cli_config *config;
static struct route routes[ROUTES_MAX];

/* What the program would take of a file with this one key; of one without any for NULL. */
static struct all take(const char *key, const char *value)
{
	struct settings s;
	struct all all;
	char text[200];

	memset(&s, 0, sizeof(s));
	cli_config_destroy(config);
	assert_int_equal(cli_config_create(&config), 0);
	snprintf(text, sizeof(text), "version: 1\n%.*s%s%s%s%s\n", key ? (int)strcspn(key, ".") : 0,
		 key ? key : "", key ? ":\n  " : "", key ? strchr(key, '.') + 1 : "",
		 key ? ": " : "", key ? value : "");
	if (cli_config_load_text(config, "nanoctrl.yaml", text, strlen(text)) ||
	    cli_config_read(config, settings_table, &s))
		fail_msg("%s", cli_config_error(config, 0));
	if (!key || strcmp(key, "server.compat") != 0)
		s.server.compat = COMPAT_LOOPBACK; /* also where the default is another one */
	all.store = serve_store_config(&s);
	all.server = serve_server_config(&s, routes);
	all.log = serve_log_attr(&s, "the log");
	return all;
}

static uint64_t number_in(const struct all *all, const struct row *r)
{
	const void *at = (const char *)all + r->at;

	switch (r->size) {
	case sizeof(uint8_t):
		return *(const uint8_t *)at;
	case sizeof(uint16_t):
		return *(const uint16_t *)at;
	case sizeof(uint32_t):
		return *(const uint32_t *)at;
	default:
		return *(const uint64_t *)at;
	}
}

static const char *text_in(const struct all *all, const struct row *r)
{
	const char *text = *(const char *const *)(const void *)((const char *)all + r->at);

	return text ? text : "";
}

static bool has_its_value(const struct all *all, const struct row *r)
{
	return r->text ? !strcmp(text_in(all, r), r->text) : number_in(all, r) == r->number;
}

/* A key that others take as well, or instead, would change more than its own place. */
static void setting__reaches_its_own_place_and_no_other(void **state)
{
	struct all all;

	(void)state;
	for (size_t i = 0; i < N_ROWS; i++) {
		all = take(rows[i].key, rows[i].value);
		for (size_t k = 0; k < N_ROWS; k++)
			if (has_its_value(&all, &rows[k]) != (i == k))
				fail_msg("%s %s the place of %s", rows[i].key,
					 i == k ? "does not reach" : "is in", rows[k].key);
	}
	assert_string_equal(all.log.file, "the log");
	assert_string_equal(all.log.queued, "access");
}

static void setting__that_is_absent_has_another_value(void **state)
{
	struct all all = take(NULL, NULL);

	(void)state;
	for (size_t i = 0; i < N_ROWS; i++)
		if (has_its_value(&all, &rows[i]))
			fail_msg("%s shows nothing", rows[i].key);
	assert_null(all.store.url);
	assert_in_range(all.server.n_loops, 1, 4);
}

static bool is_known(const char *key)
{
	for (size_t i = 0; i < N_ROWS; i++)
		if (!strcmp(rows[i].key, key))
			return true;
	for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
		if (!strcmp(elsewhere[i], key))
			return true;
	return false;
}

static void setting__of_the_table_is_known_here(void **state)
{
	char key[64];

	(void)state;
	for (const struct cli_setting *map = settings_table; map->name; map++)
		for (const struct cli_setting *s = map->table; s && s->name; s++) {
			snprintf(key, sizeof(key), "%s.%s", map->name, s->name);
			if (!is_known(key))
				fail_msg("nothing says where %s goes", key);
		}
}

static void compat__says_which_routes_there_are_and_for_whom(void **state)
{
	struct all all = take("server.compat", "off");

	(void)state;
	size_t n_own = all.server.n_routes;

	assert_ptr_equal(all.server.routes, routes);
	assert_true(n_own > 30);
	assert_int_equal(all.server.n_local, 0);
	all = take("server.compat", "loopback");
	assert_int_equal(all.server.n_routes, n_own + compat.n_routes);
	assert_int_equal(all.server.n_local, compat.n_routes);
	all = take("server.compat", "open");
	assert_int_equal(all.server.n_routes, n_own + compat.n_routes);
	assert_int_equal(all.server.n_local, 0);
}

/* Those for this host only come last, whichever setting says so. */
static void mooncake__says_whether_there_is_metadata_and_for_whom(void **state)
{
	struct all all = take("server.mooncake", "off");
	size_t n = all.server.n_routes;

	(void)state;
	assert_int_equal(all.server.n_local, compat.n_routes);
	all = take("server.mooncake", "loopback");
	assert_int_equal(all.server.n_routes, n + mooncake_n_routes);
	assert_int_equal(all.server.n_local, compat.n_routes + mooncake_n_routes);
	all = take("server.mooncake", "open");
	assert_int_equal(all.server.n_routes, n + mooncake_n_routes);
	assert_int_equal(all.server.n_local, compat.n_routes);
	assert_string_equal(routes[n - compat.n_routes].path, "/metadata");
}

/* Nor is it tried whether they could reach it. */
static void compat__that_is_off_tells_nobody_where_redis_is(void **state)
{
	struct settings s = { .redis = { .advertise = "two:2", .public_address = "three:3" } };

	(void)state;
	s.server.compat = COMPAT_OFF;
	assert_null(serve_store_config(&s).advertise);
	assert_null(serve_store_config(&s).public_address);
	s.server.compat = COMPAT_OPEN;
	assert_string_equal(serve_store_config(&s).advertise, "two:2");
	assert_string_equal(serve_store_config(&s).public_address, "three:3");
}

static void max_body__leaves_memory_for_several_bodies(void **state)
{
	struct all all = take("server.max_body", "1GiB");

	(void)state;
	assert_int_equal(all.server.body_memory, UINT64_C(4) << 30);
	all = take("server.max_body", "1KiB");
	assert_int_equal(all.server.body_memory, 64 << 20);
}

/* Else those who connect first would take what a loop needs to reach Redis again. */
static void connections__leave_descriptors_to_each_loop(void **state)
{
	(void)state;
	assert_int_equal(serve_connections(65536, 4), 65536 - 64);
	for (unsigned loops = 1; loops <= 64; loops++)
		assert_true(serve_connections(2048, loops) + 16 + 6 * loops <= 2048);
	assert_int_equal(serve_connections(20, 64), 10);
	assert_int_equal(serve_connections(UINT64_MAX, 64), UINT32_MAX);
}

static int forget(void **state)
{
	(void)state;
	cli_config_destroy(config);
	config = NULL;
	return 0;
}

#define TEST(name) cmocka_unit_test_teardown(name, forget)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(setting__reaches_its_own_place_and_no_other),
		TEST(setting__that_is_absent_has_another_value),
		TEST(setting__of_the_table_is_known_here),
		TEST(compat__says_which_routes_there_are_and_for_whom),
		TEST(mooncake__says_whether_there_is_metadata_and_for_whom),
		TEST(compat__that_is_off_tells_nobody_where_redis_is),
		TEST(max_body__leaves_memory_for_several_bodies),
		TEST(connections__leave_descriptors_to_each_loop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
