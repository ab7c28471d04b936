/* SPDX-License-Identifier: Apache-2.0 */
/* Names, and where Redis is. */
#include "store/key.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "redis/url.h"

static void name__is_of_the_allowed_bytes(void **state)
{
	char longest[KEY_NAME_MAX + 2];

	(void)state;
	memset(longest, 'a', sizeof(longest));
	longest[KEY_NAME_MAX + 1] = '\0';
	assert_false(key_name_valid(longest));
	longest[KEY_NAME_MAX] = '\0';
	assert_true(key_name_valid(longest));
	assert_true(key_name_valid("A-z_0.9@x:y"));
	assert_false(key_name_valid(""));
	assert_false(key_name_valid("a/b"));
	assert_false(key_name_valid("a b"));
	assert_false(key_name_valid("*"));
}

static void scope__has_no_colon_and_is_no_reserved_word(void **state)
{
	(void)state;
	assert_true(key_scope_valid("demo"));
	assert_false(key_scope_valid("a:b"));
	assert_false(key_scope_valid("{a}"));
	assert_false(key_scope_valid("agent"));
	assert_false(key_scope_valid("nanoctrl"));
	assert_true(key_scope_valid("agents"));
}

static bool wakes(const struct key_names *names, const char *channel, char *scope)
{
	return key_wake_scope(names, channel, strlen(channel), scope);
}

static void wake__names_its_scope(void **state)
{
	char scope[KEY_NAME_MAX + 1];
	struct key_names names;

	(void)state;
	key_names_init(&names, false);
	assert_true(wakes(&names, "{demo}:nanoctrl:wake", scope));
	assert_string_equal(scope, "demo");
	assert_false(wakes(&names, "{de}mo}:nanoctrl:wake", scope));
	assert_false(wakes(&names, "}:nanoctrl:wake", scope));
	assert_false(wakes(&names, "{}:nanoctrl:wake", scope));
	assert_false(wakes(&names, "{nanoctrl}:{demo}:nanoctrl:wake", scope));
	assert_false(wakes(&names, "", scope));
}

static void keys__of_a_cluster_have_one_tag(void **state)
{
	char scope[KEY_NAME_MAX + 1], prefix[KEY_PREFIX_MAX];
	struct key_names names;

	(void)state;
	key_names_init(&names, true);
	assert_string_equal(names.scopes, "{nanoctrl}:nanoctrl:scopes");
	assert_string_equal(names.ends, "{nanoctrl}:nanoctrl:ends");
	assert_string_equal(names.schema, "{nanoctrl}:nanoctrl:schema");
	assert_string_equal(names.run, "{nanoctrl}:nanoctrl:run");
	key_prefix(prefix, &names, "demo");
	assert_string_equal(prefix, "{nanoctrl}:{demo}:nanoctrl:");
	assert_true(wakes(&names, "{nanoctrl}:{demo}:nanoctrl:wake", scope));
	assert_string_equal(scope, "demo");
	assert_false(wakes(&names, "{demo}:nanoctrl:wake", scope));
	assert_false(wakes(&names, "{nanoctrl}:", scope));
}

static void url__is_taken_apart(void **state)
{
	struct redis_url u;
	const char *why;

	(void)state;
	assert_int_equal(redis_url_parse("redis://u:p%40ss@[::1]:7000/3", &u, &why), 0);
	assert_string_equal(u.host, "::1");
	assert_string_equal(u.user, "u");
	assert_string_equal(u.password, "p@ss");
	assert_int_equal(u.port, 7000);
	assert_int_equal(u.db, 3);
	assert_null(strstr(u.shown, "ss"));
	redis_url_fini(&u);
	assert_int_equal(redis_url_parse("redis://host", &u, &why), 0);
	assert_int_equal(u.port, 6379);
	assert_null(u.password);
	redis_url_fini(&u);
	assert_int_equal(redis_url_parse("unix:///run/r.sock?db=2", &u, &why), 0);
	assert_string_equal(u.path, "/run/r.sock");
	assert_int_equal(u.db, 2);
	assert_null(u.password);
	redis_url_fini(&u);
	assert_int_equal(redis_url_parse("unix://u:p%40ss@/run/r@/r.sock?db=2", &u, &why), 0);
	assert_string_equal(u.path, "/run/r@/r.sock");
	assert_string_equal(u.user, "u");
	assert_string_equal(u.password, "p@ss");
	assert_string_equal(u.shown, "unix:///run/r@/r.sock?db=2");
	redis_url_fini(&u);
	assert_int_equal(redis_url_parse("unix://u:p@host/r.sock", &u, &why), -EINVAL);
	assert_int_equal(redis_url_parse("unix://u/r.sock", &u, &why), -EINVAL);
}

