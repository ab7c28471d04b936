/* SPDX-License-Identifier: Apache-2.0 */
/* Where clients are told that Redis is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <string.h>
#include <cmocka.h>

#include "compat/store.h"

static const char *address_with(const char *url, const char *client, const char *advertise,
				const char *public)
{
	static char out[STORE_REDIS_ADDRESS_MAX];
	struct store_config config = STORE_CONFIG_INIT;
	struct store store = { .hub = NULL };
	int ret;

	config.compat = &compat_store;
	config.url = url;
	config.advertise = advertise;
	config.public_address = public;
	assert_int_equal(store_hub_create(&config, &store.hub), 0);
	ret = store_redis_address(
		&store, (struct store_text){ client, client ? strlen(client) : 0 }, true, out);
	store_hub_destroy(store.hub);
	return ret ? "none" : out;
}

static const char *address(const char *url, const char *client)
{
	return address_with(url, client, NULL, NULL);
}

/* As the original does, but that all of 127/8 is this host. */
static void redis_address__that_is_public_is_for_clients_elsewhere(void **state)
{
	static const struct {
		const char *url, *client, *advertise, *told;
	} cases[] = {
		{ "redis://127.0.0.1:7000", "10.0.0.9", NULL, "10.1.2.3" },
		{ "redis://127.0.0.1:7000", "", NULL, "10.1.2.3" },
		{ "redis://localhost:7000", "10.0.0.9", NULL, "10.1.2.3" },
		{ "unix:///run/redis.sock", "10.0.0.9", NULL, "10.1.2.3" },
		{ "redis://127.0.0.1:7000", "127.0.0.1", NULL, "127.0.0.1:7000" },
		{ "redis://127.0.0.1:7000", "localhost", NULL, "127.0.0.1:7000" },
		/* Names of other hosts, whatever they begin with. */
		{ "redis://127.example.com:7000", "10.0.0.9", NULL, "127.example.com:7000" },
		{ "redis://localhost.example.com:7000", "10.0.0.9", NULL,
		  "localhost.example.com:7000" },
		{ "unix:///run/redis.sock", "127.0.0.1", NULL, "none" },
		{ "redis://10.0.0.5:7000", "10.0.0.9", NULL, "10.0.0.5:7000" },
		{ "redis://127.0.0.1:7000", "10.0.0.9", "a:1", "a:1" },
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(
			address_with(cases[i].url, cases[i].client, cases[i].advertise, "10.1.2.3"),
			cases[i].told);
	/* Who asks only where it is has no address. */
	assert_string_not_equal(address_with("redis://127.0.0.1:7000", NULL, NULL, "10.1.2.3"),
				"10.1.2.3");
}

static void redis_address__is_one_that_the_client_can_use(void **state)
{
	(void)state;
	assert_string_equal(address("redis://10.0.0.5:7000", "127.0.0.1"), "10.0.0.5:7000");
	assert_string_equal(address("redis://10.0.0.5:7000", ""), "10.0.0.5:7000");
	assert_string_equal(address("redis://127.0.0.1:7000", "127.0.0.1"), "127.0.0.1:7000");
	/* Debian's own name for the host is loopback, too. */
	assert_string_equal(address("redis://127.0.0.1:7000", "127.0.1.1"), "127.0.0.1:7000");
	assert_string_equal(address("redis://localhost:7000", "::1"), "localhost:7000");
	assert_string_not_equal(address("redis://127.0.0.1:7000", "10.0.0.9"), "none");
	assert_string_equal(address("redis://:secret@10.0.0.5:7000", "x"), "none");
	assert_string_equal(address("redis://10.0.0.5:7000/1", "x"), "none");
	assert_string_equal(address("redis://[fd00::1]:7000", "x"), "none");
	assert_string_equal(address("unix:///run/redis.sock", "127.0.0.1"), "none");
}

/* Whatever is told: it would lead to a Redis that accepts no client. */
static void redis_address__of_a_redis_for_nobody_else_names_the_setting(void **state)
{
	static const char *const clients[] = { "127.0.0.1", "10.0.0.9", "" };
	struct store_config config = STORE_CONFIG_INIT;
	char out[STORE_REDIS_ADDRESS_MAX];
	struct store store = { .hub = NULL };

	(void)state;
	config.compat = &compat_store;
	config.url = "unix://nanoctrl:word@/run/redis.sock";
	config.advertise = "a:1";
	config.public_address = "b:2";
	assert_int_equal(store_hub_create(&config, &store.hub), 0);
	private_port_set(store.hub, 0);
	for (size_t i = 0; i < sizeof(clients) / sizeof(clients[0]); i++) {
		assert_int_equal(
			store_redis_address(&store,
					    (struct store_text){ clients[i], strlen(clients[i]) },
					    true, out),
			-ENOTSUP);
		assert_non_null(strstr(out, "redis.compat_port"));
	}
	store_hub_destroy(store.hub);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(redis_address__of_a_redis_for_nobody_else_names_the_setting),
		cmocka_unit_test(redis_address__that_is_public_is_for_clients_elsewhere),
		cmocka_unit_test(redis_address__is_one_that_the_client_can_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
