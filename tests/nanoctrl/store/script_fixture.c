/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nanoctrl/store/script_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include "store/store.h"

int script_setup(void **state)
{
	static struct script_fixture f;

	test_redis_start(&f.redis);
	f.c = redisConnectUnix(f.redis.socket);
	assert_true(f.c && !f.c->err);
	*state = &f;
	return 0;
}

int script_teardown(void **state)
{
	struct script_fixture *f = *state;

	redisFree(f->c);
	test_redis_stop(&f->redis);
	return 0;
}

redisReply *script_run(struct script_fixture *f, const struct script *script, const char *prefix,
		       const char *args)
{
	const char *argv[64] = { "EVAL", (const char *)script->text, "1", prefix, "1000" };
	size_t len[64] = { 4, script->len, 1, strlen(prefix), 4 };
	char text[4096];
	redisReply *r;
	int n = 5;

	snprintf(text, sizeof(text), "%s", args);
	for (char *at = text, *end; at; at = end ? end + 1 : NULL) {
		end = strchr(at, '|');
		assert_in_range(n, 5, 63);
		argv[n] = at;
		len[n++] = end ? (size_t)(end - at) : strlen(at);
	}
	r = redisCommandArgv(f->c, n, argv, len);
	assert_non_null(r);
	if (r->type != REDIS_REPLY_ARRAY)
		fail_msg("%s: %s", script->name, r->str ? r->str : "no array");
	assert_int_equal(r->element[0]->integer, STORE_OK);
	return r;
}

const char *script_run_for(struct script_fixture *f, const struct script *script,
			   const char *prefix, const char *args)
{
	static char answer[64];
	redisReply *r = script_run(f, script, prefix, args);
	const redisReply *e = r->elements > 3 ? r->element[3] : NULL;

	if (e && e->type == REDIS_REPLY_INTEGER)
		snprintf(answer, sizeof(answer), "%lld", e->integer);
	else
		snprintf(answer, sizeof(answer), "%s", e ? e->str : "");
	freeReplyObject(r);
	return answer;
}