static void url__of_sentinels_names_them_and_the_primary(void **state)
{
	struct redis_url u;
	const char *why;

	(void)state;
	assert_int_equal(
		redis_url_parse("redis+sentinel://u:p%40ss@a,[::1]:7,b:8/main/2", &u, &why), 0);
	assert_null(u.host);
	assert_int_equal(u.n_seeds, 3);
	assert_string_equal(u.seeds[0].host, "a");
	assert_int_equal(u.seeds[0].port, 26379);
	assert_string_equal(u.seeds[1].host, "::1");
	assert_int_equal(u.seeds[1].port, 7);
	assert_string_equal(u.seeds[2].host, "b");
	assert_int_equal(u.seeds[2].port, 8);
	assert_string_equal(u.primary, "main");
	assert_int_equal(u.db, 2);
	assert_string_equal(u.password, "p@ss");
	assert_string_equal(u.shown, "redis+sentinel://a,[::1]:7,b:8/main/2");
	redis_url_fini(&u);
	assert_int_equal(redis_url_parse("redis+sentinel://a/main", &u, &why), 0);
	assert_int_equal(u.db, 0);
	redis_url_fini(&u);
}

static void url__of_a_cluster_names_some_nodes(void **state)
{
	struct redis_url u;
	const char *why;

	(void)state;
	assert_int_equal(redis_url_parse("redis+cluster://u:p%40ss@a,[::1]:7,b:8", &u, &why), 0);
	assert_int_equal(u.kind, REDIS_CLUSTER);
	assert_null(u.host);
	assert_int_equal(u.n_seeds, 3);
	assert_string_equal(u.seeds[0].host, "a");
	assert_int_equal(u.seeds[0].port, 6379);
	assert_string_equal(u.seeds[1].host, "::1");
	assert_int_equal(u.seeds[2].port, 8);
	assert_string_equal(u.password, "p@ss");
	assert_string_equal(u.shown, "redis+cluster://a,[::1]:7,b:8");
	redis_url_fini(&u);
	assert_int_equal(redis_url_parse("redis+cluster://a/", &u, &why), 0);
	redis_url_fini(&u);
}

static void url__that_is_none_is_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"http://x",
		"redis://",
		"redis://:1",
		"redis://h:0",
		"redis://h:99999",
		"redis://h:x",
		"redis://[::1",
		"redis://u@h",
		"redis://h/x",
		"unix://rel",
		"unix:///a?x=1",
		"redis://u:%zz@h",
		"redis://[::1]x",
		"redis+sentinel://a",
		"redis+sentinel://a/",
		"redis+sentinel:///main",
		"redis+sentinel://a,/main",
		"redis+sentinel://a,,b/main",
		"redis+sentinel://a//1",
		"redis+sentinel://a/main/x",
		"redis+sentinel://a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q/main",
		"redis+cluster://",
		"redis+cluster:///",
		"redis+cluster://a,,b",
		"redis+cluster://a/1",
		"redis+cluster://a:0",
		"redis+cluster://a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q"
	};
	struct redis_url u;
	const char *why = NULL;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(redis_url_parse(bad[i], &u, &why), -EINVAL);
		assert_non_null(why);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(name__is_of_the_allowed_bytes),
		cmocka_unit_test(scope__has_no_colon_and_is_no_reserved_word),
		cmocka_unit_test(wake__names_its_scope),
		cmocka_unit_test(keys__of_a_cluster_have_one_tag),
		cmocka_unit_test(url__is_taken_apart),
		cmocka_unit_test(url__of_sentinels_names_them_and_the_primary),
		cmocka_unit_test(url__of_a_cluster_names_some_nodes),
		cmocka_unit_test(url__that_is_none_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
