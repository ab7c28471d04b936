/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nanoctrl/compat/foreign_fixture.h"

#include <stdlib.h>
#include <string.h>
#include <hiredis/hiredis.h>
#include "compat/store.h"

bool says(const struct api_fixture *f, const char *text)
{
	char *all = json_dumps(f->said.body, JSON_COMPACT | JSON_SORT_KEYS);
	bool found = strstr(all, text) != NULL;

	free(all);
	return found;
}

void until_post(struct api_fixture *f, const char *path, const char *body, const char *text)
{
	uint64_t start = sl_clock_ns();

	do {
		if (sl_clock_ns() - start > GIVE_UP_NS)
			fail_msg("%s never says %s", path, text);
	} while (api_post(f, path, body) != 200 || !says(f, text));
}

void until_true(struct api_fixture *f, const char *script)
{
	uint64_t start = sl_clock_ns();

	while (test_redis_do(&f->redis, "EVAL %s 0", script) != 1)
		if (sl_clock_ns() - start > GIVE_UP_NS)
			fail_msg("%s is never 1", script);
}

bool redis_says(struct api_fixture *f, const char *command, size_t i, const char *words)
{
	redisContext *c = redisConnectUnix(f->redis.socket);
	redisReply *all = redisCommand(c, command), *one = all;
	bool found;

	assert_non_null(all);
	if (all->type == REDIS_REPLY_ARRAY)
		one = i < all->elements ? all->element[i] : NULL;
	found = one && one->str && strstr(one->str, words);
	freeReplyObject(all);
	redisFree(c);
	return found;
}

void until_redis_says(struct api_fixture *f, const char *command, size_t i, const char *words)
{
	uint64_t start = sl_clock_ns();

	while (!redis_says(f, command, i, words))
		if (sl_clock_ns() - start > GIVE_UP_NS)
			fail_msg("%s never says %s", command, words);
}

void reconnect(struct api_fixture *f)
{
	uint64_t start = sl_clock_ns();
	uint64_t before = atomic_load(&f->hub->n_reconnects);

	test_redis_do(&f->redis, "CLIENT KILL TYPE normal SKIPME yes");
	while (atomic_load(&f->hub->n_reconnects) == before)
		if (sl_clock_ns() - start > GIVE_UP_NS)
			fail_msg("it does not come back");
}

void until_redis(struct api_fixture *f, long long n, const char *command)
{
	uint64_t start = sl_clock_ns();

	while (test_redis_do(&f->redis, command) != n)
		if (sl_clock_ns() - start > GIVE_UP_NS)
			fail_msg("%s is never %lld", command, n);
}

void write_agent(struct api_fixture *f, const char *key)
{
	test_redis_do(&f->redis, "HSET %s addr 10.0.0.1 updated_at 1 memory_keys []", key);
	test_redis_do(&f->redis, "EXPIRE %s 60", key);
}

void write_entity(struct api_fixture *f, const char *key, const char *type, const char *id)
{
	test_redis_do(&f->redis, "HSET %s entity_type %s entity_id %s kind k info %s", key, type,
		      id, "{\"entity_id\":\"theirs\"}");
	test_redis_do(&f->redis, "EXPIRE %s 60", key);
}

/* Redis tells, and what was there before has been looked through. */
static int until_told(const struct api_fixture *f)
{
	uint64_t start = sl_clock_ns();

	while (!atomic_load(&f->hub->compat->told) || atomic_load(&f->hub->compat->scanning))
		if (sl_clock_ns() - start > GIVE_UP_NS)
			fail_msg("Redis never tells");
	return 0;
}

int foreign_setup(void **state)
{
	api_setup_advertised(state);
	return until_told(*state);
}

int foreign_setup_as_a_program(void **state)
{
	api_setup_as_a_program(state);
	return until_told(*state);
}
